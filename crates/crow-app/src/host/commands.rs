//! The slash commands that the host offers in a session.

use std::fmt::Write as _;

use crow_core::{event::AgentState, message::Block};
use crow_runtime::{
    AgentHandle, AgentHost as _, CommandOutcome, HostCommand, HostError, SessionFilter,
    SessionMetadata, UnusedSessions,
};

use super::{
    call_output::{OUTPUT, output_of},
    front_end_commands::SessionCommands,
    opened::SessionState,
    options::{self, AGENT, MODE, MODEL, PERMISSIONS, REVIEWER, THINKING},
    product_host::{ProductHost, blocking},
    review, status,
};

/// Maximum number of sessions that `sessions` lists.
const LISTED: usize = 10;

const REVIEW: HostCommand =
    HostCommand::new("review", "[WHAT]", "have a reviewer look at the work of this session");
const AGENTS: HostCommand =
    HostCommand::new("agents", "[NAME]", "list the agents, or switch to another");
const MODE_COMMAND: HostCommand =
    HostCommand::new(MODE, "[MODE]", "show or set what follows a turn");
const MODEL_COMMAND: HostCommand =
    HostCommand::new(MODEL, "[PROVIDER/MODEL]", "show the model, or switch to another");
const THINKING_COMMAND: HostCommand =
    HostCommand::new(THINKING, "[AMOUNT]", "show or set how much the model thinks");
const REVIEWER_COMMAND: HostCommand =
    HostCommand::new(REVIEWER, "[NAME|none]", "show or set the reviewers");
const PERMISSIONS_COMMAND: HostCommand = HostCommand::new(
    PERMISSIONS,
    "[MODE|forget]",
    "show or set which calls are asked about; `forget` revokes what the session allowed",
);
const COMPACT: HostCommand = HostCommand::new(
    "compact",
    "[WHAT MATTERS]",
    "replace the conversation by a summary; of what you name, more is kept",
);
const STATUS: HostCommand =
    HostCommand::new("status", "", "show the settings and usage of this session");
const SESSIONS: HostCommand =
    HostCommand::new("sessions", "", "list the last sessions of this directory");
const HELP: HostCommand = HostCommand::new("help", "", "list the commands");

impl ProductHost {
    /// Returns the commands of a session in the order in which they are listed. Prompt files come last; one with the
    /// name of a command is left out.
    pub(super) fn commands_of(&self, current: &SessionState) -> Vec<HostCommand> {
        let of_front_end = self.session_commands.iter().flat_map(|commands| commands.commands());
        let review = current.reviewer.is_some().then_some(REVIEW);
        let thinking = current.abilities().thinking.then_some(THINKING_COMMAND);
        let own = [OUTPUT, COMPACT].into_iter().chain(review);
        let own = own.chain([AGENTS, MODE_COMMAND, MODEL_COMMAND]).chain(thinking);
        let rest = [REVIEWER_COMMAND, PERMISSIONS_COMMAND, STATUS, SESSIONS, HELP];
        let mut commands: Vec<HostCommand> = of_front_end.chain(own).chain(rest).collect();
        let free = |command: &HostCommand| commands.iter().all(|own| own.name != command.name);
        let prompts: Vec<HostCommand> = current.config.prompts.commands().filter(free).collect();
        commands.extend(prompts);
        commands
    }

