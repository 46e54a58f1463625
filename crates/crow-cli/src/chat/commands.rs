//! The commands of the chat: parsing lines entered at the prompt, the help, and running what they name.

use std::{fmt::Write as _, time::Duration};

use crow_core::{event::AgentEvent, ids::SessionId};
use crow_runtime::{AgentHandle, AgentHost as _, CommandOutcome, HostCommand, SessionSetup};
use futures_util::StreamExt as _;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::conversation::{ChatEnd, ChatLoop, ChatPhase, SessionRetention};
use crate::{error::CliError, terminal::console_style};

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
const HELP: &str = "help";
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
/// Parts of the help about keys. They fit on one line of 80 columns, and each of them on one of 40.
const KEYS: [&str; 3] =
    ["ctrl-c: stop, again: leave.", "up, ctrl-r: earlier prompts.", "\\ enter: new line"];

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
    let fits = KEYS.iter().map(|keys| keys.len() + 1).sum::<usize>() <= columns;
    text.push_str(&KEYS.join(if fits { " " } else { "\n" }));
    text
}

/// Formats one command with all its arguments and its whole description.
fn help_about(command: &HostCommand) -> String {
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

/// Host command that lists sessions; with an id the chat handles it itself.
const SESSIONS: &str = "sessions";
/// Time to wait for the event with which an agent records an undo. There is none if nothing changed.
const UNDO_EVENT_WAIT: Duration = Duration::from_millis(200);

impl ChatLoop {
    /// Runs a command. Returns the end of the chat if the command ends it. Errors of the command are shown, and the
    /// chat continues.
    pub(super) async fn command(
        &mut self,
        name: &str,
        argument: &str,
        phase: ChatPhase,
    ) -> Result<Option<ChatEnd>, CliError> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        let switches_session = name == "new" || (name == SESSIONS && !argument.is_empty());
        let is_undo = ["undo", "redo"].contains(&name);
        let needs_idle = is_undo || name == "compact";
        let host_commands = self.host.commands(self.handle.session_id()).await?;
        // Aliases are resolved; what remains is a chat command, a switch of the session, or a host command.
        match name {
            "quit" => return Ok(Some(ChatEnd::UserLeft)),
            "help" => {
                let columns = console_style(&self.environment).width;
                let (commands, about) = (all(host_commands), argument.trim_start_matches('/'));
                let text = match commands.iter().find(|command| command.name == about) {
                    Some(command) => help_about(command),
                    None if about.is_empty() => help(&commands, columns),
                    None => unknown(about, &commands),
                };
                self.screen.push_say(text);
            }
            _ if (switches_session || needs_idle) && phase == ChatPhase::Work => {
                self.screen.push_say("the agent is working; ctrl-c stops it".to_owned());
            }
            _ if switches_session => self.switch_session(name, argument).await?,
            name if host_commands.iter().any(|command| command.name == name) => {
                let id = self.handle.session_id().clone();
                match self.host.run_command(&id, name, argument).await {
                    // A prompt sent now would interrupt the text of the running agent.
                    Ok(CommandOutcome::Prompt(_)) if phase == ChatPhase::Work => {
                        self.screen.push_say("the agent is working; ctrl-c stops it".to_owned());
                    }
                    Ok(CommandOutcome::Prompt(content)) => {
                        // Boxed, because a run can lead to a command again (recursion).
                        return Box::pin(self.send_prompt(content)).await;
                    }
                    Ok(CommandOutcome::Started(_)) => {
                        self.retention = SessionRetention::Yes;
                        return Box::pin(self.follow()).await;
                    }
                    Ok(CommandOutcome::Shown(text)) => {
                        self.screen.push_say(text);
                        if is_undo {
                            self.show_undo_event().await;
                        }
                    }
                    Err(error) => self.show_error(&error.into()),
                }
            }
            name => self.screen.push_say(unknown(name, &all(host_commands))),
        }
        Ok(None)
    }

    /// Shows the event of an undo now, so that it stands below the command and not below the next prompt.
    async fn show_undo_event(&mut self) {
        let end = Instant::now() + UNDO_EVENT_WAIT;
        while let Ok(Some(event)) = timeout_at(end, self.events.next()).await {
            let is_undo_event =
                matches!(event.event, AgentEvent::FilesRestored { .. } | AgentEvent::Rewind { .. });
            self.screen.push(event);
            if is_undo_event {
                break;
            }
        }
    }

    /// Shows an error with its hint.
    pub(super) fn show_error(&mut self, error: &CliError) {
        let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.screen.push_say(format!("error: {}{hint}", error.message));
    }

    /// Opens the named session, or creates one, and switches to it. Errors are shown.
    async fn switch_session(&mut self, name: &str, argument: &str) -> Result<(), CliError> {
        let (opened, retention) = if name == SESSIONS {
            (self.open(argument.to_owned()).await, SessionRetention::Yes)
        } else {
            (self.create().await, SessionRetention::NotYet)
        };
        match opened {
            Ok(handle) if handle.session_id() == self.handle.session_id() => {
                self.screen.push_say("this session is open already".to_owned());
                Ok(())
            }
            Ok(handle) => self.switch_to(handle, retention).await,
            Err(error) => {
                self.show_error(&error);
                Ok(())
            }
        }
    }

    async fn open(&self, prefix: String) -> Result<AgentHandle, CliError> {
        let store = std::sync::Arc::clone(&self.store);
        let result = spawn_blocking(move || store.find(&prefix)).await;
        let id: SessionId = result.map_err(|error| CliError::failed(error.to_string()))??;
        // The permission mode of this chat applies to the opened session as well, whatever it was closed with.
        let mode = self.handle.permissions().policy().mode();
        Ok(self
            .host
            .open(&id, SessionSetup { permissions: Some(mode), ..SessionSetup::default() })
            .await?)
    }

    /// Creates a session with the options of the current one.
    async fn create(&self) -> Result<AgentHandle, CliError> {
        Ok(self.host.create_like(self.handle.session_id()).await?)
    }
}

/// Returns all commands in the order of the help.
fn all(host_commands: Vec<HostCommand>) -> Vec<HostCommand> {
    // A command of the chat replaces a host command of the same name.
    let is_own = |command: &HostCommand| CHAT_COMMANDS.iter().any(|own| own.name == command.name);
    let host_commands = host_commands.into_iter().filter(|command| !is_own(command));
    let host_commands = host_commands.map(|command| match command.name.as_ref() {
        SESSIONS => {
            HostCommand::new(SESSIONS, "[ID]", "list sessions of this directory, or switch to one")
        }
        _ => command,
    });
    host_commands.chain(CHAT_COMMANDS.iter().cloned()).collect()
}

fn unknown(name: &str, commands: &[HostCommand]) -> String {
    let meant = nearest(name, commands).map(|near| format!("; did you mean /{near}?"));
    format!(
        "there is no command /{name}{}\n/help lists them; to send it to the agent, start with a space",
        meant.unwrap_or_default()
    )
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
