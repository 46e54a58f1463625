//! Parser of the command line that also accepts common variants: options before the command, and a task without `run`.
//!
//! clap parses the arguments as they are. Only if that fails with a conflict or an unknown subcommand, the first word
//! that is not an option decides: a command gets the options before it moved behind it; a word with blanks is taken as
//! a task of `run`; anything else is an error with suggestions.

use std::ffi::{OsStr, OsString};

use clap::{
    Arg, CommandFactory as _, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use crow_core::config::nearest;

use crate::args::{Cli, quoted};

const RUN: &str = "run";

/// Parses the command line; the first argument is the name of the program.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::ArgumentConflict | ErrorKind::InvalidSubcommand => {}
        _ => return Err(error),
    }
    let command = Cli::command();
    // Without a word the conflict is between options.
    let Some(first) = first_word(&command, args) else { return Err(error) };
    let Some(word) = args[first].to_str() else { return Err(error) };
    if command.find_subcommand(word).is_some() {
        return with_command_first(args, first).unwrap_or(Err(error));
    }
    if word.trim().contains(char::is_whitespace)
        && let Ok(cli) = Cli::try_parse_from(with_run(args))
    {
        return Ok(cli);
    }
    Err(no_command(word, args, first))
}

/// Returns the index of the first word that is neither an option of the chat nor its value; `None` if there is none,
/// or an option is unknown.
fn first_word(command: &clap::Command, args: &[OsString]) -> Option<usize> {
    let mut index = 1;
    loop {
        let text = args.get(index)?.to_string_lossy();
        if !text.starts_with('-') {
            return Some(index);
        }
        let (option, has_value) = option(command, &text)?;
        index += 1;
        let values = option.get_num_args().unwrap_or_default();
        let next_is_value = args.get(index).is_some_and(|next| !is_option(next));
        if !has_value && values.takes_values() && (values.min_values() > 0 || next_is_value) {
            index += 1;
        }
    }
}

fn is_option(text: &OsStr) -> bool {
    text.as_encoded_bytes().starts_with(b"-")
}

/// Returns the option that an argument names, and true if the argument includes the value: `--model=x`, `-mx`.
fn option<'a>(command: &'a clap::Command, text: &str) -> Option<(&'a Arg, bool)> {
    let mut options = command.get_arguments();
    if let Some(long) = text.strip_prefix("--") {
        let (name, has_value) =
            long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        return Some((options.find(|option| option.get_long() == Some(name))?, has_value));
    }
    let mut letters = text.chars().skip(1);
    let short = letters.next()?;
    let option = options.find(|option| option.get_short() == Some(short))?;
    Some((option, letters.next().is_some()))
}

/// Parses the arguments with the options before a command moved behind it, for lines such as `crow-agent -m x/y run
/// "task"` and `crow-agent --cwd x sessions list`. The error names the options that the command does not have. Returns
/// `None` if no option precedes the command.
fn with_command_first(args: &[OsString], first: usize) -> Option<Result<Cli, clap::Error>> {
    let options = args.get(1..first).filter(|options| !options.is_empty())?;
    let mut root = Cli::command();
    root.build();
    let mut command = &mut root;
    let mut end = first;
    while let Some(name) = args.get(end).filter(|name| command.find_subcommand(name).is_some()) {
        command = command.find_subcommand_mut(name)?;
        end += 1;
    }
    // 1) Move the options behind the (sub)command and parse again
    let mut reordered = args.to_vec();
    reordered.get_mut(1..end)?.rotate_left(options.len());
    let error = match Cli::try_parse_from(reordered) {
        Ok(cli) => return Some(Ok(cli)),
        Err(error) => error,
    };
    // 2) Find options of the chat that the command does not have
    let chat = Cli::command();
    let foreign: Vec<String> = options
        .iter()
        .filter_map(|text| option(&chat, text.to_str().filter(|text| text.starts_with('-'))?))
        .filter_map(|(option, _)| option.get_long())
        .filter(|long| command.get_arguments().all(|own| own.get_long() != Some(long)))
        .map(|long| format!("--{long}"))
        .collect();
    if foreign.is_empty() {
        return Some(Err(error));
    }
    let name = args[first..end].iter().map(|name| name.to_string_lossy());
    let name = name.collect::<Vec<_>>().join(" ");
    let (options, belong) = match foreign.as_slice() {
        [one] => (format!("the option {one}"), "does not belong"),
        _ => (format!("the options {}", foreign.join(", ")), "do not belong"),
    };
    let message = format!("{options} {belong} to '{name}'");
    Some(Err(command.error(ErrorKind::UnknownArgument, message)))
}

fn with_run(args: &[OsString]) -> Vec<OsString> {
    let mut extended = args.to_vec();
    extended.insert(1, RUN.into());
    extended
}

/// Returns the error for an unknown command, with the nearest command and the line that gives the word as a task. A
/// single word is not taken as a task, since it more likely is a misspelt command.
fn no_command(word: &str, args: &[OsString], first: usize) -> clap::Error {
    let mut root = Cli::command();
    // Needed to render the usage.
    root.build();
    let names = root.get_subcommands().map(clap::Command::get_name);
    let suggestion = nearest(word, names).map(str::to_owned);
    let mut error = clap::Error::new(ErrorKind::InvalidSubcommand).with_cmd(&root);
    error.insert(ContextKind::InvalidSubcommand, ContextValue::String(word.to_owned()));
    if let Some(suggestion) = suggestion {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![suggestion]));
    }
    let usage = root.render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    let tip = format!("to give a task: {}", task_line(args, first));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Returns a command line that gives the words from index `first` on as a task, with the options around them.
