//! `completions`, and the answers to its scripts while a user types.
//!
//! The scripts contain no completions: at each tab they start the program with [`VARIABLE`] set and the words typed
//! so far, and it prints the candidates. So all shells offer the same, and completions follow the current
//! configuration.

use std::{borrow::Cow, ffi::OsString, path::Path};

use clap::CommandFactory as _;
use clap_complete::{Shell, env::Shells};
use crow_app::ProcessEnvironment;
use crow_console::ExitCode;

use crate::{args::Cli, error::CliError, terminal::write_out};

/// Environment variable that names the calling shell.
const VARIABLE: &str = "CROW_COMPLETE";
/// Separator between the program and the typed words.
const WORDS: &str = "--";
/// Script for bash. The one of the library splits words as bash does, and so completes nothing behind `--model=` and
/// behind a `:` in a model name.
const BASH: &str = include_str!("completions.bash");
/// Text appended for zsh, which runs a script from a folder of `fpath` at the first tab: with it, that tab already
/// gets candidates.
const ZSH_AT_FIRST: &str =
    "[[ $funcstack[1] == _crow-agent ]] && _clap_dynamic_completer_crow_agent \"$@\"\n";

/// Prints a completion script.
pub(crate) fn completions(
    shell: Shell,
    args: &[OsString],
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let program = program(args, environment);
    if shell == Shell::Bash {
        return write_out(BASH.replace("PROGRAM", &quoted(&program)).as_bytes());
    }
    let failed = |error: std::io::Error| CliError::failed(error.to_string());
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell.to_string())
        .ok_or_else(|| CliError::usage(format!("there is no script for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "crow-agent", "crow-agent", &program, &mut script)
        .map_err(failed)?;
    if shell == Shell::Zsh {
        script.extend_from_slice(ZSH_AT_FIRST.as_bytes());
    }
    write_out(&script)
}

/// Prints the candidates for the word being typed. Returns `None` if the program was not called by a completion
/// script.
pub(crate) fn print_completions(
    args: &[OsString],
    environment: &ProcessEnvironment,
) -> Option<Result<ExitCode, CliError>> {
    let shell = environment.var(VARIABLE)?;
    let words = args.get(1..).filter(|rest| rest.first().is_some_and(|word| word == WORDS))?;
    let words = words[1..].to_vec();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell)?;
    let mut candidates = Vec::new();
    let cwd = environment.current_dir().ok();
    // A position without candidates is no error.
    let result = completer.write_complete(&mut Cli::command(), words, cwd, &mut candidates);
    Some(match result {
        Ok(()) => write_out(&candidates),
        Err(_) => Ok(ExitCode::Done),
    })
}

/// Returns the command with which a script starts the program: its name if it was started by name, else its absolute
/// path.
fn program(args: &[OsString], environment: &ProcessEnvironment) -> String {
    let path = args.first().map_or(Path::new("crow-agent"), Path::new);
    match environment.current_dir() {
        Ok(cwd) if path.components().count() > 1 => cwd.join(path).display().to_string(),
        _ => path.display().to_string(),
    }
}

/// Quotes a word for a shell if necessary.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/_-.+@:=,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}
