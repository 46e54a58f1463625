//! Trying out hooks: they run on sample events, or on those of a stored session, and their answers are shown.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::{Containment, PipedProcesses},
    event::{AgentEvent, CompactionTrigger, InputSource},
    hooks::{HookMoment, HookScene, NotificationKind, SessionStartSource},
    ids::{CallId, SessionId},
    message::{Block, ReplyContent},
    permission::PermissionMode,
    redact::Redactor,
    tool::{
        Access, CallPlan, CommandLine, CommandMeaning, Effects, PathEffect, Subject, ToolResult,
    },
};
use crow_runtime::{LinkSearch, ProcessRunner, Sandbox, SessionStore, StoredSession};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    HookEvent, HookSet,
    answer::AnsweredPermission,
    command_hooks::{CommandHooks, HookLaunch, HookResult},
    hook_input::EventInput,
    tool_names::{APPLY_PATCH, files_of_patch},
};
use crate::{
    environment::ProcessEnvironment,
    sandbox::SandboxSettings,
    trust::{Project, project_root},
};

/// An event to try hooks on.
#[derive(Debug, Clone)]
pub enum RecordedEvent {
    Prompt(String),
    Call {
        tool: String,
        input: Value,
        /// The result; none before the call.
        result: Option<Box<ToolResult>>,
    },
    SessionStart,
    SessionEnd,
    TurnEnd(String),
    Compaction,
    Notification(String),
}

/// What a hook did at an event.
#[derive(Debug, Clone, PartialEq)]
pub struct HookReport {
    pub event: HookEvent,
    /// The tool of the call, by the name that hooks read.
    pub tool: Option<String>,
    pub command: String,
    /// The file that configures it.
    pub file: PathBuf,
    /// The effects of its answer, each a part of a sentence; or how it failed.
    pub answer: Result<Vec<String>, String>,
}

/// Runs hooks without an agent.
#[derive(Debug)]
pub struct HookReplay {
    hooks: CommandHooks,
    sandbox: Arc<Sandbox>,
    sandboxed: Arc<dyn PipedProcesses>,
    /// The working directory.
    roots: Vec<PathBuf>,
    id: SessionId,
}

impl RecordedEvent {
    /// Returns a sample of an event.
    pub fn sample(event: HookEvent, tool: Option<&str>, input: Option<&Value>) -> Self {
        let call = |result: Option<Box<ToolResult>>| Self::Call {
            tool: tool.unwrap_or("bash").to_owned(),
            input: input.cloned().unwrap_or_else(|| json!({ "command": "echo sample" })),
            result,
        };
        match event {
            HookEvent::PreToolUse => call(None),
            HookEvent::PostToolUse => call(Some(Box::new(ToolResult::success("sample")))),
            HookEvent::PostToolUseFailure => call(Some(Box::new(ToolResult::failure("it failed")))),
            HookEvent::UserPromptSubmit => Self::Prompt("This is a sample prompt.".to_owned()),
            HookEvent::SessionStart => Self::SessionStart,
            HookEvent::SessionEnd => Self::SessionEnd,
            HookEvent::Stop | HookEvent::SubagentStop => Self::TurnEnd("Done.".to_owned()),
            HookEvent::PreCompact => Self::Compaction,
            HookEvent::Notification => Self::Notification("This is a sample.".to_owned()),
        }
    }

    /// Returns the events of a stored session: prompts, calls before and after they ran, and the ends of turns.
    pub fn of_session(session: &StoredSession) -> Vec<Self> {
        let mut events = vec![Self::SessionStart];
        let mut started: Vec<(CallId, String, Value)> = Vec::new();
        let mut text = String::new();
        for envelope in &session.events {
            match &envelope.event {
                AgentEvent::UserInput { source: InputSource::Prompt, content, .. } => {
                    events.push(Self::Prompt(Block::text_of(content)));
                }
                AgentEvent::CallStart { call_id, tool, arguments, .. } => {
                    let (tool, input) = (tool.clone(), arguments.clone());
                    events.push(Self::Call {
                        tool: tool.clone(),
                        input: input.clone(),
                        result: None,
                    });
                    started.push((call_id.clone(), tool, input));
                }
                AgentEvent::CallEnd { call_id, result, .. } => {
                    if let Some(at) = started.iter().position(|(id, ..)| id == call_id) {
                        let (_, tool, input) = started.remove(at);
                        events.push(Self::Call {
                            tool,
                            input,
                            result: Some(Box::new(result.clone())),
                        });
                    }
                }
                AgentEvent::Reply { blocks, .. } => {
                    let texts = blocks.iter().filter_map(|block| match &block.content {
                        ReplyContent::Text { text } => Some(text.as_str()),
                        _ => None,
                    });
                    text = texts.collect();
                }
                AgentEvent::RunEnd { .. } => {
                    events.push(Self::TurnEnd(std::mem::take(&mut text)));
                }
                _ => {}
            }
        }
        events.push(Self::SessionEnd);
        events
    }
}

