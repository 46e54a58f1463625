//! `completions`, and what its scripts ask for while somebody types.
//!
//! A script knows nothing itself: at each tab it starts the program with [`VARIABLE`] and the words typed so far, and the
//! program offers what may stand there. So all shells offer the same, and what is configured meanwhile is offered too.

use std::{borrow::Cow, ffi::OsString, path::Path};

use clap::CommandFactory as _;
use clap_complete::{Shell, env::Shells};

use super::write_out;
use crate::{args::Cli, environment::Environment, error::CliError, output::ExitCode};

/// Names the shell that asks.
const VARIABLE: &str = "CROW_COMPLETE";
/// Stands between the program and the words that were typed.
const WORDS: &str = "--";
/// The script for bash. The one of the library takes words as bash breaks them: nothing is offered behind `--model=` and
/// behind a `:` in the name of a model.
const BASH: &str = include_str!("completions.bash");
/// In a folder of `fpath` zsh runs the script at the first tab: it then offers something at once.
const ZSH_AT_FIRST: &str =
    "[[ $funcstack[1] == _crow-agent ]] && _clap_dynamic_completer_crow_agent \"$@\"\n";

/// Prints a completion script.
pub(crate) fn completions(
    shell: Shell,
    args: &[OsString],
    environment: &Environment,
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

/// Offers what may stand at the place where somebody types, if a script asks for it.
pub(crate) fn offer(
    args: &[OsString],
    environment: &Environment,
) -> Option<Result<ExitCode, CliError>> {
    let shell = environment.var(VARIABLE)?;
    let words = args.get(1..).filter(|rest| rest.first().is_some_and(|word| word == WORDS))?;
    let words = words.get(1..).unwrap_or_default().to_vec();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell)?;
    let mut offered = Vec::new();
    let cwd = environment.current_dir().ok();
    // Where nothing can stand nothing is offered.
    let asked = completer.write_complete(&mut Cli::command(), words, cwd, &mut offered);
    Some(match asked {
        Ok(()) => write_out(&offered),
        Err(_) => Ok(ExitCode::Done),
    })
}

/// How a script starts the program: by its name where it was started so, else by its path.
fn program(args: &[OsString], environment: &Environment) -> String {
    let given = args.first().map_or(Path::new("crow-agent"), Path::new);
    match environment.current_dir() {
        Ok(cwd) if given.components().count() > 1 => cwd.join(given).display().to_string(),
        _ => given.display().to_string(),
    }
}

/// Quotes a word for a shell, where it needs that.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/_-.+@:=,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}
