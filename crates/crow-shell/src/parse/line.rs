//! Reading of a whole line: limits, the tree-sitter parser, and the result for lines that are not understood.
//!
//! [`ParsedLine`] collects what the walk through the syntax tree finds: commands, variables, and where arithmetic
//! evaluates variables. A line inside a command (`bash -c '…'`) is read into the same value, one level deeper. The
//! first error ends everything: the line is then [`CommandMeaning::Unclear`], and nothing of it is trusted.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    ops::{ControlFlow, Range},
};

use crow_core::tool::{CommandLine, CommandMeaning, CommandWord, SimpleCommand};
use tree_sitter::{ParseOptions, Parser, Tree};

use super::syntax_walk::SyntaxWalk;

/// The longest line in bytes that is read.
const MAX_BYTES: usize = 64 * 1024;
/// The most progress reports of the parser for one line: a time bound that does not depend on the machine.
const MAX_REPORTS: usize = 20_000;
/// The most commands in one line.
const MAX_COMMANDS: usize = 1000;
/// The most variables that a line sets for the programs that it starts.
const MAX_EXPORTED: usize = 200;
/// The most ranges and places in which arithmetic evaluates variables.
const MAX_EVALUATED: usize = 1000;
/// The deepest nesting of shell lines that are arguments of commands.
const MAX_NESTING: usize = 6;

/// The reason why a line is not understood, in a few words.
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

/// Facts about a line besides its commands.
#[derive(Debug, Default)]
pub(crate) struct LineFacts {
    /// Index of the command that changes the folder before anything else runs, in the shell that runs everything
    /// else.
    pub(crate) leading_cd: Option<usize>,
    /// True if a later command may run before an earlier one.
    pub(crate) repeats: bool,
    /// The possible values of variables set by loops, or set once; `None` if unknown.
    pub(crate) variables: HashMap<String, Option<Vec<CommandWord>>>,
    /// For the index of a command that gets its files from `find` or another list: where from.
    pub(crate) found_files: HashMap<usize, FoundFiles>,
}

/// Where the files come from that a command gets in place of one of its words.
#[derive(Debug, Clone)]
pub(crate) struct FoundFiles {
    /// The index of the command that lists them.
    pub(crate) finder: usize,
    pub(crate) passing: FilePassing,
    /// The computed word that stands for the files: `{}`, `$(git ls-files)` or `"$f"`.
    pub(crate) word: String,
}

/// The word that stands for the files of `find -exec` and `xargs`.
pub(super) const FOUND_FILES: &str = "{}";
/// Commands after which names mean other files, or `read` reads other input.
const CHANGING_NAMES: [&str; 4] = ["cd", "pushd", "popd", "exec"];

/// A command whose output another one gets through a pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipeSource {
    /// Its index; it starts no other commands.
    pub(super) index: usize,
    /// True if filters in between may leave lines out.
    pub(super) is_filtered: bool,
}

/// How `find` passes on the files that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePassing {
    /// As arguments: `find -exec`.
    Arguments,
    /// Through a pipe to `xargs`, which splits at blanks and interprets quotes.
    Words,
    /// Through a pipe to `xargs -d '\n'`.
    Lines,
    /// Through a pipe to `xargs -0`.
    NulTerminated,
    /// By the shell, which splits the output of a substitution and expands patterns in it, or reads it line by line.
    Shell,
}

/// Reads a shell line in bounded time.
#[cfg(test)]
pub(super) fn read_command_line(text: &str) -> CommandLine {
    read_with_facts(text).0
}

/// Reads a shell line in bounded time, with the facts besides its commands.
pub(crate) fn read_with_facts(text: &str) -> (CommandLine, LineFacts) {
    let mut reading = ParsedLine::default();
    let meaning = match reading.read(text) {
        Ok(()) if !reading.has_only_numbers() => {
            CommandMeaning::Unclear("arithmetic with more than plain numbers".to_owned())
        }
        Ok(()) => {
            let (commands, notes) = reading.finish();
            let line = CommandMeaning::Commands(commands);
            return (CommandLine { text: text.to_owned(), folder: None, meaning: line }, notes);
        }
        Err(UnclearReason(reason)) => CommandMeaning::Unclear(reason),
    };
    (CommandLine { text: text.to_owned(), folder: None, meaning }, LineFacts::default())
}

