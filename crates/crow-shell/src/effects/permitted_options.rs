//! Matching of a command's options and operands against what a permission for its first words covers.
//!
//! [`options_of`] finds the [`OptionTable`] of the program (or of the one that a runner starts), expands the words
//! and reads them with an [`OptionReader`]. Every option must be listed: one that is not makes the effects unknown.
//! Files that listed options name become touches; words that only an explicit permission covers are returned by
//! position.

use std::path::Path;

use crow_core::tool::{Access, CommandWord, PathTouch, TouchDepth};

use super::{
    arguments::{Argument, arguments},
    command_context::{CommandContext, FollowLinks},
    git, git_options,
    option_table::{AfterDashes, OperandRule, OptionStyle, OptionTable, TABLES},
    options::option_name,
    service_options, started_operands, unlisted_words,
};
use crate::parse::is_set_by_the_shell;

/// Programs that read more options from a file given as `@file`.
const RESPONSE_FILES: [&str; 7] = ["dotnet", "gcc", "mypy", "pytest", "rustc", "terraform", "tsc"];

/// The result of reading a command's options.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OptionsOf {
    /// The program has no table. The words at these positions may have any effect.
    Unlisted(Vec<usize>),
    /// All options are known.
    Harmless(KnownOptions),
    /// An option is unknown, or may start a program, write a file or read settings from elsewhere.
    Unknown,
}

/// The effects of known options and operands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KnownOptions {
    /// The files that options name.
    pub touches: Vec<PathTouch>,
    /// The positions of operands that a permission for the words before them does not cover.
    pub unlisted: Vec<usize>,
}

/// A word as the program receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProgramWord {
    Known(String),
    /// One word that is known only when the line runs, but does not start with a dash.
    Operand,
    /// One word of which nothing is known. It can only be accepted as the value of an option.
    OneWord,
    /// A pipe from a command of the same line.
    Pipe,
}

