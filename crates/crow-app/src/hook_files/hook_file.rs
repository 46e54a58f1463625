//! Files that configure hooks: the member `hooks` of Claude Code's settings, which Crow's own files have as well.
//!
//! ```json
//! {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh", "timeout": 30}]}]}}
//! ```
//!
//! A mistake costs the hook that has it, and is told with its place; the others are used.

use std::{fmt, path::Path, time::Duration};

use crow_core::{config::unknown_word_message, hooks::HookKind};
use serde_json::{Map, Value};

use super::matcher::{CallCondition, HookMatcher};

/// The member of the settings with the hooks.
const HOOKS_MEMBER: &str = "hooks";
/// The member of the settings that switches all hooks off.
const DISABLE_MEMBER: &str = "disableAllHooks";
/// Time for a hook that names none: at calls and ends of turns, where hooks run tests, and elsewhere.
const WORK_TIMEOUT: Duration = Duration::from_mins(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time for a hook.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);
/// Maximum number of hooks of one file.
const MOST_HOOKS: usize = 200;
/// Events of Claude Code at which Crow runs nothing.
const OTHER_EVENTS: &[&str] = &[
    "ConfigChange",
    "CwdChanged",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "FileChanged",
    "InstructionsLoaded",
    "MessageDisplay",
    "PermissionDenied",
    "PermissionRequest",
    "PostCompact",
    "PostModelSwitch",
    "PostToolBatch",
    "PreModelSwitch",
    "PreSkillShellCommand",
    "Setup",
    "StopFailure",
    "SubagentStart",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "UserPromptExpansion",
    "WorktreeCreate",
    "WorktreeRemove",
];

/// The names of the end of a session: Crow gives no reason.
pub(crate) const SESSION_END_NAMES: [&str; 2] = ["other", "prompt_input_exit"];

/// The event at which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    UserPromptSubmit,
    SessionStart,
    SessionEnd,
    Stop,
    SubagentStop,
    PreCompact,
    Notification,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 10] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::UserPromptSubmit,
        Self::SessionStart,
        Self::SessionEnd,
        Self::Stop,
        Self::SubagentStop,
        Self::PreCompact,
        Self::Notification,
    ];

    /// Returns the name in settings and in the input of hooks.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
        }
    }

    /// Returns the event of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Returns the kind of moments at which it may happen.
    pub(crate) fn kind(self) -> HookKind {
        match self {
            Self::PreToolUse => HookKind::BeforeCall,
            Self::PostToolUse | Self::PostToolUseFailure => HookKind::AfterCall,
            Self::UserPromptSubmit => HookKind::Prompt,
            Self::SessionStart => HookKind::SessionStart,
            Self::SessionEnd => HookKind::SessionEnd,
            Self::Stop | Self::SubagentStop => HookKind::TurnEnd,
            Self::PreCompact => HookKind::Compaction,
            Self::Notification => HookKind::Notification,
        }
    }

    /// Returns true if matchers have no effect: nothing tells events of this name apart.
    pub(crate) fn ignores_matcher(self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::Stop)
    }

    /// Returns the names that matchers are compared with; `None` if there are others.
    fn names(self) -> Option<&'static [&'static str]> {
        match self {
            Self::SessionStart => Some(&["startup", "resume", "compact"]),
            Self::SessionEnd => Some(&SESSION_END_NAMES),
            Self::PreCompact => Some(&["manual", "auto"]),
            Self::Notification => Some(&["permission_prompt", "elicitation_dialog"]),
            Self::PreToolUse
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::UserPromptSubmit
            | Self::Stop
            | Self::SubagentStop => None,
        }
    }

    fn default_timeout(self) -> Duration {
        match self {
            Self::PreToolUse
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::Stop
            | Self::SubagentStop => WORK_TIMEOUT,
            Self::UserPromptSubmit
            | Self::SessionStart
            | Self::SessionEnd
            | Self::PreCompact
            | Self::Notification => DEFAULT_TIMEOUT,
        }
    }

    /// Returns true if it is about a call of a tool.
    pub(crate) fn is_about_calls(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PostToolUse | Self::PostToolUseFailure)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Command of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookCommand {
    /// A line for a shell.
    Line(String),
    /// A program with arguments.
    Program(Vec<String>),
}

