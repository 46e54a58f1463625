//! A command as rules see it, and a shell line that could not be parsed.
//!
//! Two directions with opposite error: a rule that denies or asks must not miss a command, so
//! [`CommandPart::match_prefix`] and [`CommandPart::match_regex`] also look at wrappers, links and programs that may
//! start others, and answer [`RuleMatch::Maybe`] when unsure. A rule that allows must not cover too much, so
//! `is_covered_by_prefix` and `is_covered_by_regex` require literal words, a plain command and the same program.
//!
//! No narrow rule allows a line that could not be parsed, and any rule that denies or asks may match it: a denied command
//! can be written in more ways than a search for its words can find. If its words are found, the rule matches.

use std::{
    cell::OnceCell,
    collections::HashMap,
    path::{Component, Path},
};

use super::{
    RuleRegex,
    call_part::RuleMatch,
    is_secret_file,
    paths::PermissionPath,
    policy::SandboxGuarantees,
    prefix::{is_script_runner, takes_targets},
    program_starters::{input_may_start, may_be_copy, may_start, reads_commands_from_input},
    rule::shortened,
};
use crate::{
    tool_types::{
        Access, CommandLine, CommandMeaning, CommandWord, Redirect, SideEffects, SimpleCommand,
    },
    workspace::Workspace,
};

/// The directory that a command runs in, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandFolder {
    /// The workspace's working directory.
    Cwd,
    /// Another one in the workspace, or one that the line changed to.
    Other,
    /// The line starts outside the workspace.
    Outside,
}

impl CommandFolder {
    /// Returns the directory for all commands of a line together: in a loop a later command may run before an earlier
    /// one.
    pub(super) fn for_line(line: &CommandLine, workspace: &Workspace) -> Self {
        match &line.folder {
            Some(folder) if !workspace.contains(folder) => Self::Outside,
            Some(folder) if folder != workspace.cwd() => Self::Other,
            Some(_) | None if line.may_change_folder() => Self::Other,
            Some(_) | None => Self::Cwd,
        }
    }
}

/// A command to match rules against. Values that several rules need are computed once.
#[derive(Debug)]
pub(super) struct CommandPart<'a> {
    pub(super) command: &'a SimpleCommand,
    /// The line that contains it.
    line: &'a CommandLine,
    folder: CommandFolder,
    /// True if it only reads.
    pub(super) is_read: bool,
    /// The program as written, and its base name.
    program: Option<(&'a str, &'a str)>,
    text: OnceCell<String>,
    wrapped: OnceCell<String>,
    redirects: OnceCell<Vec<(PermissionPath<'static>, Access)>>,
}

impl<'a> CommandPart<'a> {
    pub(super) fn new(
        command: &'a SimpleCommand,
        line: &'a CommandLine,
        folder: CommandFolder,
        is_read: bool,
    ) -> Self {
        let program = command.words.first().and_then(CommandWord::as_literal);
        Self {
            command,
            line,
            folder,
            is_read,
            program: program.map(|program| (program, base_name(program))),
            text: OnceCell::new(),
            wrapped: OnceCell::new(),
            redirects: OnceCell::new(),
        }
    }

