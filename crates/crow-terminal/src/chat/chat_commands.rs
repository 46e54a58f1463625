//! The commands of the chat: parsing lines entered at the prompt, the help, and running what they name.

use std::{fmt::Write as _, sync::Arc};

use crow_console::{
    Glyphs,
    wrap::{shorten_end, width},
};
use crow_core::ids::SessionId;
use crow_runtime::{
    AgentHandle, AgentHost, CommandOutcome, HostCommand, HostError, SessionSetup, SessionStore,
};
use crow_text::one_line;
use tokio::task::spawn_blocking;

use super::{
    ChatEnd, ChatError, ErrorDescription,
    chat_loop::{ChatLoop, SessionRetention, TaskResult},
    chat_screen::screen_size,
    full_screen_views::{open_changes, open_option, open_prompts, open_sessions, open_transcript},
    greeting::{greeting_sources, session_greeting, show_greeting},
    local_commands::{copy_reply, run_theme, show_keys},
};
use crate::popup::ListedCommand;

/// A line at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatLine {
    /// Nothing was typed.
    Nothing,
    /// Text for the agent.
    Prompt(String),
    /// A command line of the user, after `!`.
    Shell(String),
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
        if let Some(command) = line.strip_prefix('!')
            && !command.trim().is_empty()
        {
            return Self::Shell(command.trim().to_owned());
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
static CHAT_COMMANDS: [HostCommand; 9] = [
    HostCommand::new("new", "", "start a new session"),
    HostCommand::new("fork", "", "go on in a copy of this session"),
    HostCommand::new("rewind", "", "go back to before an earlier prompt (also esc esc)"),
    HostCommand::new("transcript", "", "show the whole session (also ctrl-o)"),
    HostCommand::new("copy", "[N]", "copy the last reply, or the N-th from the end"),
    HostCommand::new("theme", "[NAME]", "show the themes, or set one for this chat"),
    HostCommand::new("keys", "", "list the keys"),
    HostCommand::new(HELP, "[NAME]", "show this, or all about a command"),
    HostCommand::new("quit", "", "leave (also ctrl-d)"),
];
/// Other names of commands.
const ALIASES: [(&str, &str); 1] = [("exit", "quit")];

/// Returns the names of the commands of the chat itself. Commands of prompt files and skills cannot have them.
pub fn chat_command_names() -> impl Iterator<Item = &'static str> {
    let own = CHAT_COMMANDS.iter().map(|command| command.name.as_ref());
    own.chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// The groups of the help, and their commands. A command in none of them is of a prompt file, a skill or an MCP server.
const GROUPS: [(&str, &[&str]); 6] = [
    ("what changed, and taking it back", &["undo", "redo", "diff", "changes"]),
    (
        "this session, and others",
        &[
            "new",
            "sessions",
            "fork",
            "rewind",
            "transcript",
            "compact",
            "context",
            "copy",
            "export",
            "report",
        ],
    ),
    (
        "who works, and what it may do",
        &["agents", "mode", "model", "thinking", "reviewer", "permissions"],
    ),
    ("planning and reviewing", &["plan", "build", "review"]),
    (
        "what happened, and what is set up",
        &["status", "output", "trace", "stats", "doctor", "hooks", "skills", "mcp"],
    ),
    ("this terminal", &["theme", "keys", HELP, "quit"]),
];
/// Title of the commands in no group.
const OTHERS: &str = "of prompt files, skills and MCP servers";
/// Maximum number of commands in no group that are listed with what they do.
const DESCRIBED: usize = 6;
/// Indentation of the commands of a group.
const INDENT: &str = "  ";
/// How more is found out.
const MORE: &str = "/help NAME tells all about a command.";
/// Parts of the help about keys. They fit on one line of 80 columns, and each of them on one of 40.
const KEYS: [&str; 3] =
    ["ctrl-c: stop, again: leave.", "up, ctrl-r: earlier prompts.", "\\ enter: new line"];

/// Formats the help: the names of the commands in groups, so that all of it fits on a screen of 80 by 24. The commands of
/// the user are listed with the first clause of their descriptions, if they are few.
fn help(commands: &[HostCommand], columns: usize) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let names = names.iter().filter(|name| commands.iter().any(|one| one.name == **name));
        add_group(&mut text, title, names.map(|name| format!("/{name}")), columns);
    }
    let is_grouped = |command: &&HostCommand| {
        GROUPS.iter().any(|(_, names)| names.contains(&command.name.as_ref()))
    };
    let (_, others): (Vec<_>, Vec<_>) = commands.iter().partition(is_grouped);
    if others.len() <= DESCRIBED {
        let lines: Vec<String> = others.into_iter().map(|one| described(one, columns)).collect();
        if !lines.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{OTHERS}\n{}", lines.join("\n"));
        }
    } else {
        let names = others.into_iter().map(|command| format!("/{}", command.name));
        add_group(&mut text, OTHERS, names, columns);
    }
    text.push_str(MORE);
    text.push('\n');
    let fits = KEYS.iter().map(|keys| keys.len() + 1).sum::<usize>() <= columns;
    text.push_str(&KEYS.join(if fits { " " } else { "\n" }));
    text
}

