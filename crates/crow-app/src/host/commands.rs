//! The slash commands that the host offers in a session, with the texts of `output`, `status` and `review`.

use std::{fmt::Write as _, time::Duration};

use crow_core::{
    control::Preset,
    event::{AgentEvent, AgentState, Envelope},
    ids::{CallId, SessionId},
    message::Block,
    settings::OpenedWith,
};
use crow_mcp::{ServerState, ServerSummary};
use crow_runtime::{
    AgentHandle, AgentHost as _, CommandOutcome, HostCommand, HostError, SessionFilter,
    SessionMetadata, SessionUsage, UnusedSessions,
};
use crow_text::one_line;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    directory_configs::DirectoryConfig,
    file_commands::{FileCommand, FileCommandKind, file_commands},
    front_end_commands::SessionCommands,
    opened::SessionState,
    options::{self, AGENT, MODE, MODEL, PERMISSIONS, REVIEWER, THINKING},
    product_host::{ProductHost, blocking},
};
use crate::{
    prompt_files::is_command_name,
    skills::{Skill, loaded},
};

/// Time limit of a prompt of an MCP server: the session waits meanwhile.
const PROMPT_LIMIT: Duration = Duration::from_secs(20);
/// Time in which an agent becomes idle after the end of its run.
const IDLE_LIMIT: Duration = Duration::from_millis(500);
/// Maximum length of the description of a skill in the list of commands, in bytes.
const COMMAND_DESCRIPTION: usize = 200;
/// Maximum number of sessions that `sessions` lists.
const LISTED_SESSIONS: usize = 10;

const REVIEW: HostCommand =
    HostCommand::new("review", "[WHAT]", "have a reviewer look at the work of this session");
const PLAN: HostCommand = HostCommand::new(
    "plan",
    "[TASK]",
    "write a plan first, changing nothing; /build carries it out",
);
const BUILD: HostCommand =
    HostCommand::new("build", "[WORDS]", "approve the plan, and have it carried out");