/// Reads the options of a program, or of the program that it starts. `words` are those after the program's name.
pub(super) fn options_of(
    program: &str,
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> OptionsOf {
    let found = tables_of(program, words);
    let commands = started_operands::command_positions(program, words, found.is_some(), context);
    let Some((table, rest)) = found else {
        let mut positions = unlisted_words::unlisted_positions(program, words, context);
        positions.extend(commands);
        return OptionsOf::Unlisted(positions);
    };
    if program.rsplit('/').next() == Some("git") && formats_signatures(words) {
        return OptionsOf::Unknown;
    }
    match known_options(&table, words.len() - rest.len() + 1, rest, context) {
        Some(mut known) => {
            known.unlisted.extend(commands);
            OptionsOf::Harmless(known)
        }
        None => OptionsOf::Unknown,
    }
}

/// Reads the options and operands of a subcommand of git. Returns `None` if an option is unknown.
pub(super) fn git_options_of(
    subcommand: &str,
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<KnownOptions> {
    known_options(git_options::table(subcommand)?, 0, words, context)
}

/// Returns whether git is asked to run its signature program for a format.
fn formats_signatures(words: &[CommandWord]) -> bool {
    // An unquoted `%G?` is a glob pattern of the shell, so computed words count too.
    let texts = || {
        words.iter().map(|word| match word {
            CommandWord::Literal(text) | CommandWord::Computed(text) => {
                text.trim_matches(['"', '\''])
            }
        })
    };
    let mut pairs = std::iter::once("").chain(texts()).zip(texts());
    pairs.any(|(before, word)| {
        let is_format = ["--format", "--pretty"].iter().any(|it| word.starts_with(it))
            || matches!(before, "--format" | "--pretty");
        is_format && git::checks_signature(word)
    })
}

/// Reads words with a table. `offset` is the position of the first one in its command.
fn known_options(
    table: &OptionTable,
    offset: usize,
    words: &[CommandWord],
    context: &CommandContext<'_>,
) -> Option<KnownOptions> {
    let given = given(words, context)?;
    let read = OptionReader::new(table, &given).read()?;
    let mut known = KnownOptions::default();
    for (access, name) in read.files {
        known.touches.extend(context.touch(name, access, TouchDepth::Below, FollowLinks::Yes)?);
    }
    known.unlisted = read.operands.into_iter().map(|position| position + offset).collect();
    Some(known)
}

/// Returns the table for a command and the words that it applies to.
fn tables_of<'words>(
    name: &str,
    words: &'words [CommandWord],
) -> Option<(OptionTable, &'words [CommandWord])> {
    let name = name.rsplit('/').next().unwrap_or(name);
    if let Some(inner) = inner_program(name, words) {
        let (program, rest) = words.get(inner..)?.split_first()?;
        return tables_of(program.as_literal()?, rest);
    }
    if name == "git" {
        let (at, subcommand) = git_subcommand(words)?;
        return Some((*git_options::table(subcommand)?, words.get(at + 1..)?));
    }
    let first = words.first().and_then(CommandWord::as_literal);
    let fits = |table: &&OptionTable| {
        table.names.contains(&name)
            && (table.subcommands.is_empty()
                || first.is_some_and(|first| table.subcommands.contains(&first)))
    };
    TABLES.iter().chain(&service_options::TABLES).find(fits).map(|table| (*table, words))
}

/// Returns whether there is a table for a program.
pub(super) fn has_table(name: &str) -> bool {
    TABLES.iter().chain(&service_options::TABLES).any(|table| table.names.contains(&name))
}

/// Returns the index of the program that a runner starts, among the runner's arguments.
pub(super) fn inner_program(name: &str, words: &[CommandWord]) -> Option<usize> {
    let first = words.first().and_then(CommandWord::as_literal)?;
    match (name, first) {
        ("npx" | "bunx" | "uvx", first) if !first.starts_with('-') => Some(0),
        ("poetry" | "uv" | "pipenv" | "pdm" | "rye" | "pipx" | "hatch", "run")
        | ("bundle", "exec")
        | ("yarn" | "pnpm", "dlx" | "exec")
        | ("python" | "python3", "-m") => Some(1),
        _ => None,
    }
}

/// Returns the index and name of git's subcommand. The options before it were checked when the line was parsed.
pub(super) fn git_subcommand(words: &[CommandWord]) -> Option<(usize, &str)> {
    let mut at = 0;
    loop {
        match words.get(at)?.as_literal()? {
            "-C" | "-c" => at += 2,
            word if word.starts_with('-') => at += 1,
            word => return Some((at, word)),
        }
    }
}

/// Returns the words as the program receives them, with their positions. Returns `None` if one may become several
/// words or an option.
fn given(words: &[CommandWord], context: &CommandContext<'_>) -> Option<Vec<(usize, ProgramWord)>> {
    let mut given = Vec::new();
    for (position, word) in words.iter().enumerate() {
        for argument in arguments(std::slice::from_ref(word), context) {
            let value = match argument {
                Argument::Known(text) => ProgramWord::Known(text),
                Argument::Pipe => ProgramWord::Pipe,
                Argument::Unknown => unknown(word, context)?,
            };
            given.push((position, value));
        }
    }
    Some(given)
}

/// Returns whether a word is certainly no option.
pub(super) fn is_operand(word: &CommandWord, context: &CommandContext<'_>) -> bool {
    given(std::slice::from_ref(word), context).is_some_and(|given| {
        given.iter().all(|(_, given)| match given {
            ProgramWord::Known(text) => {
                !text.starts_with(['-', '+']) || text == "-" || text == "--"
            }
            ProgramWord::Operand | ProgramWord::Pipe => true,
            ProgramWord::OneWord => false,
        })
    })
}

/// Classifies a computed word: a variable of the environment, whose value the line did not choose, or a word in
/// double quotes, which stays one word. Returns `None` for others.
fn unknown(word: &CommandWord, context: &CommandContext<'_>) -> Option<ProgramWord> {
    let CommandWord::Computed(text) = word else { return None };
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let inner = quoted.unwrap_or(text);
    let name = inner
        .strip_prefix('$')
        .map(|name| name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name));
    let is_name = |name: &str| {
        name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    let is_of_the_line =
        |name: &str| context.facts.variables.contains_key(name) || is_set_by_the_shell(name);
    if let Some(name) = name.filter(|name| is_name(name)) {
        if !is_of_the_line(name) {
            return Some(ProgramWord::Operand);
        }
        // Unquoted, it may become several words.
        quoted?;
    }
    // `"$@"` and `"${a[@]}"` become several words.
    if quoted.is_none() || inner.contains(['"', '@']) {
        return None;
    }
    let is_plain = |char: char| !matches!(char, '-' | '$' | '`' | '\\' | '+');
    Some(if inner.starts_with(is_plain) { ProgramWord::Operand } else { ProgramWord::OneWord })
}

/// The result of reading words with a table.
#[derive(Debug, Default)]
struct ReadWords<'a> {
    /// The files that options name, with the access.
    files: Vec<(Access, &'a str)>,
    /// Positions of operands that the table does not cover.
    operands: Vec<usize>,
}

/// Reads the words of a command, one after the other.
struct OptionReader<'a> {
    table: &'a OptionTable,
    rest: &'a [(usize, ProgramWord)],
    position: usize,
    operands: usize,
    /// True if tar writes the archive that it is given.
    makes_archive: bool,
    read: ReadWords<'a>,
}