    /// Runs a command. Fails if the session has no command of that name.
    pub(super) async fn command(
        &self,
        current: SessionState,
        name: &str,
        argument: &str,
    ) -> Result<CommandOutcome, HostError> {
        let (handle, argument) = (current.handle.clone(), argument.trim());
        if !self.commands_of(&current).iter().any(|command| command.name == name) {
            return Err(options::unknown("command", name));
        }
        // The commands of the host itself come first; any other name is a command of the front end or a prompt file.
        let shown = match (name, argument) {
            ("review", argument) => {
                let Some(reviewer) = current.reviewer else {
                    return Err(options::unknown("command", name));
                };
                let argument = argument.to_owned();
                let prompt =
                    blocking(move || review::prompt(&handle, &reviewer, &argument)).await?;
                return Ok(CommandOutcome::Prompt(vec![Block::text(prompt)]));
            }
            ("compact", focus) => {
                let focus = (!focus.is_empty()).then(|| focus.to_owned());
                return Ok(CommandOutcome::Started(handle.compact(focus)?));
            }
            ("sessions", _) => self.last_sessions(&handle).await,
            ("status", _) => self.status(&current).await,
            ("help", _) => Ok(help(&self.commands_of(&current))),
            ("output", call) => {
                Ok(output_of(&self.record(handle.session_id()).await?.events, call))
            }
            (PERMISSIONS, "") => {
                let mode = options::show(&options::permissions_option(&handle));
                Ok(mode + &options::granted(&handle))
            }
            (PERMISSIONS, "forget") => {
                blocking(move || handle.permissions().forget_grants()).await??;
                Ok("permissions granted in this session were revoked".to_owned())
            }
            ("agents", argument) => self.show_or_set(&current, AGENT, argument).await,
            (MODE | MODEL | THINKING | REVIEWER | PERMISSIONS, argument) => {
                self.show_or_set(&current, name, argument).await
            }
            (name, argument) => {
                match (self.front_end_command(name), current.config.prompts.find(name)) {
                    (Some(commands), _) => {
                        commands.run(self.command_session(handle), name, argument).await
                    }
                    (None, Some(file)) => {
                        let prompt = file.prompt(argument);
                        return Ok(CommandOutcome::Prompt(vec![Block::text(prompt)]));
                    }
                    (None, None) => Err(options::unknown("command", name)),
                }
            }
        };
        shown.map(CommandOutcome::Shown)
    }

    /// Returns the commands of the front end if one of them has that name.
    fn front_end_command(&self, name: &str) -> Option<&dyn SessionCommands> {
        let commands = self.session_commands.as_deref()?;
        commands.commands().iter().any(|command| command.name == name).then_some(commands)
    }

    /// Shows an option if `value` is empty, else sets it and returns a confirmation.
    async fn show_or_set(
        &self,
        current: &SessionState,
        name: &str,
        value: &str,
    ) -> Result<String, HostError> {
        let id = current.handle.session_id();
        if !value.is_empty() {
            self.set_option(id, name, value).await?;
        }
        let all = self.options(id).await?;
        let Some(option) = all.iter().find(|option| option.name == name) else {
            return Err(options::unknown("option", name));
        };
        if value.is_empty() {
            return Ok(options::show(option));
        }
        let mut message = format!("{name}: {}", option.value);
        if current.handle.state() != AgentState::Idle && name != PERMISSIONS {
            message.push_str(" (from the next prompt on)");
        }
        Ok(message)
    }

    async fn last_sessions(&self, handle: &AgentHandle) -> Result<String, HostError> {
        let filter = SessionFilter {
            cwd: Some(handle.metadata().crow().cwd),
            limit: Some(LISTED),
            after: None,
            unused: UnusedSessions::LeftOut,
        };
        let sessions = self.list(filter).await?;
        Ok(sessions.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    async fn status(&self, current: &SessionState) -> Result<String, HostError> {
        let usage = self.usage_of(current).await;
        let sandbox = self.runtime().config().sandbox.is_some();
        Ok(status::text(current, usage, sandbox))
    }
}

fn line(metadata: &SessionMetadata) -> String {
    let id: String = metadata.session_id.as_str().chars().take(18).collect();
    let crow = metadata.crow();
    format!("{id}  {}  {}", metadata.updated_at.strftime("%Y-%m-%d %H:%M"), crow.title)
}

fn help(commands: &[HostCommand]) -> String {
    let mut text = String::new();
    for command in commands {
        let usage = format!("/{} {}", command.name, command.argument);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}\n    {}", usage.trim_end(), command.description);
    }
    text.trim_end().to_owned()
}
