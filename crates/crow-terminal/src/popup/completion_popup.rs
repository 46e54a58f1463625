//! The state of the list: the word it belongs to, its entries, and the selected one.
//!
//! The list opens when a word is typed, follows it, and stays closed for a word for which it was closed. Entries of an
//! earlier query that match the current one stay until the results of that arrive.

use crow_text::one_line;

use super::{
    command_matches::{CommandMatch, ListedCommand, MatchedPart, matching},
    popup_rows::{CommandRow, RowKind, file_row, more_row, note_row, shown},
};
use crate::{
    editor::{CompletionContext, CompletionKind},
    file_index::FileMatch,
    fuzzy_matcher::{FuzzyMatcher, FuzzyQuery},
    styled_text::StyledLine,
};

/// Number of rows before the first view.
const DEFAULT_ROOM: usize = 7;

/// The reason for which the word at the cursor may be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditCause {
    /// A key changed the text.
    Typed,
    Pasted,
    /// The cursor was moved.
    Moved,
    /// The text is an earlier prompt.
    Recalled,
}

/// Direction in which the selection moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PopupStep {
    Previous,
    Next,
}

/// The entry to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PopupChoice {
    /// A command that can be run without an argument.
    Command { name: String },
    /// A command that needs an argument.
    CommandWithArgument { name: String },
    /// A file or directory.
    File { path: String },
}

/// The list of what can be completed.
#[derive(Debug)]
pub(crate) struct CompletionPopup {
    commands: Vec<ListedCommand>,
    state: PopupState,
    /// Number of rows that the list can have.
    room: usize,
}

#[derive(Debug)]
enum PopupState {
    Closed,
    /// Closed for the word of this kind at this place.
    Dismissed(CompletionKind, usize),
    Open(OpenPopup),
}

/// The list of a word.
#[derive(Debug)]
struct OpenPopup {
    /// Where the word begins.
    start: usize,
    typed: String,
    entries: PopupEntries,
    /// The entry that was selected with a key.
    selected: Option<usize>,
    /// The first entry in the last view.
    top: usize,
}

#[derive(Debug)]
enum PopupEntries {
    Commands(Vec<CommandMatch>),
    /// Files, which are preliminary until there are results for what is typed.
    Files {
        matches: Vec<FileMatch>,
        are_final: bool,
    },
}

impl CompletionPopup {
    pub(crate) fn new(commands: Vec<ListedCommand>) -> Self {
        let commands = commands.into_iter().map(|command| ListedCommand {
            argument: one_line(&command.argument),
            description: one_line(&command.description),
            name: command.name,
        });
        Self { commands: commands.collect(), state: PopupState::Closed, room: DEFAULT_ROOM }
    }

    /// Sets the number of rows that the list can have.
    pub(crate) fn set_room(&mut self, rows: usize) {
        self.room = rows;
    }

    /// Takes the word at the cursor into account.
    pub(crate) fn follow(&mut self, context: Option<CompletionContext>, cause: EditCause) {
        let Some(context) = context else {
            self.state = PopupState::Closed;
            return;
        };
        match (&mut self.state, cause) {
            (PopupState::Open(open), _) if open.is_of(&context) && open.typed == context.typed => {}
            (PopupState::Open(open), EditCause::Typed | EditCause::Pasted | EditCause::Moved)
                if open.is_of(&context) =>
            {
                open.retype(context.typed, &self.commands);
            }
            (PopupState::Dismissed(kind, start), _)
                if (*kind, *start) == (context.kind, context.range.start) => {}
            (_, EditCause::Typed) => self.open(context),
            (_, EditCause::Pasted | EditCause::Moved | EditCause::Recalled) => {
                self.state = PopupState::Closed;
            }
        }
    }

    /// Opens the list of a word.
    pub(crate) fn open(&mut self, context: CompletionContext) {
        let entries = match context.kind {
            CompletionKind::Command => {
                PopupEntries::Commands(matching(&self.commands, &context.typed))
            }
            CompletionKind::File => PopupEntries::Files { matches: Vec::new(), are_final: false },
        };
        self.state = PopupState::Open(OpenPopup {
            start: context.range.start,
            typed: context.typed,
            entries,
            selected: None,
            top: 0,
        });
    }