/// The agent that plans, and the one that builds if none was chosen before.
const PLANNER: &str = "PLAN";
const BUILDER: &str = "BUILD-HITL";
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
    /// Returns the commands of a session in the order in which they are listed. Prompt files and skills come after
    /// them; one with the name of a command is left out. The prompts of MCP servers come last.
    pub(super) async fn commands_of(&self, current: &SessionState) -> Vec<HostCommand> {
        let of_front_end = self.session_commands.iter().flat_map(|commands| commands.commands());
        let review = current.reviewer.is_some().then_some(REVIEW);
        let thinking = current.abilities().thinking.then_some(THINKING_COMMAND);
        let planning = if current.opened_with.agent == PLANNER {
            Some(BUILD)
        } else {
            current.config.agents.check(PLANNER).is_ok().then_some(PLAN)
        };
        let own = [OUTPUT, COMPACT].into_iter().chain(review).chain(planning);
        let own = own.chain([AGENTS, MODE_COMMAND, MODEL_COMMAND]).chain(thinking);
        let rest = [REVIEWER_COMMAND, PERMISSIONS_COMMAND, STATUS, SESSIONS, HELP];
        let mut commands: Vec<HostCommand> = of_front_end.chain(own).chain(rest).collect();
        let of_files = self.file_commands(&current.config);
        let of_files = of_files.into_iter().filter(|command| command.conflict.is_none());
        commands.extend(of_files.map(|command| HostCommand {
            name: command.name.into(),
            argument: command.argument.into(),
            description: crow_text::shorten(&command.description, COMMAND_DESCRIPTION).into(),
        }));
        commands.extend(current.server_prompts().await.into_iter().map(|prompt| HostCommand {
            argument: prompt.usage().into(),
            description: prompt.description.into(),
            name: prompt.name.into(),
        }));
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
        if !self.commands_of(&current).await.iter().any(|command| command.name == name) {
            return Err(options::unknown("command", name));
        }
        // The commands of the host itself come first; any other name is a command of the front end or a prompt file.
        let shown = match (name, argument) {
            ("review", argument) => {
                let Some(reviewer) = current.reviewer else {
                    return Err(options::unknown("command", name));
                };
                let argument = argument.to_owned();
                let prompt = blocking(move || review_prompt(&handle, &reviewer, &argument)).await?;
                return Ok(CommandOutcome::Prompt(vec![Block::text(prompt)].into()));
            }
            ("plan", task) => return self.plan(handle.session_id(), task).await,
            ("build", words) => return self.build(handle.session_id(), words).await,
            ("compact", focus) => {
                let focus = (!focus.is_empty()).then(|| focus.to_owned());
                return Ok(CommandOutcome::Started(handle.compact(focus)?));
            }
            ("sessions", _) => self.last_sessions(&handle).await,
            ("status", _) => self.status(&current).await,
            ("help", _) => Ok(help(&self.commands_of(&current).await)),
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
                        commands.run(self.command_session(&current), name, argument).await
                    }
                    (None, Some(file)) => {
                        return Ok(CommandOutcome::Prompt(file.prompt(argument)));
                    }
                    (None, None) => {
                        let prompt = prompt_of_skill_or_server(&current, name, argument).await?;
                        return Ok(CommandOutcome::Prompt(prompt.into()));
                    }
                }
            }
        };
        shown.map(CommandOutcome::Shown)
    }

    /// Switches to the agent that plans. Without a task the next prompt is the task.
    async fn plan(&self, id: &SessionId, task: &str) -> Result<CommandOutcome, HostError> {
        wait_until_idle(&self.open.current(id)?.handle).await?;
        let _opening = self.opening.lock().await;
        let current = self.open.current(id)?;
        let with = options::with_option(&current, AGENT, PLANNER)?;
        self.switch(&current, with).await?;
        if current.opened_with.agent != PLANNER {
            self.open.keep_before_plan(id, current.opened_with.clone());
        }
        if task.is_empty() {
            let text =
                "the next prompt is planned and nothing is changed; /build carries the plan out";
            return Ok(CommandOutcome::Shown(text.to_owned()));
        }
        Ok(CommandOutcome::Prompt(vec![Block::text(task)].into()))
    }

    /// Switches back to the agent that builds, and tells it to carry out the plan. A model that was chosen meanwhile stays.
    async fn build(&self, id: &SessionId, words: &str) -> Result<CommandOutcome, HostError> {
        wait_until_idle(&self.open.current(id)?.handle).await?;
        let _opening = self.opening.lock().await;
        let current = self.open.current(id)?;
        let with = if let Some(before) = self.open.before_plan(id) {
            let OpenedWith { agent, mode, reviewers, .. } = before;
            OpenedWith { agent, mode, reviewers, ..current.opened_with.clone() }
        } else {
            let default = current.config.agents.default_name();
            let builder = if default == PLANNER { BUILDER } else { default };
            options::with_option(&current, AGENT, builder)?
        };
        self.switch(&current, with).await?;
        let mut text = "I approve the plan. Carry it out now, and check the result.".to_owned();
        if !words.is_empty() {
            text.push_str("\n\n");
            text.push_str(words);
        }
        Ok(CommandOutcome::Prompt(vec![Block::text(text)].into()))
    }

    /// Returns the commands of the prompt files and skills of a directory, those with the name of another one included.
    fn file_commands(&self, place: &DirectoryConfig) -> Vec<FileCommand> {
        let of_front_end = self.session_commands.iter().flat_map(|commands| commands.commands());
        let names = host_command_names(of_front_end);
        file_commands(&place.prompts, &place.skills, |name| names.iter().any(|own| own == name))
    }

    /// Returns messages about prompt files and skills of a directory that have the name of another command.
    pub(super) fn command_clashes(&self, place: &DirectoryConfig) -> Vec<String> {
        // Skills with these names are known from other programs, and the model finds them all the same.
        let is_common = |command: &FileCommand| {
            command.kind == FileCommandKind::Skill && RESERVED.contains(&command.name.as_str())
        };
        let commands = self.file_commands(place).into_iter();
        commands.filter(|command| !is_common(command)).filter_map(|one| one.conflict).collect()
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
            limit: Some(LISTED_SESSIONS),
            after: None,
            unused: UnusedSessions::LeftOut,
        };
        let sessions = self.list(filter).await?;
        Ok(sessions.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    async fn status(&self, current: &SessionState) -> Result<String, HostError> {
        let usage = self.usage_of(current).await;
        let sandbox = self.runtime().config().sandbox.is_some();
        Ok(status_text(current, usage, sandbox))
    }
}

