//! A whole line: limits, the parser, and the way back from what is not understood.

use std::{
    cell::RefCell,
    collections::HashMap,
    ops::{ControlFlow, Range},
};

use crow_core::tool::{CommandLine, CommandMeaning, CommandWord, SimpleCommand};
use tree_sitter::{ParseOptions, Parser, Tree};

use super::syntax_walk::SyntaxWalk;

/// The longest line that is read.
const MAX_BYTES: usize = 64 * 1024;
/// How often the parser may report that it is still at work: a bound that does not depend on the machine.
const MAX_REPORTS: usize = 20_000;
/// The most commands in one line.
const MAX_COMMANDS: usize = 1000;
/// How deep shell lines may be arguments of commands in shell lines.
const MAX_NESTING: usize = 6;

/// Why a line is not understood, in a few words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnclearReason(pub(super) String);

impl From<&str> for UnclearReason {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// What is to be known of a line beside its commands.
#[derive(Debug, Default)]
pub(crate) struct LineNotes {
    /// The command that goes to a folder before anything else runs, and in the same shell as all else.
    pub(crate) lead: Option<usize>,
    /// Whether what stands later may run before what stands earlier.
    pub(crate) repeats: bool,
    /// What variables stand for: those of loops, and those that are set once. None: for anything.
    pub(crate) variables: HashMap<String, Option<Vec<CommandWord>>>,
    /// For the index of a command that gets its files from `find`: where from. Its word `{}` stands for these files.
    pub(crate) found_files: HashMap<usize, FoundFiles>,
}

/// Where the files come from that a command gets in place of its word `{}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFiles {
    /// The index of the `find` command.
    pub(crate) finder: usize,
    pub(crate) passing: FilePassing,
}

/// How `find` passes on the files that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePassing {
    /// As arguments: `find -exec`.
    Arguments,
    /// Through a pipe to `xargs`, which splits at blanks and interprets quotes.
    Words,
    /// Through a pipe to `xargs -0`.
    NulTerminated,
}

/// Reads a shell line. It always answers, and soon.
#[cfg(test)]
pub(super) fn read_command_line(text: &str) -> CommandLine {
    read_with_notes(text).0
}

/// Reads a shell line, and what is to be known of it beside its commands. It always answers, and soon.
pub(crate) fn read_with_notes(text: &str) -> (CommandLine, LineNotes) {
    let mut reading = ParsedLine::default();
    let meaning = match reading.read(text) {
        Ok(()) if !reading.has_only_numbers() => {
            CommandMeaning::Unclear("arithmetic on more than numbers".to_owned())
        }
        Ok(()) => {
            let (commands, notes) = reading.finish();
            let line = CommandMeaning::Commands(commands);
            return (CommandLine { text: text.to_owned(), folder: None, meaning: line }, notes);
        }
        Err(UnclearReason(reason)) => CommandMeaning::Unclear(reason),
    };
    (CommandLine { text: text.to_owned(), folder: None, meaning }, LineNotes::default())
}

/// What a variable is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableContent {
    /// Digits, or the result of arithmetic.
    Number,
    Anything,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct ParsedLine {
    commands: Vec<SimpleCommand>,
    nesting: usize,
    /// Variables that were set for the rest of the line, and that programs may see.
    exported: Vec<String>,
    /// For each variable that is set, whether all its values are numbers.
    numbers: HashMap<String, bool>,
    /// Where in the line variables are surely set by it: behind an assignment, up to the end of what it stands in.
    set_in: Vec<(String, Range<usize>)>,
    /// The variables that arithmetic evaluates, and where.
    evaluated: Vec<(String, usize)>,
    /// The index of the command whose output the command that is read now gets, if it is one command alone.
    piped_from: Option<usize>,
    notes: LineNotes,
}

impl ParsedLine {
    /// Reads a line, or one inside of another.
    pub(super) fn read(&mut self, text: &str) -> Result<(), UnclearReason> {
        if text.len() > MAX_BYTES {
            return Err("the line is too long to be read".into());
        }
        if text.contains(|char: char| {
            char == '\r' || (char.is_control() && char != '\n' && char != '\t')
        }) {
            return Err("control characters".into());
        }
        if text.contains(is_invisible) {
            return Err("characters that cannot be seen, or that turn the text around".into());
        }
        let tree = parse(text)?;
        self.deeper(|reading| SyntaxWalk::new(text, reading).walk(tree.root_node()))
    }