    /// Closes the list.
    pub(crate) fn close(&mut self) {
        self.state = PopupState::Closed;
    }

    /// Closes the list until there is another word.
    pub(crate) fn dismiss(&mut self) {
        if let PopupState::Open(open) = &self.state {
            self.state = PopupState::Dismissed(open.kind(), open.start);
        }
    }

    /// Returns true if the list has rows.
    pub(crate) fn is_visible(&self) -> bool {
        self.current().is_some_and(|open| open.len() > 0 || open.is_searching())
    }

    /// Returns the query for files.
    pub(crate) fn file_query(&self) -> Option<&str> {
        let open = self.current()?;
        (open.kind() == CompletionKind::File).then_some(open.typed.as_str())
    }

    /// Sets the files of a query, unless it is not the current one. An entry that was selected stays so.
    pub(crate) fn set_files(&mut self, query: &str, files: Vec<FileMatch>) {
        let PopupState::Open(open) = &mut self.state else { return };
        let PopupEntries::Files { matches, are_final } = &mut open.entries else { return };
        if open.typed != query {
            return;
        }
        let selected = open.selected.and_then(|selected| matches.get(selected));
        open.selected =
            selected.and_then(|selected| files.iter().position(|file| file.path == selected.path));
        *matches = files;
        *are_final = true;
    }

    /// Moves the selection. At either end it goes on at the other.
    pub(crate) fn step(&mut self, step: PopupStep) {
        let PopupState::Open(open) = &mut self.state else { return };
        let Some(last) = open.len().checked_sub(1) else { return };
        open.selected = Some(match (open.marked(), step) {
            (None, PopupStep::Next) => 0,
            (Some(marked), PopupStep::Next) => {
                if marked == last {
                    0
                } else {
                    marked + 1
                }
            }
            (None | Some(0), PopupStep::Previous) => last,
            (Some(marked), PopupStep::Previous) => marked - 1,
        });
    }

    /// Returns the entry to insert: the marked one, or the first.
    pub(crate) fn choice(&self) -> Option<PopupChoice> {
        let open = self.current()?;
        self.entry(open, open.marked().unwrap_or(0))
    }

    /// Returns the entry that a text entered now stands for; `None` if it stands for itself.
    pub(crate) fn entered(&self) -> Option<PopupChoice> {
        let open = self.current()?;
        if open.selected.is_none() && self.is_entry(open) {
            return None;
        }
        self.entry(open, open.marked()?)
    }

    /// Returns true if an entry was selected with a key.
    pub(crate) fn has_selection(&self) -> bool {
        self.current().is_some_and(|open| open.selected.is_some())
    }

    /// Returns the number of entries.
    pub(crate) fn entry_count(&self) -> usize {
        self.current().map_or(0, OpenPopup::len)
    }

    /// Returns the rows of the list, of at most this number of columns.
    pub(crate) fn rows(&mut self, columns: usize) -> Vec<StyledLine> {
        if !self.is_visible() {
            return Vec::new();
        }
        let PopupState::Open(open) = &mut self.state else { return Vec::new() };
        let (count, marked) = (open.len(), open.marked());
        let shown = shown(count, marked, open.top, self.room);
        open.top = shown.start;
        let kind = |index| {
            if Some(index) == marked { RowKind::Selected } else { RowKind::Other }
        };
        let mut rows: Vec<StyledLine> = match &open.entries {
            PopupEntries::Files { matches, .. } if matches.is_empty() => {
                vec![note_row("searching files…", columns)]
            }
            PopupEntries::Files { matches, .. } => {
                let row = |index: usize| file_row(&matches[index], kind(index), columns);
                shown.clone().map(row).collect()
            }
            PopupEntries::Commands(matches) => {
                let new =
                    |found: &CommandMatch| CommandRow::new(&self.commands[found.index], found);
                let listed: Vec<CommandRow> = matches[shown.clone()].iter().map(new).collect();
                let widest = listed.iter().map(CommandRow::head_width).max().unwrap_or(0);
                let numbered = listed.iter().zip(shown.clone());
                numbered.map(|(row, index)| row.row(widest, kind(index), columns)).collect()
            }
        };
        if shown.len() < count && rows.len() < self.room {
            rows.push(more_row(count - shown.len(), columns));
        }
        rows
    }