impl<'a> OptionReader<'a> {
    fn new(table: &'a OptionTable, given: &'a [(usize, ProgramWord)]) -> Self {
        let makes_archive = table.style == OptionStyle::Tar && makes_archive(given);
        let read = ReadWords::default();
        Self { table, rest: given, position: 0, operands: 0, makes_archive, read }
    }

    /// Reads all words. Returns `None` if an option is unknown.
    fn read(mut self) -> Option<ReadWords<'a>> {
        let mut is_first = true;
        while let Some(given) = self.next() {
            match given {
                ProgramWord::OneWord => return None,
                ProgramWord::Operand => self.operand(None),
                ProgramWord::Pipe => {}
                ProgramWord::Known(text) if text == "--" => {
                    return self.is_harmless_behind().then_some(self.read);
                }
                ProgramWord::Known(text) if is_in(text, self.table.words) => {}
                ProgramWord::Known(text) => self.word(text, is_first)?,
            }
            is_first = false;
        }
        Some(self.read)
    }

    fn next(&mut self) -> Option<&'a ProgramWord> {
        let ((position, first), rest) = self.rest.split_first()?;
        self.rest = rest;
        self.position = *position;
        Some(first)
    }

    /// Records an operand; its text is `None` if it is unknown.
    fn operand(&mut self, text: Option<&str>) {
        self.operands += 1;
        let is_covered = match self.table.operands {
            OperandRule::Any => true,
            // Only git's first operand is a repository, the others are names in it.
            OperandRule::NoAddress => text.is_none_or(|text| {
                let is_place = text.contains(':') || text.starts_with(['/', '.', '~']);
                let is_repository = self.operands == 1 && self.table.names != ["gh"];
                !(text.contains("://") || (is_repository && is_place))
            }),
            OperandRule::WebAddress => {
                self.operands == 1 && text.is_some_and(unlisted_words::is_web_address)
            }
            OperandRule::Target => text.is_none_or(started_operands::is_plain_target),
            OperandRule::Most(most) => self.operands <= most,
        };
        let opens_command = text.is_some_and(started_operands::opens_command)
            && !started_operands::takes_text(self.table.names);
        if !is_covered || opens_command {
            self.read.operands.push(self.position);
        }
    }

    fn word(&mut self, text: &'a str, is_first: bool) -> Option<()> {
        let dashed = text.strip_prefix('-').filter(|rest| !rest.is_empty());
        match (self.table.style, dashed) {
            (OptionStyle::Tar, None) if is_first => self.old_letters(text),
            // `+toolchain` selects another program, `@file` holds more options.
            (_, None) => {
                let takes_file = RESPONSE_FILES.iter().any(|name| self.table.names.contains(name));
                // `:branch` deletes a branch of the repository that git pushes to.
                let takes_away = self.table.names.contains(&"push") && text.starts_with(':');
                let is_more =
                    text.starts_with('+') || takes_file && text.starts_with('@') || takes_away;
                self.operand(Some(text));
                (!is_more).then_some(())
            }
            (OptionStyle::Compiler, Some(_)) => self.compiler(text),
            (OptionStyle::SingleDash, Some(name)) => {
                self.long(text, name.strip_prefix('-').unwrap_or(name))
            }
            (OptionStyle::Gnu | OptionStyle::Tar, Some(rest)) if rest.starts_with('-') => {
                self.long(text, text)
            }
            (OptionStyle::Gnu | OptionStyle::Tar, Some(letters)) => self.letters(letters),
        }
    }

    /// Records the position of an option that a permission must name explicitly.
    fn name(&mut self, name: &str) {
        let is_named = |known: &str| known.trim_start_matches('-') == name.trim_start_matches('-');
        let is_letter = |name: &str| name.trim_start_matches('-').chars().count() == 1;
        let mut known = self.table.only_named.split(' ').filter(|known| !known.is_empty());
        let is_same_kind = |known: &str| {
            self.table.style == OptionStyle::SingleDash || is_letter(known) == is_letter(name)
        };
        if known.any(|known| is_named(known) && is_same_kind(known)) {
            self.read.operands.push(self.position);
        }
    }

    /// Reads a long option. Abbreviations are not accepted: they may mean another option.
    fn long(&mut self, text: &'a str, name: &'a str) -> Option<()> {
        let (name, value) =
            name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        self.name(name);
        if is_in(name, self.table.long_valued) {
            let dashed = option_name(text);
            return self.value(dashed, value);
        }
        is_in(name, self.table.long).then_some(())
    }

    /// Reads the old style of tar: each character is an option, and the values follow the cluster.
    fn old_letters(&mut self, letters: &str) -> Option<()> {
        for letter in letters.chars() {
            if self.table.valued.contains(letter) {
                self.value(&dashed(letter), None)?;
            } else if !self.table.flags.contains(letter) {
                return None;
            }
        }
        Some(())
    }

    /// Reads a cluster of letters; the first one with a value ends it.
    fn letters(&mut self, letters: &'a str) -> Option<()> {
        for (at, letter) in letters.char_indices() {
            self.name(&dashed(letter));
            if self.table.valued.contains(letter) {
                let rest = &letters[at + letter.len_utf8()..];
                return self.value(&dashed(letter), (!rest.is_empty()).then_some(rest));
            }
            if !self.table.flags.contains(letter) {
                return None;
            }
        }
        Some(())
    }

    /// Reads the value of an option, from the same word or the next one.
    fn value(&mut self, option: &str, attached: Option<&'a str>) -> Option<()> {
        let at_option = self.position;
        let value = match attached {
            Some(value) => Some(value),
            None => match self.next()? {
                ProgramWord::Known(value) => Some(value.as_str()),
                // It may be a file, see below.
                ProgramWord::OneWord if option == "--target" => return None,
                ProgramWord::Operand | ProgramWord::OneWord | ProgramWord::Pipe => None,
            },
        };
        let restricted = || self.table.only_with.split(' ').filter_map(|pair| pair.split_once('='));
        if restricted().any(|(name, _)| name == option) {
            return restricted()
                .any(|pair| value.is_some_and(|value| pair == (option, value)))
                .then_some(());
        }
        // A target of cargo that is a JSON file names programs that build and run it.
        if option == "--target" && value.is_some_and(is_json) {
            return None;
        }
        // After a host name it is sent to a program on that host.
        let is_archive = self.table.style == OptionStyle::Tar && matches!(option, "-f" | "--file");
        if is_archive && value.is_some_and(|value| value.contains(':')) {
            return None;
        }
        // The first word contains tar's operation, and the archive if it has a letter for it; other archive options
        // need a permission.
        if is_archive && at_option > 0 && self.makes_archive {
            self.read.operands.push(at_option);
        }
        let bare = option.trim_start_matches('-');
        let is_one_of = |list| {
            is_in(option, list) || is_in(bare, list) || {
                self.table.style == OptionStyle::SingleDash && is_in(&format!("-{bare}"), list)
            }
        };
        let access = if is_one_of(self.table.outputs) {
            Access::Write
        } else if is_one_of(self.table.inputs) {
            Access::Read
        } else {
            return Some(());
        };
        let name = value?;
        if !matches!(name, "-" | "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            self.read.files.push((access, name));
            if access == Access::Write && !self.table.makes_files {
                self.read.operands.push(self.position);
            }
        }
        Some(())
    }

    /// Reads an option of a compiler. `-wrapper`, `-B`, `-specs=`, `-fplugin=`, `-Wl,…` and the like start or load
    /// other programs.
    fn compiler(&mut self, text: &'a str) -> Option<()> {
        const WHOLE: [&str; 20] = [
            "-c",
            "-E",
            "-S",
            "-M",
            "-MM",
            "-MD",
            "-MMD",
            "-MP",
            "-shared",
            "-static",
            "-pthread",
            "-pipe",
            "-pedantic",
            "-pedantic-errors",
            "-v",
            "-w",
            "-ansi",
            "-rdynamic",
            "--version",
            "-s",
        ];
        const BEGINNINGS: [&str; 9] = ["-O", "-g", "-std=", "-D", "-U", "-I", "-L", "-l", "-m"];
        let is_warning = text.starts_with("-W") && !text.contains([',', '=']);
        let is_feature = text.starts_with("-f") && !text.contains(['=', ',']);
        if let Some(rest) = text.strip_prefix("-o") {
            return self.value("-o", (!rest.is_empty()).then_some(rest));
        }
        let is_separate = matches!(text, "-D" | "-U" | "-I" | "-L" | "-l");
        if is_separate {
            return self.value(text, None);
        }
        let is_known = WHOLE.contains(&text)
            || is_warning
            || is_feature
            || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning));
        is_known.then_some(())
    }

    /// Records the words after `--` that may be commands.
    fn operands_behind(&mut self) {
        let is_target = self.table.operands == OperandRule::Target;
        let is_text = started_operands::takes_text(self.table.names);
        let commands = self.rest.iter().filter(|(_, given)| match given {
            ProgramWord::Known(text) => {
                is_target && !started_operands::is_plain_target(text)
                    || !is_text && started_operands::opens_command(text)
            }
            ProgramWord::Operand | ProgramWord::OneWord | ProgramWord::Pipe => false,
        });
        self.read.operands.extend(commands.map(|(at, _)| *at));
    }

    /// Reads the words after `--`, and returns whether they are harmless.
    fn is_harmless_behind(&mut self) -> bool {
        let named = self.table.only_named;
        let is_named =
            |given: &ProgramWord| matches!(given, ProgramWord::Known(text) if is_in(text, named));
        let positions = self.rest.iter().filter(|(_, given)| is_named(given)).map(|(at, _)| *at);
        self.read.operands.extend(positions);
        if self.table.after_dashes != AfterDashes::Anything {
            self.operands_behind();
        }
        match self.table.after_dashes {
            AfterDashes::Operands => match self.table.operands {
                OperandRule::Any | OperandRule::Target => true,
                OperandRule::NoAddress | OperandRule::WebAddress | OperandRule::Most(_) => {
                    self.rest.is_empty()
                }
            },
            AfterDashes::Anything => true,
            AfterDashes::Options(known) => self.rest.iter().all(|(_, given)| match given {
                ProgramWord::OneWord => false,
                ProgramWord::Operand | ProgramWord::Pipe => true,
                ProgramWord::Known(text) => {
                    !text.starts_with('-') || is_in(option_name(text), known)
                }
            }),
            AfterDashes::Only(known) => self.rest.iter().all(|(_, given)| match given {
                ProgramWord::OneWord | ProgramWord::Operand | ProgramWord::Pipe => false,
                ProgramWord::Known(text) => {
                    let text = text.trim_end_matches(|char: char| char.is_ascii_digit());
                    text.is_empty() || is_in(text, known)
                }
            }),
        }
    }
}

/// Returns whether the words of tar create or change an archive.
fn makes_archive(given: &[(usize, ProgramWord)]) -> bool {
    given.iter().enumerate().any(|(at, (_, given))| match given {
        ProgramWord::Known(text) if text.starts_with("--") => {
            ["--append", "--create", "--update"].contains(&text.as_str())
        }
        ProgramWord::Known(text) if text.starts_with('-') || at == 0 => {
            text.contains(['c', 'r', 'u'])
        }
        ProgramWord::Known(_) | ProgramWord::Operand | ProgramWord::OneWord | ProgramWord::Pipe => {
            false
        }
    })
}

fn dashed(letter: char) -> String {
    format!("-{letter}")
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Returns whether a name is in a list divided by blanks.
fn is_in(name: &str, list: &str) -> bool {
    !name.is_empty() && list.split(' ').any(|known| known == name)
}