/// Returns the prompt of the command of a skill, else of an MCP server.
async fn prompt_of_skill_or_server(
    current: &SessionState,
    name: &str,
    argument: &str,
) -> Result<Vec<Block>, HostError> {
    let refused = |message| HostError::Refused { message, hint: String::new() };
    if let Some(skill) = current.config.skills.find(name).filter(|skill| is_command(skill)) {
        let (skill, argument) = (skill.clone(), argument.to_owned());
        let text = blocking(move || loaded(&skill, &argument)).await?;
        return Ok(vec![Block::text(text.map_err(refused)?)]);
    }
    let prompts = current.server_prompts().await;
    let prompt = prompts.iter().find(|prompt| prompt.name == name);
    let prompt = prompt.ok_or_else(|| options::unknown("command", name))?;
    let cancel = CancellationToken::new();
    let getting = timeout(PROMPT_LIMIT, prompt.get(argument, &cancel));
    let limit = PROMPT_LIMIT.as_secs();
    let late = |_| format!("the MCP server sent no prompt within {limit} s");
    getting.await.map_err(late).and_then(|got| got).map_err(refused)
}

/// Commands that only some sessions have. Their names are never those of skills.
const RESERVED: [&str; 4] = ["review", THINKING, "plan", "build"];

/// Fails while the agent works: it would go on under other rules than those that it began with. An agent whose run has just
/// ended becomes idle a moment later, which is waited for.
async fn wait_until_idle(handle: &AgentHandle) -> Result<(), HostError> {
    let mut events = handle.subscribe();
    let idle =
        async { while handle.state() != AgentState::Idle && events.next().await.is_some() {} };
    // The state decides, whether the wait ended with an event or by the time limit.
    let _ = timeout(IDLE_LIMIT, idle).await;
    if handle.state() == AgentState::Idle {
        return Ok(());
    }
    let message = "the agent is working".to_owned();
    Err(HostError::Refused { message, hint: "wait for it, or stop it".to_owned() })
}

/// Returns the names of all commands of the host and its front end, whether or not a session has them.
pub fn host_command_names(of_front_end: impl IntoIterator<Item = HostCommand>) -> Vec<String> {
    let own = [
        OUTPUT,
        COMPACT,
        REVIEW,
        PLAN,
        BUILD,
        AGENTS,
        MODE_COMMAND,
        MODEL_COMMAND,
        THINKING_COMMAND,
        REVIEWER_COMMAND,
        PERMISSIONS_COMMAND,
        STATUS,
        SESSIONS,
        HELP,
    ];
    of_front_end.into_iter().chain(own).map(|command| command.name.into_owned()).collect()
}