/// The kind of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableContent {
    /// Digits, or the result of arithmetic.
    Number,
    Anything,
}

/// The results so far.
#[derive(Debug, Default)]
pub(super) struct ParsedLine {
    commands: Vec<SimpleCommand>,
    nesting: usize,
    /// Variables set for the rest of the line that programs may see.
    exported: BTreeSet<String>,
    /// For each variable that is set: true if all its values are numbers.
    numbers: HashMap<String, bool>,
    /// The ranges of the line in which a variable is certainly set: from an assignment to the end of its block.
    set_in: Vec<(String, Range<usize>)>,
    /// The variables that arithmetic evaluates, with their offsets.
    evaluated: Vec<(String, usize)>,
    /// For each variable: how often the line sets it.
    bound: HashMap<String, usize>,
    /// The source of the input of the command that is read now.
    pipe_source: Option<PipeSource>,
    facts: LineFacts,
}

impl ParsedLine {
    /// Reads a line, or a line nested in another.
    pub(super) fn read(&mut self, text: &str) -> Result<(), UnclearReason> {
        if text.len() > MAX_BYTES {
            return Err("the line is too long".into());
        }
        if text.contains(|char: char| {
            char == '\r' || (char.is_control() && char != '\n' && char != '\t')
        }) {
            return Err("control characters".into());
        }
        if text.contains(is_invisible) {
            return Err("invisible characters, or ones that change the text direction".into());
        }
        // The parser keeps all readings of them, which takes quadratic time.
        if text.matches('|').count() > 2 * MAX_COMMANDS {
            return Err("too many commands".into());
        }
        if text.matches("<<").count() > MAX_COMMANDS {
            return Err("too many here-documents".into());
        }
        let tree = parse(text)?;
        self.read_nested(|reading| SyntaxWalk::new(text, reading).walk(tree.root_node()))
    }

