//! Parsing lines entered at the prompt, and the commands of the chat itself.

use std::fmt::Write as _;

use crow_runtime::HostCommand;

/// A line at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatLine {
    /// Nothing was typed.
    Nothing,
    /// Text for the agent.
    Prompt(String),
    /// A command without its slash, and its argument.
    Command { name: String, argument: String },
}

/// Minimum Jaro-Winkler similarity of a suggested command name.
const ALIKE: f64 = 0.7;

impl ChatLine {
    /// Parses a line. A path is not a command, and neither is a line that starts with a blank.
    pub(super) fn parse(line: &str) -> Self {
        if line.trim().is_empty() {
            return Self::Nothing;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let is_name = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '-')
                && name.chars().all(fits)
        };
        match word.strip_prefix('/') {
            // A slash alone shows the help.
            Some("") if rest.trim().is_empty() => {
                Self::Command { name: HELP.to_owned(), argument: String::new() }
            }
            Some(name) if is_name(name) => {
                Self::Command { name: name.to_ascii_lowercase(), argument: rest.trim().to_owned() }
            }
            Some(_) | None => Self::Prompt(line.trim().to_owned()),
        }
    }
}

/// The command that lists the others.
pub(super) const HELP: &str = "help";
/// Commands of the chat, in addition to those of the host.
pub(super) static CHAT_COMMANDS: [HostCommand; 3] = [
    HostCommand::new("new", "", "start a new session"),
    HostCommand::new(HELP, "[NAME]", "show this, or all about a command"),
    HostCommand::new("quit", "", "leave (also ctrl-d)"),
];
/// Other names of commands.
pub(super) const ALIASES: [(&str, &str); 1] = [("exit", "quit")];

/// Maximum length of a command with its argument in the list of commands; of a longer one only the name is listed.
const LONGEST_HEAD: usize = 23;
/// Text of the help about keys.
const KEYS: &str = "\
ctrl-c      stop the agent; again: leave. up, ctrl-r: earlier prompts
\\ enter     a further line; what you type meanwhile reaches the next step.";

/// Formats the help: each command with the first clause of its description, so that all of it fits on a screen of 80
/// by 24. A description that does not fit beside its command within `columns` goes on its own line.
pub(super) fn help(commands: &[HostCommand], columns: usize) -> String {
    let short = |command: &HostCommand| {
        let head = head(command);
        if head.len() <= LONGEST_HEAD { head } else { format!("/{} ...", command.name) }
    };
    let heads: Vec<_> = commands.iter().map(short).collect();
    let widest = heads.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (head, command) in heads.iter().zip(commands) {
        let about = command.description.split("; ").next().unwrap_or_default();
        // Writing to a string cannot fail.
        if widest + 2 + about.len() < columns {
            let _ = writeln!(text, "{head:<widest$}  {about}");
        } else {
            let _ = writeln!(text, "{head}\n    {about}");
        }
    }
    text.push_str(KEYS);
    text
}

/// Formats one command with all its arguments and its whole description.
pub(super) fn help_about(command: &HostCommand) -> String {
    format!("{}\n    {}", head(command), command.description)
}

/// Returns a command with its argument.
fn head(command: &HostCommand) -> String {
    format!("/{} {}", command.name, command.argument).trim_end().to_owned()
}

/// Returns the command whose name is most similar, if it is similar enough.
pub(super) fn nearest<'a>(name: &str, commands: &'a [HostCommand]) -> Option<&'a str> {
    let scored = commands
        .iter()
        .map(|command| (strsim::jaro_winkler(name, &command.name), command.name.as_ref()))
        .filter(|(score, _)| *score >= ALIKE);
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_parse_as_nothing_a_prompt_or_a_command() {
        let prompt = |text: &str| ChatLine::Prompt(text.to_owned());
        let command = |name: &str, argument: &str| ChatLine::Command {
            name: name.to_owned(),
            argument: argument.to_owned(),
        };
        let table = [
            ("", ChatLine::Nothing),
            ("  \n", ChatLine::Nothing),
            ("fix it", prompt("fix it")),
            ("  fix it\n", prompt("fix it")),
            ("/help", command("help", "")),
            ("/model anthropic/claude  ", command("model", "anthropic/claude")),
            ("/etc/hosts is broken, fix it", prompt("/etc/hosts is broken, fix it")),
            ("/etc", command("etc", "")),
            ("/Help", command("help", "")),
            ("/ship_2 now", command("ship_2", "now")),
            ("/2", prompt("/2")),
            ("/MODEL Some/Name", command("model", "Some/Name")),
            ("/", command("help", "")),
            ("/ ", command("help", "")),
            ("/ is full", prompt("/ is full")),
            (" /help me", prompt("/help me")),
            ("//", prompt("//")),
            ("/new\nand more", command("new", "and more")),
        ];
        for (line, expected) in table {
            assert_eq!(ChatLine::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_nearest_command_is_suggested_for_an_unknown_one() {
        assert_eq!(nearest("hepl", &CHAT_COMMANDS), Some("help"));
        assert_eq!(nearest("qiut", &CHAT_COMMANDS), Some("quit"));
        assert_eq!(nearest("etc", &CHAT_COMMANDS), None);
    }

    #[test]
    fn the_help_lists_all_commands_for_any_width() {
        for columns in [40, 80] {
            let text = help(&CHAT_COMMANDS, columns);
            assert!(
                CHAT_COMMANDS.iter().all(|command| text.contains(&format!("/{}", command.name)))
            );
        }
        assert!(help(&CHAT_COMMANDS, 80).contains("/new          start a new session\n"));
    }

    #[test]
    fn the_help_lists_the_first_clause_and_shows_the_rest_on_request() {
        let undo =
            HostCommand::new("undo", "[turn N|call ID|all]", "undo changes; or those of a turn");
        let text = help(std::slice::from_ref(&undo), 80);
        assert!(text.starts_with("/undo ...  undo changes\n"), "{text}");
        let about = "/undo [turn N|call ID|all]\n    undo changes; or those of a turn";
        assert_eq!(help_about(&undo), about);
    }
}