impl fmt::Display for HookCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Program(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// The effect of a hook that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureEffect {
    /// The user is told, and the agent goes on.
    Tell,
    /// It counts as an objection.
    Object,
}

/// A hook of a file.
#[derive(Debug, Clone)]
pub struct Hook {
    pub event: HookEvent,
    pub(crate) matcher: HookMatcher,
    pub(crate) condition: Option<CallCondition>,
    pub(crate) command: HookCommand,
    pub(crate) timeout: Duration,
    pub(crate) on_failure: FailureEffect,
    /// True if the agent does not wait for it.
    pub(crate) is_async: bool,
    /// True if it runs once a session.
    pub(crate) is_once: bool,
    /// All of it as it is configured, by which equal hooks are found.
    configured: Value,
}

impl Hook {
    /// Returns the text of its matcher; empty if it runs at each event.
    pub fn matcher(&self) -> &str {
        self.matcher.text()
    }

    /// Returns true if another hook is the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.event == other.event
            && self.matcher.text() == other.matcher.text()
            && self.configured == other.configured
    }

    /// Returns what it runs, for display.
    pub fn command(&self) -> String {
        self.command.to_string()
    }

    /// Returns the words that start it, by which the files that it starts from are found.
    pub(crate) fn argv(&self) -> Vec<String> {
        match &self.command {
            HookCommand::Line(line) => ["sh", "-c", line].map(str::to_owned).to_vec(),
            HookCommand::Program(words) => words.clone(),
        }
    }

    /// Returns the time that it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// A hook that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedHook {
    /// Its place in the file: `hooks.PreToolUse[0].hooks[1]`.
    pub place: String,
    pub reason: String,
}

/// The hooks of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookFile {
    pub(crate) hooks: Vec<Hook>,
    pub(crate) unused: Vec<UnusedHook>,
    /// True if it switches all hooks off.
    pub(crate) disables_all: bool,
}

/// The part of a project's settings that hooks depend on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProjectHookFile {
    /// It configures no hooks.
    None,
    /// The members about hooks, as a JSON text that changes only with them.
    Hooks(Vec<u8>),
}

/// Returns the part of settings that hooks depend on. The rest changes often, and no trust depends on it.
pub(crate) fn hooks_of_settings(bytes: &[u8]) -> Result<ProjectHookFile, String> {
    let settings: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{line}:{column}: {}", without_place(&error))
    })?;
    let is_about_hooks =
        |(name, _): &(String, Value)| name == HOOKS_MEMBER || name == DISABLE_MEMBER;
    let kept: Map<String, Value> = settings.into_iter().filter(is_about_hooks).collect();
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if kept.get(HOOKS_MEMBER).is_none_or(is_empty) {
        return Ok(ProjectHookFile::None);
    }
    let text = serde_json::to_vec_pretty(&kept).expect("invariant: a JSON value can be written");
    Ok(ProjectHookFile::Hooks(text))
}

/// Returns the message of an error without the place at its end.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