    /// Returns whether a rule that denies or asks about a prefix matches the command.
    ///
    /// The program also matches by its base name (`/bin/rm` is `rm`) or by a link to it, and options with their
    /// values may be between the words (`git -C folder push`). Wrappers count too: `nohup rm` begins with `nohup` and
    /// with `rm`. A word that is only known when the line runs may be any word, and a command that may start others
    /// by its arguments, its input or its variables may start the program: both give [`RuleMatch::Maybe`].
    pub(super) fn match_prefix(&self, prefix: &[String]) -> RuleMatch {
        let Some((wanted, rest)) = prefix.split_first() else { return RuleMatch::No };
        let words = self.command.wrappers.iter().chain(&self.command.words);
        // 1) Each wrapper, followed by the words after it.
        for (index, wrapper) in self.command.wrappers.iter().enumerate() {
            if wrapper.as_literal().is_some_and(|wrapper| is_named(wrapper, wanted)) {
                let found = continues_with(
                    words.clone().skip(index + 1).map(CommandWord::as_literal),
                    rest,
                );
                if found != RuleMatch::No {
                    return found;
                }
            }
        }
        // 2) The program itself, by name or by the program that it links to.
        let direct = match (self.program, self.command.words.split_first()) {
            (Some((program, _)), Some((_, words))) if is_named(program, wanted) => {
                continues_with(words.iter().map(CommandWord::as_literal), rest)
            }
            (None, Some(_)) => RuleMatch::Maybe,
            (_, _) => RuleMatch::No,
        };
        let linked = match (&self.command.linked_program, self.command.words.split_first()) {
            (Some(linked), Some((_, words))) if linked == wanted => {
                continues_with(words.iter().map(CommandWord::as_literal), rest)
            }
            (_, _) => RuleMatch::No,
        };
        let direct = direct.or(linked);
        if self.is_read {
            return direct;
        }
        // 3) Programs that the command may start by its input, its arguments, or as a copy.
        let others = match &self.line.meaning {
            CommandMeaning::Commands(commands) => commands.as_slice(),
            CommandMeaning::Unclear(_) => &[],
        };
        let may_be_started = input_may_start(self.command, &self.line.text, prefix)
            || may_be_copy(self.command, others, prefix);
        let by_line = if may_be_started { RuleMatch::Maybe } else { RuleMatch::No };
        direct.or(may_start(self.command, prefix)).or(by_line)
    }

    /// Returns true if its input may make it touch a path of a rule: the path's last name is in the line. A path
    /// without a last name, such as `/`, counts as named.
    pub(super) fn input_may_name(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !self.is_read && reads_commands_from_input(self.command) && self.line.text.contains(name)
    }

    /// Returns whether a pattern of a rule that denies or asks is found in the command, also if the program is
    /// written with its directory or is only started by wrappers.
    pub(super) fn match_regex(&self, regex: &RuleRegex) -> RuleMatch {
        let is_unknown = self.program.is_none() && !self.command.words.is_empty();
        let found = [Some(self.text()), self.text_without_folder(), self.wrapped_text()]
            .into_iter()
            .flatten()
            .map(|text| regex.find_in(text))
            .fold(RuleMatch::No, RuleMatch::or);
        if is_unknown { found.or(RuleMatch::Maybe) } else { found }
    }

    /// Returns true if it begins with exactly these words, and does nothing that they do not say.
    pub(super) fn is_covered_by_prefix(&self, prefix: &[String]) -> bool {
        let words = self.command.words.iter();
        !prefix.is_empty()
            && self.command.side_effects != SideEffects::Hidden
            && self.command.words.len() >= prefix.len()
            && words.zip(prefix).all(|(word, wanted)| word.as_literal() == Some(wanted))
            && is_plain(self.command)
            && self.command.unlisted.iter().all(|position| *position < prefix.len())
            && self.is_same_program(prefix.get(1).map(String::as_str))
            && !self.does_more_than(prefix)
    }

    /// Returns true if it names more targets than the prefix: `make test deploy` is not allowed by `make test`.
    fn does_more_than(&self, prefix: &[String]) -> bool {
        if prefix.len() < 2 || !self.program.is_some_and(|(_, name)| takes_targets(name)) {
            return false;
        }
        let is_number = |word: &str| word.chars().all(|char| char.is_ascii_digit());
        let mut is_value = false;
        self.command.words.iter().skip(prefix.len()).any(|word| {
            let word = word.as_literal();
            let is_target =
                !is_value && word.is_none_or(|word| !word.starts_with('-') && !is_number(word));
            is_value = word.is_some_and(|word| OPTIONS_WITH_VALUE.contains(&word));
            is_target
        })
    }