impl HookReplay {
    /// Prepares the hooks of a directory. Hooks that run in the sandbox get one of their own, as a session would.
    pub fn new(
        set: HookSet,
        (project, cwd): (&Project, &Path),
        environment: &ProcessEnvironment,
        store: Arc<dyn SessionStore>,
        runner: ProcessRunner,
        settings: SandboxSettings,
    ) -> Self {
        let id = SessionId::new(format!("hooks-test-{}", std::process::id()));
        let SandboxSettings { mut config, links } = settings;
        config.folder = config.folder.join("trial");
        let roots = vec![cwd.to_path_buf()];
        let links = Arc::new(LinkSearch::new(links, roots.clone()));
        let sandbox = Sandbox::new(config, id.to_string(), roots).with_links(links);
        for path in set.readable_paths(environment) {
            sandbox.make_readable(&path);
        }
        let sandbox = Arc::new(sandbox);
        let sandboxed = runner.clone().in_sandbox(Arc::clone(&sandbox));
        let launch = HookLaunch {
            runner,
            store,
            project: project_root(cwd),
            trusted: project.trusted.clone().map(Arc::new),
            home: environment.var("HOME").map(PathBuf::from),
            redactor: Redactor::default(),
        };
        let hooks = CommandHooks::new(Arc::new(set), launch);
        Self { hooks, sandbox, sandboxed: Arc::new(sandboxed), roots: vec![cwd.to_path_buf()], id }
    }

    /// Runs the hooks of an event.
    pub async fn run(&self, event: &RecordedEvent, is_subagent: bool) -> Vec<HookReport> {
        let call_id = CallId::new("call_1");
        let containment = self.sandbox.containment().await;
        let cwd = self.roots.first().map_or(Path::new("/"), PathBuf::as_path);
        let child = SessionId::new(format!("{}-child", self.id));
        let scene = HookScene {
            session_id: if is_subagent { &child } else { &self.id },
            root_id: &self.id,
            agent: "sample",
            cwd,
            roots: &self.roots,
            mode: PermissionMode::Ask,
            sandboxed: containment.has_any_layer().then(|| Arc::clone(&self.sandboxed)),
            enforces_read_only: containment == Containment::Full,
            trace: None,
        };
        let plan;
        let moment = match event {
            RecordedEvent::Prompt(text) => HookMoment::Prompt { text },
            RecordedEvent::Call { tool, input, result } => {
                plan = plan_of(tool, input, cwd);
                let (call_id, plan) = (&call_id, &plan);
                match result {
                    None => HookMoment::BeforeCall { call_id, tool, input, plan },
                    Some(result) => {
                        let duration = Duration::from_millis(result.metadata.duration_ms);
                        HookMoment::AfterCall { call_id, tool, input, plan, result, duration }
                    }
                }
            }
            RecordedEvent::SessionStart => {
                HookMoment::SessionStart { source: SessionStartSource::New }
            }
            RecordedEvent::SessionEnd => HookMoment::SessionEnd,
            RecordedEvent::TurnEnd(text) => {
                HookMoment::TurnEnd { text: Some(text), has_objected: false }
            }
            RecordedEvent::Compaction => {
                HookMoment::Compaction { trigger: CompactionTrigger::User, focus: None }
            }
            RecordedEvent::Notification(text) => {
                HookMoment::Notification { kind: NotificationKind::Permission, text }
            }
        };
        let places = self.hooks.condition_places(&scene);
        let inputs = EventInput::of_moment(&scene, &moment, &places);
        let results = self.hooks.results(&scene, &inputs, true, &CancellationToken::new()).await;
        results.into_iter().map(report).collect()
    }
}

/// Plans a call from its arguments alone.
fn plan_of(tool: &str, input: &Value, cwd: &Path) -> CallPlan {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| input.get(name).and_then(Value::as_str)).map(str::to_owned)
    };
    let plan = CallPlan::without_effects("sample");
    if let Some(line) = text(&["command", "cmd", "script"]) {
        let meaning = CommandMeaning::Unclear("it was not parsed".to_owned());
        let subject = Subject::Command(CommandLine { text: line, folder: None, meaning });
        return CallPlan { subject, ..plan };
    }
    if tool == APPLY_PATCH {
        let patch = text(&["input", "patch"]).unwrap_or_default();
        let files = files_of_patch(&patch).into_iter();
        let effects = files.map(|file| PathEffect::new(cwd.join(file), Access::Write)).collect();
        return CallPlan { effects: Effects::Paths(effects), ..plan };
    }
    let path = text(&["path", "file_path", "filePath", "filename", "file"]);
    let effects = path.map(|path| vec![PathEffect::new(cwd.join(path), Access::Write)]);
    CallPlan { effects: effects.map_or(Effects::None, Effects::Paths), ..plan }
}

/// Describes what a hook did.
fn report(result: HookResult<'_>) -> HookReport {
    let HookResult { hook, event, answer, tool, .. } = result;
    let answer = answer.map_err(|failure| failure.to_string()).map(|answer| {
        let mut effects = Vec::new();
        if let Some((permission, reason)) = answer.permission {
            let verb = match permission {
                AnsweredPermission::Allow => "allows the call",
                AnsweredPermission::Ask => "asks about the call",
                AnsweredPermission::Deny => "refuses the call",
            };
            effects.push(format!("{verb}: {reason}"));
        }
        let changed = answer.input.map(|input| {
            let input = Value::Object(input);
            format!("changes the input to {input}")
        });
        effects.extend(changed);
        effects.extend(answer.objection.map(|text| format!("objects: {text}")));
        effects.extend(answer.context.map(|text| format!("tells the model: {text}")));
        effects.extend(answer.message.map(|text| format!("tells you: {text}")));
        effects.extend(answer.stop.map(|text| format!("ends the turn: {text}")));
        effects.extend(answer.unused.into_iter().map(|name| format!("{name} has no effect")));
        effects
    });
    HookReport { event, tool, command: hook.hook.command(), file: hook.file.clone(), answer }
}
