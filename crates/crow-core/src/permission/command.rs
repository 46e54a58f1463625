//! How rules see a command.

use std::cell::OnceCell;

use super::{part::Match, place::Place};
use crate::{
    tool::{Access, Redirect, SimpleCommand, Word},
    workspace::Workspace,
};

/// A command that rules are held against. What several of them look at is worked out once.
#[derive(Debug)]
pub(super) struct CommandPart<'a> {
    pub(super) command: &'a SimpleCommand,
    /// The program as it is called, and its last name.
    program: Option<(&'a str, &'a str)>,
    text: OnceCell<String>,
    redirects: OnceCell<Vec<(Place<'static>, Access)>>,
}

impl<'a> CommandPart<'a> {
    pub(super) fn new(command: &'a SimpleCommand) -> Self {
        let program = command.words.first().and_then(Word::as_literal);
        Self {
            command,
            program: program.map(|program| (program, base_name(program))),
            text: OnceCell::new(),
            redirects: OnceCell::new(),
        }
    }

    /// Returns whether a rule that denies or asks about a prefix speaks of it.
    ///
    /// The program is also known by its last name (`/bin/rm` is `rm`), and options with their values may stand between
    /// the words (`git -C folder push`). A word that is only known when the line runs may be the one that is looked for.
    pub(super) fn begins_with(&self, prefix: &[String]) -> Match {
        let (Some((program, last_name)), Some((wanted, rest))) =
            (self.program, prefix.split_first())
        else {
            return Match::No;
        };
        if program != wanted && last_name != wanted {
            return Match::No;
        }
        continues_with(self.command.words.iter().skip(1).map(Word::as_literal), rest)
    }

    /// The words joined by blanks.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let words = self.command.words.iter().map(|word| match word {
                Word::Literal(word) | Word::Computed(word) => word.as_str(),
            });
            words.collect::<Vec<_>>().join(" ")
        })
    }

    /// The same text without the program's folder, if it has one.
    pub(super) fn text_without_folder(&self) -> Option<&str> {
        let (program, last_name) = self.program?;
        let folder = program.len() - last_name.len();
        if folder == 0 { None } else { self.text().get(folder..) }
    }

    /// The files that are known to be redirected from and to.
    pub(super) fn redirects(&self, workspace: &Workspace) -> &[(Place<'static>, Access)] {
        self.redirects.get_or_init(|| {
            let known = self.command.redirects.iter().filter_map(|redirect| {
                let target = redirect.target.as_literal()?;
                Some((Place::named(target, workspace), redirect.access))
            });
            known.collect()
        })
    }
}

/// Variables that may be set for an allowed command: none of them makes a program run another one.
const HARMLESS_VARIABLES: [&str; 14] = [
    "CARGO_TERM_COLOR",
    "CI",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "VERBOSE",
];

/// Commands that have no effect outside the shell.
const HARMLESS_COMMANDS: [&str; 12] =
    [":", "[", "cd", "echo", "exit", "false", "printf", "pwd", "sleep", "test", "true", "wait"];

/// Returns whether a command begins with exactly these words, and has nothing about it that they do not say.
pub(super) fn is_covered_by(command: &SimpleCommand, prefix: &[String]) -> bool {
    !prefix.is_empty()
        && command.words.len() >= prefix.len()
        && command.words.iter().zip(prefix).all(|(word, wanted)| word.as_literal() == Some(wanted))
        && is_plain(command)
}

/// Returns whether the words hold these in this order, with only options and their values between them.
pub(super) fn continues_with<'a>(
    words: impl Iterator<Item = Option<&'a str>>,
    wanted: &[String],
) -> Match {
    let mut wanted = wanted.iter();
    let Some(mut next) = wanted.next() else { return Match::Yes };
    let mut after_option = false;
    for word in words {
        let Some(word) = word else { return Match::Maybe };
        if word == next {
            match wanted.next() {
                Some(following) => next = following,
                None => return Match::Yes,
            }
            after_option = false;
        } else if word.starts_with('-') {
            after_option = true;
        } else if after_option {
            after_option = false;
        } else {
            return Match::No;
        }
    }
    Match::No
}

/// Returns whether a command does nothing that its words do not say: it changes no file by a redirect and sets no
/// variable that could make a program do something else.
pub(super) fn is_plain(command: &SimpleCommand) -> bool {
    command.redirects.iter().all(|redirect| !writes(redirect))
        && command.assignments.iter().all(|name| HARMLESS_VARIABLES.contains(&name.as_str()))
}

/// Returns whether a command has no effect outside the shell.
pub(super) fn is_harmless(command: &SimpleCommand) -> bool {
    let program = match command.words.first() {
        None => !command.assignments.is_empty() || !command.redirects.is_empty(),
        Some(word) => word.as_literal().is_some_and(|word| HARMLESS_COMMANDS.contains(&word)),
    };
    program && is_plain(command) && !command.words.iter().any(hides_a_command)
}

/// Returns the program's name without its folder.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns whether all words are known, and the first of them is one word also when they are joined.
pub(super) fn is_known(command: &SimpleCommand) -> bool {
    let program = command.words.first().and_then(Word::as_literal);
    program.is_some_and(|program| !program.contains(char::is_whitespace))
        && command.words.iter().all(|word| word.as_literal().is_some())
}

fn writes(redirect: &Redirect) -> bool {
    redirect.access == Access::Write && redirect.target.as_literal() != Some("/dev/null")
}

/// A quoted word in which `test -v` and `printf -v` would run a command: they evaluate the index of a variable.
fn hides_a_command(word: &Word) -> bool {
    word.as_literal().is_some_and(|word| word.contains("$(") || word.contains('`'))
}