    /// Returns true if a pattern allows it: all of its words are known, and it does nothing that they do not say.
    pub(super) fn is_covered_by_regex(&self, regex: &RuleRegex) -> bool {
        let script = self.command.words.get(1).and_then(CommandWord::as_literal);
        has_literal_words(self.command)
            && self.command.side_effects != SideEffects::Hidden
            && is_plain(self.command)
            && self.is_same_program(script)
            && regex.find_in(self.text()) == RuleMatch::Yes
    }

    /// Returns true if the words mean the same as when the rule was made: a program or script that is named by a
    /// relative path is another one in another directory.
    fn is_same_program(&self, script: Option<&str>) -> bool {
        let Some((program, last_name)) = self.program else { return false };
        let is_absolute = |path: &str| Path::new(path).is_absolute();
        let is_relative = program.contains('/') && !is_absolute(program)
            || is_script_runner(last_name) && script.is_some_and(|script| !is_absolute(script));
        match self.folder {
            CommandFolder::Cwd => true,
            CommandFolder::Other => !is_relative,
            CommandFolder::Outside => false,
        }
    }

    /// Returns the words joined by blanks with those of the wrappers before them, or none if there are no wrappers.
    fn wrapped_text(&self) -> Option<&str> {
        if self.command.wrappers.is_empty() {
            return None;
        }
        let text = self
            .wrapped
            .get_or_init(|| joined(self.command.wrappers.iter().chain(&self.command.words)));
        Some(text)
    }

    /// Returns the words joined by blanks.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| joined(self.command.words.iter()))
    }

    /// Returns the same text without the program's directory, if it has one.
    fn text_without_folder(&self) -> Option<&str> {
        let (program, last_name) = self.program?;
        let folder = program.len() - last_name.len();
        if folder == 0 { None } else { self.text().get(folder..) }
    }

    /// Returns a warning about the command beyond the fact that it runs.
    pub(super) fn warning(&self) -> Option<String> {
        if self.command.side_effects == SideEffects::Hidden {
            let name = shortened(self.text());
            return Some(format!("what `{name}` does is unknown until it runs"));
        }
        let touched = self.command.touches.iter().map(|touch| &touch.path);
        let redirected =
            self.command.redirects.iter().filter_map(|redirect| redirect.path.as_ref());
        let secret = touched.chain(redirected).find(|path| is_secret_file(path))?;
        let name = shortened(&secret.display().to_string());
        Some(format!("it touches `{name}`, whose name suggests keys or passwords"))
    }

    /// Returns true if it may touch files that are only known when it runs.
    pub(super) fn hides_files(&self) -> bool {
        let is_hidden = |redirect: &Redirect| redirect.path.is_none() && !redirect.is_device();
        let hides = match self.command.side_effects {
            SideEffects::Hidden => true,
            SideEffects::Anything | SideEffects::Reads | SideEffects::SandboxedReads => false,
        };
        hides || self.command.redirects.iter().any(is_hidden)
    }

    /// Returns the known files that it redirects from and to.
    pub(super) fn redirects(&self, workspace: &Workspace) -> &[(PermissionPath<'static>, Access)] {
        self.redirects.get_or_init(|| {
            let targets = self.command.redirects.iter().filter_map(|redirect| {
                let target = redirect.target.as_literal()?;
                Some((PermissionPath::named(target, workspace), redirect.access))
            });
            targets.collect()
        })
    }
}

/// Options whose value is the next word, of programs that take targets.
const OPTIONS_WITH_VALUE: [&str; 6] =
    ["--console", "--exclude-task", "--max-workers", "--tests", "-pl", "-x"];

/// Variables that may be set for an allowed command: none of them makes a program run another one.
const HARMLESS_VARIABLES: [&str; 26] = [
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CGO_ENABLED",
    "CI",
    "CLICOLOR",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "GOARCH",
    "GOOS",
    "HOST",
    "LANG",
    "LC_ALL",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PORT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "TERM",
    "TZ",
    "V",
    "VERBOSE",
];

/// Commands without an effect outside the shell.
const HARMLESS_COMMANDS: [&str; 12] =
    [":", "[", "cd", "echo", "exit", "false", "printf", "pwd", "sleep", "test", "true", "wait"];

