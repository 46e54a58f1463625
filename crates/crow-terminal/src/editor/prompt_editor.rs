//! The editor as its owner sees it: keys, pastes and images in, a text and effects out.
//!
//! The text is a [`Document`]. Commands that depend on the one before them (kills that are joined, the rotation of the
//! kill ring, the column of vertical motions) look at `last`. While a search of the history is open, keys go to it and
//! the document does not change.

use std::ops::Range;

use super::{
    chips::{self, ChipContent, ChipId, ChipNames, Fragment, Submission},
    completion::{self, CompletionContext},
    document::Document,
    history::{HistorySearch, PromptHistory, SearchDirection},
    key_bindings::{self, EditingStyle},
    kill_ring::KillRing,
    undo_log::ChangeKind,
    vi_commands::{ViEditing, ViState},
};
use crate::keys::{Key, KeyCode, KeyModifiers};

/// Maximum number of characters that a paste adds to the text of a search.
const LONGEST_PASTED_QUERY: usize = 200;
/// Number of columns of the text before the first view.
const DEFAULT_WIDTH: usize = 77;

/// Action for the owner of an editor after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditorEffect {
    /// The key means nothing here.
    None,
    /// The view may have changed.
    Redraw,
    /// Enter.
    Submit,
    /// Ctrl-c.
    Interrupt,
    /// Ctrl-d in an empty editor.
    EndOfInput,
    /// Ctrl-z.
    Suspend,
    /// Ctrl-x ctrl-e.
    ExternalEditor,
    /// Tab.
    Complete,
    /// The escape key, unless it ended something in the editor.
    Escape,
    /// Ctrl-l.
    ClearScreen,
    /// Ctrl-o.
    ToggleTranscript,
}

/// A draft with its chips and its cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EditorSnapshot {
    fragment: Fragment,
    cursor: usize,
}

/// The command before the current one, as far as commands depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum LastCommand {
    #[default]
    Other,
    Kill,
    /// The range of the text that was inserted.
    Yank(Range<usize>),
    /// The column that vertical motions go to.
    Vertical(usize),
}

/// Position in a command of two keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum KeyPrefix {
    #[default]
    None,
    ControlX,
}

/// Editor of a prompt.
#[derive(Debug, Clone)]
pub(crate) struct PromptEditor {
    pub(super) document: Document,
    pub(super) kill_ring: KillRing,
    pub(super) history: PromptHistory,
    pub(super) search: Option<HistorySearch>,
    pub(super) style: EditingStyle,
    pub(super) vi: ViState,
    pub(super) prefix: KeyPrefix,
    pub(super) last: LastCommand,
    /// Number of columns of the text in the last view.
    pub(super) width: usize,
    /// Start of the first row in the last view.
    pub(super) top: usize,
    pub(crate) chip_names: ChipNames,
}

impl Default for PromptEditor {
    fn default() -> Self {
        Self {
            document: Document::default(),
            kill_ring: KillRing::default(),
            history: PromptHistory::default(),
            search: None,
            style: EditingStyle::default(),
            vi: ViState::default(),
            prefix: KeyPrefix::default(),
            last: LastCommand::default(),
            width: DEFAULT_WIDTH,
            top: 0,
            chip_names: ChipNames::default(),
        }
    }
}

impl PromptEditor {
    /// Creates an empty editor.
    pub(crate) fn new(style: EditingStyle) -> Self {
        Self { style, ..Self::default() }
    }

    /// Changes the set of keys.
    pub(crate) fn set_style(&mut self, style: EditingStyle) {
        self.style = style;
        self.vi = ViState::default();
        self.document.release_group();
    }

    /// Replaces the earlier prompts, of which the newest is the last. The current text becomes the draft.
    pub(crate) fn set_history(&mut self, entries: Vec<String>) {
        self.search = None;
        self.history.set(entries);
    }

    /// Adds a prompt to the history. The current text becomes the draft.
    pub(crate) fn push_history(&mut self, entry: String) {
        self.search = None;
        self.history.push(entry);
    }

    /// Returns the text with the labels of its chips.
    pub(crate) fn text(&self) -> &str {
        self.document.text().as_str()
    }

    /// Returns the text with pastes in the place of their chips. Images keep their labels.
    pub(crate) fn expanded_text(&self) -> String {
        let text = self.document.text();
        chips::expanded(text.as_str(), text.chips())
    }

    /// Returns the position of the cursor in the text, in bytes.
    pub(crate) fn cursor(&self) -> usize {
        self.document.cursor()
    }

    /// Returns true if keys are commands of vi and not text.
    pub(crate) fn is_in_normal_mode(&self) -> bool {
        self.style == EditingStyle::Vi && self.vi.is_normal()
    }