impl HookFile {
    /// Parses the text of a file. Fails if it is no JSON object.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, String> {
        let settings: Value = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!("{}:{line}:{column}: {}", path.display(), without_place(&error))
        })?;
        let Value::Object(settings) = settings else {
            return Err(format!("{}: it is not an object", path.display()));
        };
        let mut file = Self {
            disables_all: settings.get(DISABLE_MEMBER) == Some(&Value::Bool(true)),
            ..Self::default()
        };
        match settings.get(HOOKS_MEMBER) {
            None => {}
            Some(Value::Object(events)) => {
                for (event, groups) in events {
                    file.read_event(event, groups);
                }
            }
            Some(_) => file.leave_out(HOOKS_MEMBER.to_owned(), "it is not an object"),
        }
        Ok(file)
    }

    fn leave_out(&mut self, place: String, reason: impl Into<String>) {
        self.unused.push(UnusedHook { place, reason: reason.into() });
    }

    fn read_event(&mut self, name: &str, groups: &Value) {
        let place = format!("{HOOKS_MEMBER}.{name}");
        let Some(event) = HookEvent::of_name(name) else {
            let reason = if OTHER_EVENTS.contains(&name) {
                "crow-agent has no such moment".to_owned()
            } else {
                unknown_word_message("event", name, &HookEvent::ALL.map(HookEvent::name))
            };
            return self.leave_out(place, reason);
        };
        let Value::Array(groups) = groups else {
            return self.leave_out(place, "it is not a list");
        };
        for (index, group) in groups.iter().enumerate() {
            let place = format!("{place}[{index}]");
            let matcher = match group.get("matcher") {
                None | Some(Value::Null) => Ok(HookMatcher::default()),
                Some(Value::String(text)) => HookMatcher::parse(text),
                Some(_) => Err("`matcher` is not a text".to_owned()),
            };
            let matcher = match matcher {
                Ok(matcher) => matcher,
                Err(reason) => {
                    self.leave_out(place, reason);
                    continue;
                }
            };
            if let Some(names) = event.names()
                && !names.iter().any(|name| matcher.matches(&[name]))
            {
                let names = names.join(", ");
                self.leave_out(place, format!("its matcher fits none of {names}"));
                continue;
            }
            let Some(Value::Array(hooks)) = group.get("hooks") else {
                self.leave_out(place, "it has no list `hooks`");
                continue;
            };
            for (index, hook) in hooks.iter().enumerate() {
                let place = format!("{place}.hooks[{index}]");
                if self.hooks.len() == MOST_HOOKS {
                    self.leave_out(place, format!("the file has more than {MOST_HOOKS} hooks"));
                    return;
                }
                match read_hook(event, &matcher, hook) {
                    Ok(hook) => self.hooks.push(hook),
                    Err(reason) => self.leave_out(place, reason),
                }
            }
        }
    }
}

fn read_hook(event: HookEvent, matcher: &HookMatcher, hook: &Value) -> Result<Hook, String> {
    let text = |name: &str| match hook.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` is not a text")),
    };
    let flag = |name: &str| match hook.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(format!("`{name}` is neither true nor false")),
    };
    match text("type")?.as_deref() {
        Some("command") => {}
        Some(other) => return Err(format!("crow-agent runs no hooks of the type `{other}`")),
        None => return Err("it has no `type`".to_owned()),
    }
    let command = text("command")?.filter(|line| !line.trim().is_empty());
    let command = command.ok_or("it has no `command`")?;
    let command = match hook.get("args") {
        None | Some(Value::Null) => HookCommand::Line(command),
        Some(Value::Array(words)) => {
            let words: Option<Vec<_>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let words = words.ok_or("`args` is not a list of texts")?;
            HookCommand::Program(std::iter::once(command).chain(words).collect())
        }
        Some(_) => return Err("`args` is not a list of texts".to_owned()),
    };
    if command.to_string().contains('\0') {
        return Err("its command has a NUL character".to_owned());
    }
    if let Some(shell) = text("shell")?.filter(|shell| shell != "bash") {
        return Err(format!("crow-agent runs no lines of the shell `{shell}`"));
    }
    let timeout = match hook.get("timeout") {
        None | Some(Value::Null) => event.default_timeout(),
        Some(seconds) => {
            let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
            let seconds = seconds.ok_or("`timeout` is not a number of seconds above zero")?;
            Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_TIMEOUT).min(LONGEST_TIMEOUT)
        }
    };
    let on_failure = match text("onFailure")?.as_deref() {
        None | Some("continue") => FailureEffect::Tell,
        Some("block") => FailureEffect::Object,
        Some(other) => {
            return Err(format!("`onFailure` is `{other}`, and neither `continue` nor `block`"));
        }
    };
    let condition = text("if")?.map(|text| CallCondition::parse(&text)).transpose()?;
    Ok(Hook {
        event,
        matcher: matcher.clone(),
        condition,
        command,
        timeout,
        on_failure,
        is_async: flag("async")? || flag("asyncRewake")?,
        is_once: flag("once")?,
        configured: hook.clone(),
    })
}

/// Returns the hooks of a file, and those that do not run.
pub(crate) fn hooks_of_file(
    path: &Path,
    bytes: &[u8],
) -> Result<(Vec<Hook>, Vec<UnusedHook>), String> {
    HookFile::parse(path, bytes).map(|file| (file.hooks, file.unused))
}
