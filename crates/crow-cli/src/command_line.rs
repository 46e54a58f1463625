//! Reads the command line, also as people type it: options before the command, and a task without `run`.

use std::ffi::OsString;

use clap::{
    CommandFactory as _, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use crow_core::config::nearest;

use crate::args::Cli;

const RUN: &str = "run";

/// Reads the command line; the first argument is the name of the program.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let kind = error.kind();
    let meant = if kind == ErrorKind::ArgumentConflict {
        with_command_first(args).or_else(|| as_task(&error, args))
    } else if kind == ErrorKind::InvalidSubcommand {
        as_task(&error, args)
    } else {
        None
    };
    match meant.map(Cli::try_parse_from) {
        Some(Ok(cli)) => Ok(cli),
        Some(Err(_)) | None => Err(with_suggestion(error)),
    }
}

/// Moves the options before a command behind it: `crow-agent -m x/y run "task"`.
fn with_command_first(args: &[OsString]) -> Option<Vec<OsString>> {
    let known = Cli::command();
    let is_command = |arg: &OsString| known.find_subcommand(arg).is_some();
    let at = args.iter().skip(1).position(is_command)? + 1;
    let mut meant = args.to_vec();
    meant.get_mut(1..=at)?.rotate_right(1);
    Some(meant)
}

/// Takes several words for a task: `crow-agent "fix the test"`. One word is more likely a command that is misspelt.
fn as_task(error: &clap::Error, args: &[OsString]) -> Option<Vec<OsString>> {
    let is_task_in = |value: &ContextValue| {
        let ContextValue::String(unknown) = value else { return false };
        unknown.trim().contains(char::is_whitespace)
            && args.iter().any(|arg| arg.to_str() == Some(unknown))
    };
    let is_task = error.context().any(|(_, value)| is_task_in(value));
    let mut meant = args.to_vec();
    meant.insert(1, RUN.into());
    is_task.then_some(meant)
}

/// Adds which command may be meant, where the library sees none.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    if error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand)
    {
        let known = Cli::command();
        let names = known.get_subcommands().map(clap::Command::get_name);
        if let Some(meant) = nearest(unknown, names).map(str::to_owned) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;

    fn parsed(line: &[&str]) -> Result<Cli, clap::Error> {
        let args: Vec<OsString> =
            ["crow-agent"].iter().chain(line).map(|word| OsString::from(*word)).collect();
        parse(&args)
    }

    /// The prompt and the model of a run.
    fn run(line: &[&str]) -> (Option<String>, Option<String>) {
        match parsed(line).map(|cli| cli.command) {
            Ok(Some(Command::Run(run))) => (run.prompt, run.options.agent.model),
            other => panic!("{line:?}: {:?}", other.err().map(|error| error.to_string())),
        }
    }

    #[test]
    fn options_before_a_command_and_a_task_without_one_are_understood() {
        let task = Some("fix it".to_owned());
        let model = Some("a/b".to_owned());
        for (line, expected) in [
            (&["run", "-m", "a/b", "fix it"][..], (&task, &model)),
            (&["-m", "a/b", "run", "fix it"], (&task, &model)),
            (&["--model=a/b", "run", "fix it"], (&task, &model)),
            (&["fix it"], (&task, &None)),
            (&["-m", "a/b", "fix it"], (&task, &model)),
            (&["fix it", "-m", "a/b"], (&task, &model)),
        ] {
            let (prompt, model) = run(line);
            assert_eq!((&prompt, &model), expected, "{line:?}");
        }
        assert!(matches!(parsed(&["-m", "a/b"]), Ok(Cli { command: None, .. })));
    }

    #[test]
    fn a_misspelt_command_is_refused_and_the_one_that_is_meant_is_named() {
        for (word, meant) in [("rnu", "run"), ("sesions", "sessions"), ("dcotor", "doctor")] {
            let text = parsed(&[word]).unwrap_err().to_string();
            assert!(text.contains(&format!("'{meant}'")), "{text}");
        }
        let text = parsed(&["frobnicate"]).unwrap_err().to_string();
        assert!(!text.contains("similar"), "{text}");
    }

    #[test]
    fn what_is_wrong_behind_the_command_is_told_as_it_was_typed() {
        let text = parsed(&["-m", "a/b", "run", "x", "--modle", "y"]).unwrap_err().to_string();
        assert!(text.contains("cannot be used with") || text.contains("--modle"), "{text}");
    }
}