    /// Returns true while the history is searched.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Processes a key.
    pub(crate) fn on_key(&mut self, key: Key) -> EditorEffect {
        if self.search.is_some() {
            return self.on_search_key(key);
        }
        match self.style {
            EditingStyle::Emacs => self.on_text_key(key),
            EditingStyle::Vi => ViEditing { editor: self }.on_vi_key(key),
        }
    }

    /// Processes a key that is text or a command of readline.
    pub(super) fn on_text_key(&mut self, key: Key) -> EditorEffect {
        let command = match std::mem::take(&mut self.prefix) {
            KeyPrefix::None => key_bindings::command(key),
            KeyPrefix::ControlX => key_bindings::prefixed_command(key),
        };
        match command {
            Some(command) => self.execute(command),
            None => EditorEffect::None,
        }
    }

    /// Inserts a pasted text, or a chip for it if it is long.
    pub(crate) fn paste(&mut self, text: &str) -> EditorEffect {
        if text.is_empty() {
            return EditorEffect::None;
        }
        let text = chips::with_line_feeds(text);
        if let Some(search) = &mut self.search {
            let line = text.lines().next().unwrap_or_default();
            search.query.extend(line.chars().take(LONGEST_PASTED_QUERY));
            search.restart(&self.history);
            return EditorEffect::Redraw;
        }
        let fragment = match chips::size_if_long(&text) {
            Some(size) => {
                let name = |number| chips::paste_label(&size, number);
                let label = self.chip_names.unique_label(self.document.text(), name);
                Fragment::chip(label, ChipContent::Paste(text))
            }
            None => Fragment::plain(text),
        };
        self.insert(fragment);
        EditorEffect::Redraw
    }

    /// Inserts a chip for an image.
    pub(crate) fn insert_image(&mut self, name: &str) -> ChipId {
        self.accept_search();
        let id = self.chip_names.new_image();
        let label = |number| chips::image_label(name, number);
        let label = self.chip_names.unique_label(self.document.text(), label);
        self.insert(Fragment::chip(label, ChipContent::Image(id)));
        id
    }

    /// Inserts a text with images at the beginning. The text has a label for each of them, in their order; if it does
    /// not, the images get labels behind it.
    pub(crate) fn put_before(&mut self, text: &str, images: &[ChipId]) {
        let mut text = chips::with_line_feeds(text);
        let mut labels = chips::image_labels(&text);
        if labels.len() != images.len() {
            labels.clear();
            for _ in images {
                let label = |number: u32| chips::image_label(&number.to_string(), 1);
                let label = self.chip_names.unique_label(self.document.text(), label);
                text.push(' ');
                labels.push(text.len()..text.len() + label.len());
                text.push_str(&label);
            }
        }
        if !self.text().is_empty() {
            text.push('\n');
        }
        let labels: Vec<_> = labels.into_iter().zip(images.iter().copied()).collect();
        self.edit(0..0, Fragment::with_images(text, &labels));
    }

    /// Replaces the text by one that was made from it. Images whose labels are in it stay.
    pub(crate) fn set_edited_text(&mut self, text: &str) {
        let text = chips::with_line_feeds(text);
        let before = self.document.text();
        let mut labels: Vec<(Range<usize>, ChipId)> = Vec::new();
        for chip in before.chips() {
            let ChipContent::Image(id) = *chip.content else { continue };
            let label = &before.as_str()[chip.range()];
            // Another image may have the same label, if it came with a text that was put back.
            let is_free = |start: &usize| labels.iter().all(|(taken, _)| taken.start != *start);
            let found = text.match_indices(label).map(|(start, _)| start).find(is_free);
            labels.extend(found.map(|start| (start..start + label.len(), id)));
        }
        labels.sort_by_key(|(range, _)| range.start);
        self.edit(0..before.len(), Fragment::with_images(text, &labels));
    }

    /// Replaces the label of an image by a text. Returns false if the image is not in the text.
    pub(crate) fn replace_image(&mut self, image: ChipId, text: &str) -> bool {
        let is_image =
            |chip: &&chips::Chip| matches!(*chip.content, ChipContent::Image(id) if id == image);
        let range = self.document.text().chips().iter().find(is_image).map(chips::Chip::range);
        let Some(range) = range else { return false };
        let behind = self.text().len() - self.cursor().max(range.end);
        let is_behind = self.cursor() >= range.end;
        self.replace(range, text);
        if is_behind {
            self.document.move_to(self.text().len() - behind);
        }
        true
    }

    fn insert(&mut self, fragment: Fragment) {
        self.vi.record_text(&fragment);
        let cursor = self.document.cursor();
        self.document.close_group();
        self.document.edit(cursor..cursor, fragment, ChangeKind::Other);
        self.document.close_group();
        self.settle_cursor();
        self.last = LastCommand::Other;
    }

    /// Replaces the text, as one change that can be undone, and puts the cursor at its end.
    pub(crate) fn set_text(&mut self, text: &str) {
        self.replace(0..self.document.text().len(), text);
    }