fn task_line(args: &[OsString], first: usize) -> String {
    let words = args[first..].iter().take_while(|word| !is_option(word)).count();
    let (task, after) = args[first..].split_at(words);
    let text = |words: &[OsString]| -> Vec<String> {
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    };
    let task = text(task).join(" ");
    let options: Vec<String> = text(&args[1..first]).into_iter().chain(text(after)).collect();
    let is_valid = {
        let line = ["crow-agent", RUN].into_iter().map(OsString::from);
        let options = options.iter().map(OsString::from);
        Cli::try_parse_from(line.chain(options).chain([task.clone().into()])).is_ok()
    };
    let mut line = format!("crow-agent {RUN} ");
    // Invalid options are left out.
    for option in options.iter().filter(|_| is_valid) {
        line.push_str(&quoted(option));
        line.push(' ');
    }
    let is_plain = !task.contains(['"', '$', '`', '\\', '!']);
    if is_plain {
        line.extend(["\"", &task, "\""]);
    } else {
        line.push_str(&quoted(&task));
    }
    line
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

    /// Returns the prompt and the model of a run.
    fn run(line: &[&str]) -> (Option<String>, Option<String>) {
        match parsed(line).map(|cli| cli.command) {
            Ok(Some(Command::Run(run))) => (run.prompt, run.options.agent.model),
            other => panic!("{line:?}: {:?}", other.err().map(|error| error.to_string())),
        }
    }

    #[test]
    fn options_before_a_command_and_a_task_without_one_are_accepted() {
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
    fn a_misspelt_command_is_refused_with_the_nearest_one() {
        for (word, meant) in [("rnu", "run"), ("sesions", "sessions"), ("dcotor", "doctor")] {
            let text = parsed(&[word]).unwrap_err().to_string();
            assert!(text.contains(&format!("'{meant}'")), "{text}");
        }
        let text = parsed(&["frobnicate"]).unwrap_err().to_string();
        assert!(!text.contains("similar"), "{text}");
    }

    #[test]
    fn an_unknown_option_after_the_command_is_named() {
        let text = parsed(&["-m", "a/b", "run", "x", "--modle", "y"]).unwrap_err().to_string();
        assert!(text.contains("--modle") && !text.contains("cannot be used"), "{text}");
    }

    #[test]
    fn an_unknown_command_is_refused_with_the_line_that_gives_it_as_a_task() {
        for (line, expected) in [
            (&["fix"][..], r#"crow-agent run "fix""#),
            (&["explain?"], r#"crow-agent run "explain?""#),
            (&["-m", "a/b", "explain"], r#"crow-agent run -m a/b "explain""#),
            (&["--resume", "-m", "a/b", "again"], r#"crow-agent run --resume -m a/b "again""#),
            (
                &["-p", "full-auto", "-m", "a/b", "--cwd", "D", "fix", "the", "bug"],
                r#"crow-agent run -p full-auto -m a/b --cwd D "fix the bug""#,
            ),
            (&["fix", "the", "bug", "-m", "a/b"], r#"crow-agent run -m a/b "fix the bug""#),
            (&["-m", "a b", "it's"], r#"crow-agent run -m 'a b' "it's""#),
            (&["-m", "a/b", "$HOME"], "crow-agent run -m a/b '$HOME'"),
        ] {
            let text = parsed(line).unwrap_err().to_string();
            assert!(text.contains(&format!("to give a task: {expected}\n")), "{line:?}: {text}");
            assert!(!text.contains("cannot be used"), "{text}");
        }
        for line in [&["sesions"][..], &["-m", "a/b", "sesions"]] {
            let text = parsed(line).unwrap_err().to_string();
            assert!(text.contains("'sessions'") && text.contains("\"sesions\""), "{text}");
        }
        let text = parsed(&["sessions", "lst"]).unwrap_err().to_string();
        assert!(text.contains("'list'") && !text.contains("give a task"), "{text}");
    }

    #[test]
    fn foreign_options_before_a_command_are_named() {
        for (line, expected) in [
            (
                &["--cwd", "D", "-m", "a/b", "sessions", "list"][..],
                "the option --model does not belong to 'sessions list'",
            ),
            (
                &["--cwd", "D", "-ma/b", "doctor"],
                "the options --cwd, --model do not belong to 'doctor'",
            ),
        ] {
            let text = parsed(line).unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("similar"), "{line:?}: {text}");
        }
        assert!(matches!(
            parsed(&["--cwd", "D", "sessions", "list"]).map(|cli| cli.command),
            Ok(Some(Command::Sessions(_)))
        ));
        // The value of an option may have the name of a command.
        let (prompt, _) = run(&["--cwd", "diff", "-m", "a/b", "fix it"]);
        assert_eq!(prompt.as_deref(), Some("fix it"));
    }
}
