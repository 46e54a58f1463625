//! Running the commands of the chat.

use std::time::Duration;

use crow_core::{event::AgentEvent, ids::SessionId};
use crow_runtime::{AgentHandle, AgentHost as _, CommandOutcome, HostCommand, SessionSetup};
use futures_util::StreamExt as _;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    chat::{
        command::{ALIASES, CHAT_COMMANDS, help, help_about, nearest},
        conversation::{ChatEnd, ChatLoop, SessionRetention},
        interrupts::ChatPhase,
    },
    error::CliError,
    terminal::console_style,
};

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