    /// Reads a nested line or command, one level deeper.
    pub(super) fn read_nested(
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

    /// Adds a command.
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

    /// Returns a command found so far.
    pub(super) fn command(&self, index: usize) -> Option<&SimpleCommand> {
        self.commands.get(index)
    }

    /// Sets the command whose output the next command gets through a pipe.
    pub(super) fn set_pipe_source(&mut self, source: Option<PipeSource>) {
        self.pipe_source = source;
    }

    /// Takes the command that lists files, such as `find`, whose output the current command gets, if it gets that of one.
    pub(super) fn take_piped_finder(&mut self) -> Option<PipeSource> {
        let source = self.pipe_source.take()?;
        let program = self.commands.get(source.index)?.words.first()?.as_literal()?;
        ["find", "git", "grep"].contains(&program).then_some(source)
    }

    /// Notes that the command at `index` gets found files, unless it started others that would get them instead.
    pub(super) fn pass_found_files(&mut self, index: usize, finder: usize, passing: FilePassing) {
        if self.commands.len() == index + 1 {
            let found = FoundFiles { finder, passing, word: FOUND_FILES.to_owned() };
            self.facts.found_files.insert(index, found);
        }
    }

    /// Notes that a command gets files in place of a word that the shell expands; `variable` is the one that it holds, if
    /// there is one.
    pub(super) fn expand_to_files(
        &mut self,
        index: usize,
        found: FoundFiles,
        variable: Option<&str>,
    ) {
        // A nested command has other variables and folders.
        let is_set_once = variable.is_none_or(|name| self.bound.get(name) == Some(&1));
        let changes_names = self.commands.iter().enumerate().any(|(at, command)| {
            let program = command.words.first().and_then(CommandWord::as_literal);
            self.facts.leading_cd != Some(at)
                && program.is_some_and(|program| CHANGING_NAMES.contains(&program))
        });
        if self.nesting == 1 && is_set_once && !changes_names {
            self.facts.found_files.insert(index, found);
        }
    }

    /// Returns the commands, each with all exported variables: in a loop, a later assignment may run first.
    fn finish(mut self) -> (Vec<SimpleCommand>, LineFacts) {
        for command in &mut self.commands {
            let own: HashSet<String> = command.assignments.iter().cloned().collect();
            let others = self.exported.iter().filter(|name| !own.contains(*name));
            command.assignments.extend(others.cloned());
        }
        (self.commands, self.facts)
    }

    /// Records that the next command, a `cd`, runs before all others.
    pub(super) fn lead(&mut self) {
        self.facts.leading_cd = Some(0);
    }

    /// Returns whether the next command is the first one of all.
    pub(super) fn may_lead(&self) -> bool {
        self.commands.is_empty() && self.nesting == 1
    }

    /// Records that commands may run in another order than they are written.
    pub(super) fn repeat(&mut self) {
        self.facts.repeats = true;
    }

    /// Records the values of a variable. One that is set twice is unknown.
    pub(super) fn bind(
        &mut self,
        name: &str,
        values: Option<Vec<CommandWord>>,
        content: VariableContent,
    ) {
        *self.bound.entry(name.to_owned()).or_default() += 1;
        // A nested command has other variables of the same names.
        let is_number = content == VariableContent::Number && self.nesting == 1;
        *self.numbers.entry(name.to_owned()).or_insert(true) &= is_number;
        let known = self.facts.variables.entry(name.to_owned());
        known.and_modify(|known| *known = None).or_insert(values);
    }

    /// Records the range of the line in which a variable is certainly set.
    pub(super) fn set_within(&mut self, name: &str, range: Range<usize>) {
        self.set_in.push((name.to_owned(), range));
    }

    /// Records that arithmetic evaluates a variable at an offset of the line.
    pub(super) fn use_as_number(&mut self, name: &str, offset: usize) {
        // The shell sets other variables itself, such as PWD. They are recorded under an empty name, which is never a
        // number.
        let is_own = name.chars().all(|char| char.is_ascii_lowercase() || char == '_');
        let name = if is_own && self.nesting == 1 { name } else { "" };
        self.evaluated.push((name.to_owned(), offset));
    }

    /// Returns whether arithmetic evaluates only numbers. Later assignments count, too: a loop may repeat.
    fn has_only_numbers(&self) -> bool {
        let mut set_in: HashMap<&str, Vec<&Range<usize>>> = HashMap::new();
        for (name, range) in &self.set_in {
            set_in.entry(name).or_default().push(range);
        }
        // Each is compared with each range of its variable.
        self.evaluated.len() <= MAX_EVALUATED
            && self.evaluated.iter().all(|(name, offset)| {
                let mut ranges = set_in.get(name.as_str()).into_iter().flatten();
                self.numbers.get(name) == Some(&true) && ranges.any(|range| range.contains(offset))
            })
    }

    /// Records a variable that stays set for other commands.
    pub(super) fn export(&mut self, name: &str) -> Result<(), UnclearReason> {
        self.exported.insert(name.to_owned());
        if self.exported.len() > MAX_EXPORTED {
            return Err("too many variables".into());
        }
        Ok(())
    }
}

/// Returns whether a character makes a line look like another one. The joiners and selectors that emoji and scripts
/// need are allowed.
fn is_invisible(char: char) -> bool {
    let is_needed = matches!(char, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    crow_text::is_unseen(char) && !is_needed
}

/// Returns whether tree-sitter's grammar of bash must not parse a text: a character beyond Latin-1 is where its scanner
/// expects a digit of `{1..3}`. The scanner passes it to C's `isdigit`, which would read beyond its table of 384 entries.
pub fn overruns_bash_grammar(text: &str) -> bool {
    text.match_indices('{').any(|(at, brace)| {
        let rest = &text[at + brace.len()..];
        let is_digit = |char: char| char.is_ascii_digit();
        let low = rest.trim_start_matches(is_digit);
        let high = low.strip_prefix("..").map(|high| high.trim_start_matches(is_digit));
        [Some(low), high].into_iter().flatten().any(|rest| rest.starts_with(|char| char > '\u{ff}'))
    })
}

/// Parses a line with tree-sitter, in bounded time. A parser is kept per thread.
fn parse(text: &str) -> Result<Tree, UnclearReason> {
    if overruns_bash_grammar(text) {
        return Err("a brace before a non-ASCII character".into());
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
        // The parser asks for an empty piece at the end.
        let mut piece = |at: usize, _| bytes.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut piece, None, Some(options));
        if tree.is_none() {
            parser.reset();
        }
        tree
    });
    match tree {
        Some(tree) if !tree.root_node().has_error() => Ok(tree),
        Some(_) | None => Err("unsupported syntax".into()),
    }
}

fn new_parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}