/// Appends a title, and names on as many lines as they need. Appends nothing if there are no names.
fn add_group(text: &mut String, title: &str, names: impl Iterator<Item = String>, columns: usize) {
    let mut line = String::new();
    let mut lines = Vec::new();
    for name in names {
        // One column stays free, as on all lines.
        if !line.is_empty() && INDENT.len() + width(&line) + 1 + width(&name) >= columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&name);
    }
    if line.is_empty() {
        return;
    }
    lines.push(line);
    text.push_str(title);
    for line in lines {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{INDENT}{line}");
    }
    text.push('\n');
}

/// Formats a command on one line, with its argument and the first clause of its description as far as they fit.
fn described(command: &HostCommand, columns: usize) -> String {
    let about = command.description.split("; ").next().unwrap_or_default();
    let line = format!("{INDENT}{}  {}", one_line(&head(command)), one_line(about));
    shorten_end(&line, columns.saturating_sub(1), Glyphs::Unicode)
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
fn nearest<'a>(name: &str, commands: &'a [HostCommand]) -> Option<&'a str> {
    let scored = commands
        .iter()
        .map(|command| (strsim::jaro_winkler(name, &command.name), command.name.as_ref()))
        .filter(|(score, _)| *score >= ALIKE);
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// Host command that lists sessions; with an id the chat handles it itself.
const SESSIONS: &str = "sessions";
/// The session that the chat switches to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionTarget {
    /// The stored one whose id begins with this text.
    Stored(String),
    /// A copy of the current one.
    Fork,
    New,
}

/// Message for a command that has to wait for the agent.
const WORKING: &str = "the agent is working; ctrl-c stops it";

/// Runs a command: at once if it is one of the chat, else beside the loop. Errors of the command are shown.
pub(super) fn start_command(chat: &mut ChatLoop, name: String, argument: String) {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| (*name).to_owned());
    let target = match name.as_str() {
        "new" => Some(SessionTarget::New),
        "fork" => Some(SessionTarget::Fork),
        SESSIONS if !argument.is_empty() => Some(SessionTarget::Stored(argument.clone())),
        _ => None,
    };
    let needs_idle = ["undo", "redo", "compact"].contains(&name.as_str());
    if name == "quit" {
        chat.end = Some(ChatEnd::UserLeft);
    } else if (target.is_some() || needs_idle) && chat.work.is_busy() {
        chat.say(WORKING.to_owned());
    } else if opens_view(chat, &name, &argument) {
        // It is open, or will be.
    } else if let Some(target) = target {
        switch_session(chat, target);
    } else if name == "theme" {
        run_theme(chat, &argument);
    } else if name == "copy" {
        copy_reply(chat, &argument);
    } else if name == "keys" {
        show_keys(chat);
    } else if name == HELP {
        show_help(chat, argument);
    } else {
        run_host_command(chat, name, argument);
    }
}

/// Opens the view of a command without an argument, if it has one and the terminal can show it.
fn opens_view(chat: &mut ChatLoop, name: &str, argument: &str) -> bool {
    if !chat.modes.is_live() || !argument.is_empty() {
        return false;
    }
    match name {
        "rewind" => open_prompts(chat),
        "transcript" => open_transcript(chat),
        "diff" => open_changes(chat),
        SESSIONS => open_sessions(chat),
        "model" => open_option(chat, "model"),
        "agents" => open_option(chat, "agent"),
        "mode" => open_option(chat, "mode"),
        "thinking" => open_option(chat, "thinking"),
        _ => return false,
    }
    true
}