    /// Reads what a command starts.
    pub(super) fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), UnclearReason>,
    ) -> Result<(), UnclearReason> {
        if self.nesting >= MAX_NESTING {
            return Err("commands nested too deep".into());
        }
        self.nesting += 1;
        let result = read(self);
        self.nesting -= 1;
        result
    }

    /// Takes a command that was found.
    pub(super) fn push(&mut self, command: SimpleCommand) -> Result<(), UnclearReason> {
        if self.commands.len() >= MAX_COMMANDS {
            return Err("too many commands".into());
        }
        self.commands.push(command);
        Ok(())
    }

    /// Returns the number of commands found so far.
    pub(super) fn command_count(&self) -> usize {
        self.commands.len()
    }

    /// Sets the command whose output the next command gets through a pipe.
    pub(super) fn set_piped_from(&mut self, index: Option<usize>) {
        self.piped_from = index;
    }

    /// Takes the `find` command whose output the current command gets, if it gets that of one.
    pub(super) fn take_piped_finder(&mut self) -> Option<usize> {
        let index = self.piped_from.take()?;
        let program = self.commands.get(index)?.words.first()?.as_literal()?;
        (program == "find").then_some(index)
    }

    /// Notes that the command at `index` gets found files, unless it started others that would get them instead.
    pub(super) fn pass_found_files(&mut self, index: usize, found: FoundFiles) {
        if self.commands.len() == index + 1 {
            self.notes.found_files.insert(index, found);
        }
    }

    /// Gives each command the variables that stay set. What is written later may run earlier, in a loop.
    fn finish(mut self) -> (Vec<SimpleCommand>, LineNotes) {
        for command in &mut self.commands {
            let assigned = &mut command.assignments;
            for name in &self.exported {
                if !assigned.contains(name) {
                    assigned.push(name.clone());
                }
            }
        }
        (self.commands, self.notes)
    }

    /// Notes that the next command, a `cd`, comes before all others.
    pub(super) fn lead(&mut self) {
        self.notes.lead = Some(0);
    }

    /// Returns whether the next command is the first of all.
    pub(super) fn may_lead(&self) -> bool {
        self.commands.is_empty() && self.nesting == 1
    }

    /// Notes that commands may run in another order than that of writing.
    pub(super) fn repeat(&mut self) {
        self.notes.repeats = true;
    }

    /// Notes what a variable stands for. What is set twice may be anything.
    pub(super) fn bind(
        &mut self,
        name: &str,
        values: Option<Vec<CommandWord>>,
        content: VariableContent,
    ) {
        // A command that is started inside has other variables of the same names.
        let is_number = content == VariableContent::Number && self.nesting == 1;
        *self.numbers.entry(name.to_owned()).or_insert(true) &= is_number;
        let known = self.notes.variables.entry(name.to_owned());
        known.and_modify(|known| *known = None).or_insert(values);
    }

    /// Notes where in the line a variable is surely set by it.
    pub(super) fn set_within(&mut self, name: &str, range: Range<usize>) {
        self.set_in.push((name.to_owned(), range));
    }

    /// Notes that arithmetic evaluates a variable at a place of the line.
    pub(super) fn use_as_number(&mut self, name: &str, place: usize) {
        // The shell sets others by itself: PWD to the name of a folder.
        let is_own = name.chars().all(|char| char.is_ascii_lowercase() || char == '_');
        let name = if is_own && self.nesting == 1 { name } else { "" };
        self.evaluated.push((name.to_owned(), place));
    }

    /// Returns whether arithmetic evaluates nothing but numbers. What is set later counts, too: a loop may come back.
    fn has_only_numbers(&self) -> bool {
        self.evaluated.iter().all(|(name, place)| {
            let mut ranges = self.set_in.iter().filter(|(set, _)| set == name);
            self.numbers.get(name) == Some(&true) && ranges.any(|(_, range)| range.contains(place))
        })
    }

    /// Notes a variable that stays set for other commands.
    pub(super) fn export(&mut self, name: &str) {
        if !self.exported.iter().any(|known| known == name) {
            self.exported.push(name.to_owned());
        }
    }
}

/// Whether a character makes a line look like another one. The joiners and selectors that emoji and scripts need are left out.
fn is_invisible(char: char) -> bool {
    let is_needed = matches!(char, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    crow_text::is_unseen(char) && !is_needed
}

/// Whether a character beyond Latin-1 stands where the scanner of the grammar expects the digits of `{1..3}`. It hands the
/// character to C's `isdigit`, which looks it up in a table of 384 entries and reads behind its end.
fn has_wide_range(text: &str) -> bool {
    text.match_indices('{').any(|(at, brace)| {
        let rest = text.get(at + brace.len()..).unwrap_or_default();
        let is_digit = |char: char| char.is_ascii_digit();
        let low = rest.trim_start_matches(is_digit);
        let high = low.strip_prefix("..").map(|high| high.trim_start_matches(is_digit));
        [Some(low), high].into_iter().flatten().any(|rest| rest.starts_with(|char| char > '\u{ff}'))
    })
}

fn parse(text: &str) -> Result<Tree, UnclearReason> {
    if has_wide_range(text) {
        return Err("a brace before a character that is no ASCII".into());
    }
    let tree = PARSER.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = new_parser();
        }
        let parser = slot.as_mut()?;
        let mut reports = 0;
        let mut on_progress = |state: &tree_sitter::ParseState| {
            reports += 1;
            if state.has_error() || reports > MAX_REPORTS {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut on_progress);
        let bytes = text.as_bytes();
        let mut piece = |at: usize, _| bytes.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut piece, None, Some(options));
        if tree.is_none() {
            parser.reset();
        }
        tree
    });
    match tree {
        Some(tree) if !tree.root_node().has_error() => Ok(tree),
        Some(_) | None => Err("its syntax is not understood".into()),
    }
}

fn new_parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}