/// Returns true if a skill can be started by typing its name.
fn is_command(skill: &Skill) -> bool {
    skill.for_user && is_command_name(&skill.name) && !RESERVED.contains(&skill.name.as_str())
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

const OUTPUT: HostCommand = HostCommand::new(
    "output",
    "[N|CALL]",
    "show a command's full output, by default the last; 2 is the one before, CALL the prefix of an id",
);

/// Name of the shell tool, whose calls are the commands.
const COMMAND_TOOL: &str = "bash";
/// Maximum number of commands in the list.
const LISTED_CALLS: usize = 20;
/// Maximum length of a title in the list, in bytes.
const CALL_TITLE: usize = 70;

/// Returns the output of the call with that number or id prefix, as `/output` shows it. An empty `call` means the last command; one that
/// matches nothing gives the list of commands. Number 1 is the last command. Ids can repeat: the latest call wins.
pub fn output_of(events: &[Envelope], call: &str) -> String {
    let ended_calls = || {
        events.iter().enumerate().rev().filter_map(|(index, line)| match &line.event {
            AgentEvent::CallEnd { call_id, tool, result, .. } => {
                Some((index, call_id, tool.as_str(), &result.output))
            }
            _ => None,
        })
    };
    let commands = || ended_calls().filter(|(_, _, tool, _)| *tool == COMMAND_TOOL);
    let number = if call.is_empty() { Ok(1) } else { call.parse::<usize>() };
    let by_number = number.ok().and_then(|number| commands().nth(number.checked_sub(1)?));
    let by_id =
        || ended_calls().find(|(_, id, _, _)| !call.is_empty() && id.as_str().starts_with(call));
    if let Some((_, _, _, output)) = by_number.or_else(by_id) {
        return output.clone();
    }
    let mut lines: Vec<_> = commands()
        .take(LISTED_CALLS)
        .zip(1_usize..)
        .map(|((index, id, _, _), number)| {
            let before = events.get(..index).unwrap_or_default();
            format!("\n{number:>3}  {}", title(before, id))
        })
        .collect();
    // An empty session is a normal answer, not an error.
    if lines.is_empty() {
        return "no command was run in this session".to_owned();
    }
    let earlier = match commands().count().saturating_sub(lines.len()) {
        0 => String::new(),
        earlier => format!("\n     {earlier} earlier"),
    };
    lines.reverse();
    let mut text =
        format!("no command has the number or id {call}; the commands of this session:{earlier}");
    for line in lines {
        text.push_str(&line);
    }
    text
}

/// Returns the title of the latest call with that id that started in `before`; ids can repeat.
fn title(before: &[Envelope], id: &CallId) -> String {
    let title = before.iter().rev().find_map(|line| match &line.event {
        AgentEvent::CallStart { call_id, title, .. } if call_id == id => Some(title.as_str()),
        _ => None,
    });
    crow_text::shorten(&one_line(title.unwrap_or(id.as_str())), CALL_TITLE)
}

/// Formats the status, one fact per line.
fn status_text(current: &SessionState, usage: SessionUsage, is_sandboxed: bool) -> String {
    let metadata = current.handle.metadata();
    let crow = metadata.crow();
    let review = &current.review;
    let mode = review.mode.map_or("custom", Preset::as_str);
    let reviewers = review.reviewers.join(", ");
    let mode = if reviewers.is_empty() {
        mode.to_owned()
    } else {
        format!("{mode}, reviewed by {reviewers}")
    };
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    line("session", &metadata.session_id);
    if !crow.title.is_empty() {
        line("title", &crow.title);
    }
    line("directory", &crow.cwd.display());
    for path in &crow.additional_directories {
        line("", &path.display());
    }
    line("agent", &current.opened_with.agent);
    line("mode", &mode);
    line("model", &current.model.reference);
    line("permissions", &current.handle.permissions().policy().mode());
    line(
        "sandbox",
        if is_sandboxed { &"confines commands" } else { &"off: commands run with all your rights" },
    );
    for server in &current.servers() {
        line("mcp", &format_args!("{} ({})", server.name, server_state(server)));
    }
    line("context", &context_usage(usage));
    line("cost", &usage.cost_usd.map_or("unknown".to_owned(), |cost| format!("${cost:.4}")));
    text.trim_end().to_owned()
}

/// Describes the state of an MCP server of a session, in a few words.
pub fn server_state(server: &ServerSummary) -> String {
    match &server.state {
        ServerState::Unused => "not needed yet".to_owned(),
        ServerState::Connected => format!("{} tools", server.tools.len()),
        ServerState::Failed { why } => format!("failed: {}", one_line(why)),
    }
}

fn context_usage(usage: SessionUsage) -> String {
    let tokens = usage.context_tokens;
    match usage.context_window.filter(|window| *window > 0) {
        Some(window) => {
            let percent = tokens.saturating_mul(100) / window;
            format!("{tokens} of {window} tokens ({percent} %)")
        }
        None => format!("{tokens} tokens"),
    }
}

/// Maximum number of files that are named.
const NAMED_FILES: usize = 50;

/// Returns the prompt for the agent: it starts the reviewer as a subagent, which sees the files but not the
/// conversation. Blocks.
fn review_prompt(handle: &AgentHandle, reviewer: &str, argument: &str) -> String {
    let mut text = format!(
        "Have the work of this session reviewed. Start the agent `{reviewer}` with the tool `task`. It sees the files and \
         nothing of our conversation, so tell it what I asked for, in my words, what you did about it, which files you changed \
         and how you checked the result. Change nothing while it looks.\n"
    );
    let files = changed_files(handle);
    if !files.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nFiles that were changed in this session:");
        for file in files.iter().take(NAMED_FILES) {
            let _ = writeln!(text, "- {file}");
        }
        if files.len() > NAMED_FILES {
            let _ = writeln!(text, "- and {} more", files.len() - NAMED_FILES);
        }
    }
    if !argument.is_empty() {
        let _ = writeln!(text, "\nWhat I want to be looked at: {argument}");
    }
    text.push_str(
        "\nThen tell me what it found, the worst first, and what you think of each point. Change nothing until I say so.",
    );
    text
}

/// Returns the files that calls of the session changed, without undone changes.
fn changed_files(handle: &AgentHandle) -> Vec<String> {
    let Ok(journal) = handle.undo_journal() else { return Vec::new() };
    let applied = journal.calls().iter().filter(|call| !call.undone);
    let mut files: Vec<String> = applied
        .flat_map(|call| &call.files)
        .map(|file| file.strip_prefix(journal.root()).unwrap_or(file).display().to_string())
        .collect();
    files.sort();
    files.dedup();
    files
}