fn show_help(chat: &mut ChatLoop, argument: String) {
    let (host, id) = (Arc::clone(&chat.host), chat.handle.session_id().clone());
    let columns = screen_size().map_or(chat.setup.columns, |size| size.columns);
    chat.start_task(Box::pin(async move {
        let commands = host.commands(&id).await;
        let result: TaskResult = Box::new(move |chat| {
            match commands {
                Ok(commands) => {
                    let commands = all(commands);
                    chat.say(help_text(&commands, argument.trim_start_matches('/'), columns));
                }
                Err(error) => show_error(chat, error),
            }
            Ok(())
        });
        result
    }));
}

/// Runs a command of the host beside the loop.
pub(super) fn run_host_command(chat: &mut ChatLoop, name: String, argument: String) {
    run_host_command_then(chat, name, argument, |_| {});
}

/// Runs a command of the host beside the loop, and what follows if it succeeds.
pub(super) fn run_host_command_then(
    chat: &mut ChatLoop,
    name: String,
    argument: String,
    then: impl FnOnce(&mut ChatLoop) + Send + 'static,
) {
    let (host, id) = (Arc::clone(&chat.host), chat.handle.session_id().clone());
    chat.start_task(Box::pin(async move {
        let commands = host.commands(&id).await.unwrap_or_default();
        let is_known = commands.iter().any(|command| command.name == name);
        let outcome =
            if is_known { Some(host.run_command(&id, &name, &argument).await) } else { None };
        let result: TaskResult = Box::new(move |chat| {
            let Some(outcome) = outcome else {
                chat.say(unknown(&name, &all(commands)));
                return Ok(());
            };
            if outcome.is_ok() {
                then(chat);
            }
            on_outcome(chat, outcome)
        });
        result
    }));
}

fn on_outcome(
    chat: &mut ChatLoop,
    outcome: Result<CommandOutcome, HostError>,
) -> Result<(), ChatError> {
    match outcome {
        // A prompt sent now would interrupt the text of the running agent.
        Ok(CommandOutcome::Prompt(_)) if chat.work.is_busy() => chat.say(WORKING.to_owned()),
        Ok(CommandOutcome::Prompt(content)) => return chat.send_prompt(content),
        Ok(CommandOutcome::Started(_)) => {
            chat.retention = SessionRetention::Yes;
            chat.work.begin(0);
        }
        Ok(CommandOutcome::Shown(text)) => {
            chat.say(text);
            chat.is_status_due = true;
        }
        Err(error) => show_error(chat, error),
    }
    Ok(())
}

/// Shows an error with its hint.
pub(super) fn show_error(chat: &mut ChatLoop, error: HostError) {
    let ErrorDescription { message, hint } = (chat.setup.describe_error)(error);
    let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    chat.say(format!("error: {message}{hint}"));
}

/// Opens a session and switches to it. The previous one is closed, or deleted if it has no prompt. Errors are shown.
pub(super) fn switch_session(chat: &mut ChatLoop, target: SessionTarget) {
    let retention = match &target {
        SessionTarget::Stored(_) | SessionTarget::Fork => SessionRetention::Yes,
        SessionTarget::New => SessionRetention::NotYet,
    };
    let (host, store) = (Arc::clone(&chat.host), Arc::clone(&chat.store));
    let before = chat.handle.session_id().clone();
    // The permission mode of this chat applies to the session as well, whatever it was closed with.
    let mode = chat.handle.permissions().policy().mode();
    let setup = SessionSetup { permissions: Some(mode), ..SessionSetup::default() };
    let sources = greeting_sources(chat);
    chat.start_task(Box::pin(async move {
        let opened = match target {
            SessionTarget::Stored(prefix) => open(&*host, store, prefix, setup).await,
            SessionTarget::Fork => host.fork(&before, setup).await,
            SessionTarget::New => host.create_like(&before).await,
        };
        let mut greeting = None;
        if let Ok(handle) = &opened
            && *handle.session_id() != before
        {
            let is_resumed = retention == SessionRetention::Yes;
            greeting = Some(session_greeting(sources, handle, is_resumed).await);
        }
        let result: TaskResult = Box::new(move |chat| {
            match (opened, greeting) {
                (Ok(handle), Some(Ok(greeting))) => {
                    chat.events = handle.stream().ok_or(ChatError::EventsInUse)?;
                    chat.handle = handle;
                    chat.forget_session();
                    let left = std::mem::replace(&mut chat.retention, retention);
                    show_greeting(chat, greeting);
                    leave_session(chat, before, left);
                }
                (Ok(_), None) => chat.say("this session is open already".to_owned()),
                (Ok(handle), Some(Err(error))) => {
                    show_error(chat, error);
                    leave_session(chat, handle.session_id().clone(), retention);
                }
                (Err(error), _) => show_error(chat, error),
            }
            Ok(())
        });
        result
    }));
}

