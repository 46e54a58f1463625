//! What the commands do.

use std::time::Duration;

use crow_core::{event::AgentEvent, ids::SessionId};
use crow_runtime::{AgentHandle, AgentHost as _, CommandOutcome, HostCommand, SessionSetup};
use futures_util::StreamExt as _;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{
    command::{ALIASES, OWN, help, nearest},
    conversation::{ChatEnd, ChatLoop, SessionRetention},
    interrupts::ChatPhase,
};
use crate::{error::CliError, run::console_style};

/// The host's command that lists sessions; with an id it is the chat's own.
const SESSIONS: &str = "sessions";
/// How long it may take until an agent is told of an undo. Where nothing changed, it is told nothing.
const TELLING: Duration = Duration::from_millis(200);

impl ChatLoop {
    /// Does what a command says. Returns how the person left, if so. What goes wrong is shown and the chat goes on.
    pub(super) async fn command(
        &mut self,
        name: &str,
        argument: &str,
        place: ChatPhase,
    ) -> Result<Option<ChatEnd>, CliError> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        let turns = name == "new" || (name == SESSIONS && !argument.is_empty());
        let undoes = ["undo", "redo"].contains(&name);
        let hosts = self.host.commands(self.handle.session_id()).await?;
        match name {
            "quit" => return Ok(Some(ChatEnd::Asked)),
            "help" => {
                let columns = console_style(&self.environment).width;
                self.screen.push_say(help(&all(hosts), columns));
            }
            _ if (turns || undoes) && place == ChatPhase::Work => {
                self.screen.push_say("the agent works; ctrl-c stops it".to_owned());
            }
            _ if turns => self.go_over(name, argument).await?,
            name if hosts.iter().any(|command| command.name == name) => {
                let id = self.handle.session_id().clone();
                match self.host.run_command(&id, name, argument).await {
                    // While the agent works it would end up in the middle of other words.
                    Ok(CommandOutcome::Prompt(_)) if place == ChatPhase::Work => {
                        self.screen.push_say("the agent works; ctrl-c stops it".to_owned());
                    }
                    Ok(CommandOutcome::Prompt(content)) => {
                        // Boxed: a run may lead to a command again.
                        return Box::pin(self.tell(content)).await;
                    }
                    Ok(CommandOutcome::Shown(text)) => {
                        self.screen.push_say(text);
                        if undoes {
                            self.hear_of_undo().await;
                        }
                    }
                    Err(error) => self.complain(&error.into()),
                }
            }
            name => self.screen.push_say(unknown(name, &all(hosts))),
        }
        Ok(None)
    }

    /// Shows what the agent was told of an undo, so that it stands below it and not below the next prompt.
    async fn hear_of_undo(&mut self) {
        let end = Instant::now() + TELLING;
        while let Ok(Some(event)) = timeout_at(end, self.events.next()).await {
            let is_told =
                matches!(event.event, AgentEvent::FilesRestored { .. } | AgentEvent::Rewind { .. });
            self.screen.push(event);
            if is_told {
                break;
            }
        }
    }

    /// Shows what went wrong, and what can be done.
    pub(super) fn complain(&mut self, error: &CliError) {
        let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.screen.push_say(format!("error: {}{hint}", error.message));
    }

    async fn go_over(&mut self, name: &str, argument: &str) -> Result<(), CliError> {
        let (opened, kept) = if name == SESSIONS {
            (self.open(argument.to_owned()).await, SessionRetention::Yes)
        } else {
            (self.create().await, SessionRetention::NotYet)
        };
        match opened {
            Ok(handle) if handle.session_id() == self.handle.session_id() => {
                self.screen.push_say("this session is open already".to_owned());
                Ok(())
            }
            Ok(handle) => self.turn_to(handle, kept).await,
            Err(error) => {
                self.complain(&error);
                Ok(())
            }
        }
    }

    async fn open(&self, prefix: String) -> Result<AgentHandle, CliError> {
        let store = std::sync::Arc::clone(&self.store);
        let found = spawn_blocking(move || store.find(&prefix)).await;
        let id: SessionId = found.map_err(|error| CliError::failed(error.to_string()))??;
        // What the person permits here holds there too, whatever that session was left with.
        let mode = self.handle.policy().mode();
        Ok(self
            .host
            .open(&id, SessionSetup { permissions: Some(mode), ..SessionSetup::default() })
            .await?)
    }

    /// Makes a session like the one that is open.
    async fn create(&self) -> Result<AgentHandle, CliError> {
        Ok(self.host.create_like(self.handle.session_id()).await?)
    }
}

/// The commands in the order in which the help shows them.
fn all(hosts: Vec<HostCommand>) -> Vec<HostCommand> {
    // What the chat does itself goes before what the host does under the same name.
    let is_own = |command: &HostCommand| OWN.iter().any(|own| own.name == command.name);
    let hosts = hosts.into_iter().filter(|command| !is_own(command));
    let hosts = hosts.map(|command| match command.name.as_ref() {
        SESSIONS => HostCommand::new(
            SESSIONS,
            "[ID]",
            "list the last sessions of this directory, or go over to one",
        ),
        _ => command,
    });
    hosts.chain(OWN.iter().cloned()).collect()
}

fn unknown(name: &str, commands: &[HostCommand]) -> String {
    let meant = nearest(name, commands).map(|near| format!("; did you mean /{near}?"));
    format!(
        "there is no command /{name}{}\n/help lists them; to tell it to the agent, begin with a blank",
        meant.unwrap_or_default()
    )
}