    /// Returns the list if it is open and there is room for it.
    fn current(&self) -> Option<&OpenPopup> {
        match &self.state {
            PopupState::Open(open) if self.room > 0 => Some(open),
            PopupState::Open(_) | PopupState::Closed | PopupState::Dismissed(..) => None,
        }
    }

    fn entry(&self, open: &OpenPopup, index: usize) -> Option<PopupChoice> {
        match &open.entries {
            PopupEntries::Commands(matches) => {
                let command = &self.commands[matches.get(index)?.index];
                let name = command.name.clone();
                Some(if command.needs_argument() {
                    PopupChoice::CommandWithArgument { name }
                } else {
                    PopupChoice::Command { name }
                })
            }
            PopupEntries::Files { matches, .. } => {
                Some(PopupChoice::File { path: matches.get(index)?.path.clone() })
            }
        }
    }

    /// Returns true if what is typed is the whole of an entry.
    fn is_entry(&self, open: &OpenPopup) -> bool {
        match &open.entries {
            PopupEntries::Commands(matches) => {
                matches.iter().any(|found| self.commands[found.index].is_named(&open.typed))
            }
            PopupEntries::Files { matches, .. } => {
                // A directory that is typed goes on with what is in it.
                matches.iter().any(|file| file.path == open.typed && !file.is_directory())
            }
        }
    }
}

impl OpenPopup {
    fn kind(&self) -> CompletionKind {
        match self.entries {
            PopupEntries::Commands(_) => CompletionKind::Command,
            PopupEntries::Files { .. } => CompletionKind::File,
        }
    }

    /// Returns true if this is the list of the word.
    fn is_of(&self, context: &CompletionContext) -> bool {
        (self.kind(), self.start) == (context.kind, context.range.start)
    }

    fn len(&self) -> usize {
        match &self.entries {
            PopupEntries::Commands(matches) => matches.len(),
            PopupEntries::Files { matches, .. } => matches.len(),
        }
    }

    /// Returns true if there is nothing to show, but may be soon.
    fn is_searching(&self) -> bool {
        match &self.entries {
            PopupEntries::Commands(_) => false,
            PopupEntries::Files { matches, are_final } => matches.is_empty() && !are_final,
        }
    }

    /// Returns the entry that is marked: the selected one, or the first. A command must have what is typed in its name to
    /// be marked without being selected, because enter would run it.
    fn marked(&self) -> Option<usize> {
        if self.selected.is_some() {
            return self.selected;
        }
        let is_marked = match &self.entries {
            PopupEntries::Commands(matches) => {
                let is_named = |found: &CommandMatch| found.part == MatchedPart::Name;
                !self.typed.is_empty() && matches.first().is_some_and(is_named)
            }
            PopupEntries::Files { matches, .. } => !matches.is_empty(),
        };
        is_marked.then_some(0)
    }

    /// Changes what is typed.
    fn retype(&mut self, typed: String, commands: &[ListedCommand]) {
        match &mut self.entries {
            PopupEntries::Commands(matches) => *matches = matching(commands, &typed),
            PopupEntries::Files { matches, are_final } => {
                *are_final = false;
                narrow(matches, &typed);
            }
        }
        self.typed = typed;
        self.selected = None;
        self.top = 0;
    }
}

/// Removes the files that do not match what is typed, and a directory that is what is typed.
fn narrow(matches: &mut Vec<FileMatch>, typed: &str) {
    let Some(query) = FuzzyQuery::new(typed) else {
        matches.clear();
        return;
    };
    let mut scorer = FuzzyMatcher::of_paths(query);
    matches.retain_mut(|file| {
        let is_typed = file.is_directory() && file.path == typed;
        let Some(found) = scorer.find(&file.path).filter(|_| !is_typed) else { return false };
        file.positions = found.positions;
        true
    });
}