/// Closes a session that the chat has left, or could not greet, or deletes it if it has no prompt.
fn leave_session(chat: &mut ChatLoop, id: SessionId, retention: SessionRetention) {
    let host = Arc::clone(&chat.host);
    chat.start_task(Box::pin(async move {
        let closed = match retention {
            SessionRetention::Yes => host.close(&id).await.map(drop),
            SessionRetention::NotYet => host.delete(&id).await,
        };
        let result: TaskResult = Box::new(move |chat| {
            if let Err(error) = closed {
                show_error(chat, error);
            }
            chat.is_status_due = true;
            Ok(())
        });
        result
    }));
}

/// Opens the session whose id begins with `prefix`.
async fn open(
    host: &dyn AgentHost,
    store: Arc<dyn SessionStore>,
    prefix: String,
    setup: SessionSetup,
) -> Result<AgentHandle, HostError> {
    let found = spawn_blocking(move || store.find(&prefix)).await;
    let id = found.map_err(|error| HostError::Refused {
        message: format!("the stored sessions cannot be searched: {error}"),
        hint: String::new(),
    })??;
    host.open(&id, setup).await
}

/// Returns the commands of the host and of the chat, for completion.
pub(super) fn listed_commands(host_commands: Vec<HostCommand>) -> Vec<ListedCommand> {
    let all = all(host_commands).into_iter().map(|command| ListedCommand {
        name: command.name.into_owned(),
        argument: command.argument.into_owned(),
        description: command.description.into_owned(),
    });
    let mut all: Vec<ListedCommand> = all.collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Returns the help about all commands, or about one.
fn help_text(commands: &[HostCommand], about: &str, columns: usize) -> String {
    match commands.iter().find(|command| command.name == about) {
        Some(command) => help_about(command),
        None if about.is_empty() => help(commands, columns),
        None => unknown(about, commands),
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
            ("!ls -l", ChatLine::Shell("ls -l".to_owned())),
            ("! ", prompt("!")),
            (" !important", prompt("!important")),
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

    fn host_commands() -> Vec<HostCommand> {
        let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
        let names = names.filter(|name| CHAT_COMMANDS.iter().all(|own| own.name != **name));
        names.map(|name| HostCommand::new(name, "[ARGUMENT]", "do it; or not")).collect()
    }

    #[test]
    fn the_help_lists_all_commands_within_any_width_and_on_one_screen() {
        let commands = all(host_commands());
        for columns in [40, 80] {
            let text = help(&commands, columns);
            for command in &commands {
                let name = format!("/{}", command.name);
                assert!(text.split_whitespace().any(|word| word == name), "{name}: {text}");
            }
            assert!(text.lines().all(|line| line.len() < columns), "{text}");
            assert!(text.lines().count() <= 23, "{text}");
        }
    }

    #[test]
    fn every_command_of_the_chat_has_a_group() {
        let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
        assert!(CHAT_COMMANDS.iter().all(|command| is_grouped(&command.name)));
    }

    #[test]
    fn few_commands_of_the_user_are_listed_with_their_first_clause_and_many_by_name() {
        let own = |number: usize| HostCommand {
            name: format!("own-{number}").into(),
            argument: "WHO".into(),
            description: "greets somebody; or not".into(),
        };
        let few = help(&[own(1), own(2)], 80);
        assert!(few.contains("MCP servers\n  /own-1 WHO  greets somebody\n  /own-2 WHO"), "{few}");
        let long = HostCommand { description: "a long text ".repeat(9).into(), ..own(1) };
        assert!(help(&[long], 40).lines().all(|line| width(line) < 40));
        let many: Vec<_> = (1..=20).map(own).collect();
        let text = help(&many, 40);
        assert!(text.contains("  /own-1 /own-2 /own-3 /own-4 /own-5\n  /own-6"), "{text}");
    }

    #[test]
    fn the_help_about_a_command_has_its_arguments_and_all_of_its_description() {
        let undo = HostCommand::new("undo", "[turn N|call ID|all]", "undo; or those of a turn");
        let about = "/undo [turn N|call ID|all]\n    undo; or those of a turn";
        assert_eq!(help_about(&undo), about);
    }
}