    /// Replaces a range, as one change that can be undone, and puts the cursor behind the new text. A range that cuts
    /// a chip or a character is moved to its end.
    pub(crate) fn replace(&mut self, range: Range<usize>, text: &str) {
        let end = self.document.text().boundary_from(range.end);
        let start = self.document.text().boundary_from(range.start).min(end);
        self.edit(start..end, Fragment::plain(chips::with_line_feeds(text)));
    }

    /// Replaces a range, as one change that can be undone, and puts the cursor behind the fragment.
    fn edit(&mut self, range: Range<usize>, fragment: Fragment) {
        self.search = None;
        self.document.close_group();
        self.document.edit(range, fragment, ChangeKind::Other);
        self.document.close_group();
        self.settle_cursor();
        self.last = LastCommand::Other;
    }

    /// Takes the text and the images, and empties the editor.
    pub(crate) fn take_submission(&mut self) -> Submission {
        let document = std::mem::take(&mut self.document);
        self.restart();
        self.chip_names.forget_labels();
        Submission::new(document.text().as_str(), document.text().chips())
    }

    /// Returns a copy of the draft.
    pub(crate) fn snapshot(&self) -> EditorSnapshot {
        let text = self.document.text();
        EditorSnapshot { fragment: text.fragment(0..text.len()), cursor: self.document.cursor() }
    }

    /// Replaces the draft and forgets the changes that led to it.
    pub(crate) fn restore(&mut self, snapshot: EditorSnapshot) {
        self.document = Document::new(snapshot.fragment);
        self.document.move_to(snapshot.cursor);
        self.chip_names.on_restored(self.document.text().chips());
        self.restart();
    }

    fn restart(&mut self) {
        self.history.restart();
        self.search = None;
        self.vi = ViState::default();
        self.prefix = KeyPrefix::None;
        self.last = LastCommand::Other;
        self.top = 0;
    }

    /// Returns what can be completed at the cursor.
    pub(crate) fn completion_context(&self) -> Option<CompletionContext> {
        if self.search.is_some() {
            return None;
        }
        completion::context(self.document.text(), self.document.cursor())
    }

    pub(super) fn begin_search(&mut self, direction: SearchDirection) {
        self.document.close_group();
        let mut search = HistorySearch::default();
        if direction == SearchDirection::Newer {
            search.restart(&self.history);
        }
        self.search = Some(search);
    }

    fn on_search_key(&mut self, key: Key) -> EditorEffect {
        let Some(search) = &mut self.search else { return EditorEffect::None };
        let KeyModifiers { ctrl, alt, shift: _ } = key.modifiers;
        match key.code {
            KeyCode::Char(character) if !ctrl && !alt => {
                search.query.push(character);
                let newest = self.history.entries().checked_sub(1);
                let from = search.found.as_ref().map(|found| found.index).or(newest);
                search.run(&self.history, from, SearchDirection::Older, None);
            }
            KeyCode::Char('r') if !alt => search.next(&self.history, SearchDirection::Older),
            KeyCode::Char('s') if !alt => search.next(&self.history, SearchDirection::Newer),
            KeyCode::Backspace | KeyCode::Char('h') if !alt => {
                search.query.pop();
                search.restart(&self.history);
            }
            KeyCode::Char('g' | '[') if !alt => self.search = None,
            KeyCode::Escape => self.search = None,
            KeyCode::Char('c') if !alt => {
                self.search = None;
                return EditorEffect::Interrupt;
            }
            KeyCode::Enter => self.accept_search(),
            KeyCode::Char(_)
            | KeyCode::Tab
            | KeyCode::BackTab
            | KeyCode::Backspace
            | KeyCode::Delete
            | KeyCode::Insert
            | KeyCode::Left
            | KeyCode::Right
            | KeyCode::Up
            | KeyCode::Down
            | KeyCode::Home
            | KeyCode::End
            | KeyCode::PageUp
            | KeyCode::PageDown
            | KeyCode::Function(_) => {
                self.accept_search();
                let effect = self.on_key(key);
                return if effect == EditorEffect::None { EditorEffect::Redraw } else { effect };
            }
        }
        EditorEffect::Redraw
    }

    /// Ends a search, with the entry that it found in the editor.
    fn accept_search(&mut self) {
        let Some(found) = self.search.take().and_then(|search| search.found) else { return };
        if found.index != self.history.position() {
            self.history.visit(found.index, &mut self.document);
        }
        self.document.move_to(found.range.end);
        self.settle_cursor();
        self.last = LastCommand::Other;
    }
}

/// Returns the ranges of the chips in the text of an editor.
#[cfg(test)]
pub(crate) fn chip_ranges(editor: &PromptEditor) -> Vec<Range<usize>> {
    editor.document.text().chips().iter().map(chips::Chip::range).collect()
}