/// Those of [`HARMLESS_COMMANDS`] that can set a variable, or run what is in its index: their words must be known.
const NAMING_COMMANDS: [&str; 4] = ["[", "printf", "test", "wait"];

fn joined<'a>(words: impl Iterator<Item = &'a CommandWord>) -> String {
    let words = words.map(|word| match word {
        CommandWord::Literal(word) | CommandWord::Computed(word) => word.as_str(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_named(program: &str, wanted: &str) -> bool {
    program == wanted || base_name(program) == wanted
}

/// Returns whether the words contain these in this order, with only options and their values between them.
pub(super) fn continues_with<'a>(
    words: impl Iterator<Item = Option<&'a str>>,
    wanted: &[String],
) -> RuleMatch {
    let mut wanted = wanted.iter();
    let Some(mut next) = wanted.next() else { return RuleMatch::Yes };
    let mut after_option = false;
    for word in words {
        let Some(word) = word else { return RuleMatch::Maybe };
        if word == next {
            match wanted.next() {
                Some(following) => next = following,
                None => return RuleMatch::Yes,
            }
            after_option = false;
        } else if word.starts_with('-') {
            after_option = true;
        } else if after_option {
            after_option = false;
        } else {
            return RuleMatch::No;
        }
    }
    RuleMatch::No
}

/// Returns true if a command does nothing that its words do not say: it redirects to no unknown file and sets no
/// variable that could make a program do something else. Known files are separate parts.
fn is_plain(command: &SimpleCommand) -> bool {
    command.redirects.iter().all(|redirect| !redirect.writes() || redirect.path.is_some())
        && command.assignments.iter().all(|name| {
            HARMLESS_VARIABLES.contains(&name.as_str()) || name == "IFS" && is_read_builtin(command)
        })
}

/// Returns true for the builtin `read`: `IFS= read line` only splits the line that is read.
fn is_read_builtin(command: &SimpleCommand) -> bool {
    command.words.first().and_then(CommandWord::as_literal) == Some("read")
}

/// Returns true if a command has no effect outside the shell.
pub(super) fn is_harmless(command: &SimpleCommand) -> bool {
    let program = match command.words.first() {
        None => !command.assignments.is_empty() || !command.redirects.is_empty(),
        Some(word) => word.as_literal().is_some_and(|word| HARMLESS_COMMANDS.contains(&word)),
    };
    program
        && is_plain(command)
        && stays(command)
        && !names_a_variable(command)
        && !command.words.iter().any(hides_a_command)
}

/// Returns true if a command does not leave the line's directory, or changes to a known one, which is then a separate
/// part.
fn stays(command: &SimpleCommand) -> bool {
    let Some((CommandWord::Literal(program), words)) = command.words.split_first() else {
        return true;
    };
    let goes_down = |word: &CommandWord| {
        word.as_literal().is_some_and(|word| {
            Path::new(word).components().all(|part| matches!(part, Component::Normal(_)))
                && !word.is_empty()
                && word != "-"
        })
    };
    program != "cd" || !command.touches.is_empty() || matches!(words, [word] if goes_down(word))
}

/// Returns true if a command only reads, and no redirect or variable changes that.
pub(super) fn only_reads(command: &SimpleCommand, containment: SandboxGuarantees) -> bool {
    let is_read = match command.side_effects {
        SideEffects::Reads => true,
        SideEffects::SandboxedReads => containment.confines_reads,
        SideEffects::Anything | SideEffects::Hidden => false,
    };
    is_read && is_plain(command)
}

/// Returns true if a command may name a variable, which `printf -v` sets and `test -v` evaluates.
fn names_a_variable(command: &SimpleCommand) -> bool {
    let Some((CommandWord::Literal(program), words)) = command.words.split_first() else {
        return false;
    };
    let may_name = |word: &CommandWord| {
        word.as_literal()
            .is_none_or(|word| ["-v", "-R", "-p"].iter().any(|it| word.starts_with(it)))
    };
    NAMING_COMMANDS.contains(&program.as_str()) && words.iter().any(may_name)
}

/// Returns the program's name without its directory.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns true if all words are known, and the program's name has no blank, so that the joined text is unambiguous.
fn has_literal_words(command: &SimpleCommand) -> bool {
    let program = command.words.first().and_then(CommandWord::as_literal);
    program.is_some_and(|program| !program.contains(char::is_whitespace))
        && command.words.iter().all(|word| word.as_literal().is_some())
}

/// Returns true for a quoted word in which `test -v` and `printf -v` would run a command: they evaluate the index of
/// a variable.
fn hides_a_command(word: &CommandWord) -> bool {
    word.as_literal().is_some_and(|word| word.contains("$(") || word.contains('`'))
}

/// A shell line that could not be parsed.
#[derive(Debug)]
pub(super) struct UnclearLine<'a> {
    pub(super) text: &'a str,
    bare: OnceCell<String>,
    words: OnceCell<WordIndex>,
}

/// The words of a line, with an index by name.
#[derive(Debug)]
struct WordIndex {
    all: Vec<String>,
    /// Positions in `all`, by the word and by its base name.
    positions: HashMap<String, Vec<usize>>,
}

impl<'a> UnclearLine<'a> {
    /// Maximum length of a text that is searched, in bytes. Rules that deny or ask may match longer ones.
    const LONGEST: usize = 64 * 1024;

    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bare: OnceCell::new(), words: OnceCell::new() }
    }

    /// Returns [`RuleMatch::Yes`] if the words of a prefix are in the line, else `Maybe`: it may be written in
    /// another way.
    pub(super) fn mentions(&self, prefix: &[String]) -> RuleMatch {
        /// Maximum number of words after the program. Bounds the work on a line that repeats it; real lines have
        /// fewer options.
        const LONGEST_LOOK: usize = 16;

        if self.is_too_long() {
            return RuleMatch::Maybe;
        }
        let words = self.words.get_or_init(|| WordIndex::of(self.bare()));
        let Some((program, rest)) = prefix.split_first() else { return RuleMatch::No };
        let positions = words.positions.get(program).map_or(&[][..], Vec::as_slice);
        let found = positions.iter().any(|position| {
            let after = words.all.iter().skip(position + 1).take(LONGEST_LOOK);
            continues_with(after.map(|word| Some(word.as_str())), rest) == RuleMatch::Yes
        });
        if found { RuleMatch::Yes } else { RuleMatch::Maybe }
    }

    /// Returns `Yes` if a pattern is found in the line or in one of its possible commands, else `Maybe`.
    pub(super) fn match_regex(&self, regex: &RuleRegex) -> RuleMatch {
        if self.is_too_long() {
            return RuleMatch::Maybe;
        }
        let pieces = self.bare().split(is_separator);
        let found = pieces.map(|command| regex.find_in(command.trim()));
        found.fold(regex.find_in(self.text), RuleMatch::or).or(RuleMatch::Maybe)
    }

    fn is_too_long(&self) -> bool {
        self.text.len() > Self::LONGEST
    }

    /// Returns the line without the quoting that the shell removes: `r''m` runs `rm`.
    fn bare(&self) -> &str {
        self.bare.get_or_init(|| {
            let joined = self.text.replace("\\\n", "");
            joined.replace(['\'', '"', '\\'], "")
        })
    }
}

impl WordIndex {
    fn of(bare: &str) -> Self {
        let between = |character: char| {
            is_separator(character)
                || matches!(character, '<' | '>' | '=' | ',' | '!')
                || character.is_whitespace()
        };
        let all: Vec<String> =
            bare.split(between).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, word) in all.iter().enumerate() {
            positions.entry(base_name(word).to_owned()).or_default().push(position);
            if base_name(word) != word {
                positions.entry(word.clone()).or_default().push(position);
            }
        }
        Self { all, positions }
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, ';' | '|' | '&' | '(' | ')' | '{' | '}' | '\n' | '`')
}
