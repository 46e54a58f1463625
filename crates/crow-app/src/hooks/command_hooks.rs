//! The hooks of a session at work: which run at a moment, what they answer, and what the answers mean together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{PipedProcesses, ProcessEnd},
    event::NoticeLevel,
    hooks::{HookKind, HookMoment, HookOutcome, HookPermission, HookScene, SessionHooks},
    ids::SessionId,
    permission::PermissionMode,
    redact::Redactor,
    tool::SourceNotice,
};
use crow_runtime::{ProcessRunner, SessionStore};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    answer::{AnsweredPermission, HookAnswer},
    hook_input::EventInput,
    hook_process::HookRun,
    hook_set::{HookOrigin, HookSet, SessionHook, names_path_below, script_of},
    tool_names::{ConditionPlaces, input_with_changes},
};
use crate::{
    hook_files::{FailureEffect, HookCommand, HookEvent},
    trust::TrustedState,
};

/// Variable with the root of the project.
const PROJECT_VARIABLE: &str = "CLAUDE_PROJECT_DIR";
/// Variable with the trace context.
const TRACE_VARIABLE: &str = "TRACEPARENT";
/// Length of a command in messages, in bytes.
const SHOWN: usize = 60;
/// Maximum number of hooks that run at a time, and of those that the agent does not wait for.
const MOST_AT_ONCE: usize = 8;
const MOST_IN_BACKGROUND: usize = 16;
/// Time for a hook at the end of a session, and time that the end waits for hooks in the background.
const SESSION_END: Duration = Duration::from_millis(1500);
const LAST_IN_BACKGROUND: Duration = Duration::from_millis(500);
/// Error messages that suggest that the sandbox hid a file from a program.
const SANDBOX_SIGNS: [&str; 4] = [
    "No such file or directory",
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
];
/// Hint that is appended to the failure of a sandboxed hook of the user.
const SANDBOX_HINT: &str = " (it ran in the sandbox; `outside_sandbox = true` under `[hooks]` in config.toml runs your own hooks outside)";

/// How hooks are started.
#[derive(Debug, Clone)]
pub(crate) struct HookLaunch {
    /// Starts those that run outside of the sandbox.
    pub(crate) runner: ProcessRunner,
    pub(crate) store: Arc<dyn SessionStore>,
    /// Root of the project.
    pub(crate) project: PathBuf,
    /// State of the trusted project, without which its hooks do not run.
    pub(crate) trusted: Option<Arc<TrustedState>>,
    /// The home of the user.
    pub(crate) home: Option<PathBuf>,
    /// Removes secrets from what hooks print.
    pub(crate) redactor: Redactor,
}

/// The hooks of a session. Dropping it ends those that the agent does not wait for.
#[derive(Debug)]
pub(crate) struct CommandHooks {
    set: Arc<HookSet>,
    launch: HookLaunch,
    kinds: BTreeSet<HookKind>,
    /// Positions of the hooks that run once and have run.
    done: Mutex<BTreeSet<usize>>,
    background: Mutex<JoinSet<Vec<SourceNotice>>>,
    background_token: CancellationToken,
    _ends_background: DropGuard,
    /// Messages about the configuration, shown with the first answer.
    untold: Mutex<Vec<SourceNotice>>,
}

/// A hook that is about to run at an event.
struct PreparedHook {
    event: HookEvent,
    is_sandboxed: bool,
    processes: Arc<dyn PipedProcesses>,
    redactor: Redactor,
    /// The first that can be started runs: a system may have no `bash`.
    runs: Vec<HookRun>,
    /// For a hook of a project: it runs only while the project is as it was when it was trusted.
    trusted: Option<Arc<TrustedState>>,
    /// A script that must be there.
    script: Option<PathBuf>,
}

/// Result of one hook for one event.
pub(super) struct HookResult<'a> {
    pub(super) hook: &'a SessionHook,
    pub(super) event: HookEvent,
    /// The answer, or how it failed.
    pub(super) answer: Result<HookAnswer, HookFailure>,
    /// True if it ran in the sandbox.
    is_sandboxed: bool,
    /// The tool of the call, by the name that hooks read.
    pub(super) tool: Option<String>,
    /// Input of the call as the hook received it.
    shown: Value,
}

impl CommandHooks {
    /// Makes the hooks of a session.
    pub(crate) fn new(set: Arc<HookSet>, launch: HookLaunch) -> Self {
        let kinds = set.hooks.iter().map(|hook| hook.hook.event.kind()).collect();
        let background_token = CancellationToken::new();
        let untold = skipped_message(&set).map(warning).into_iter().collect();
        Self {
            set,
            launch,
            kinds,
            done: Mutex::default(),
            background: Mutex::default(),
            _ends_background: background_token.clone().drop_guard(),
            background_token,
            untold: Mutex::new(untold),
        }
    }

    /// Returns true if there is a hook, or something to tell about one.
    pub(crate) fn is_needed(set: &HookSet) -> bool {
        !set.hooks.is_empty() || skipped_message(set).is_some()
    }

    /// Returns the places that paths in conditions may be relative to.
    pub(super) fn condition_places(&self, scene: &HookScene<'_>) -> ConditionPlaces {
        let folders = vec![scene.cwd.to_path_buf(), self.launch.project.clone()];
        ConditionPlaces { folders, home: self.launch.home.clone() }
    }

    /// Returns the hooks that run at an event.
    fn hooks_at(&self, input: &EventInput) -> Vec<&SessionHook> {
        let names: Vec<&str> = input.names.iter().map(String::as_str).collect();
        let subjects = input.call.as_ref().and_then(|call| call.subjects.as_deref());
        let is_wanted = |(_, session_hook): &(usize, &SessionHook)| {
            let hook = &session_hook.hook;
            hook.event == input.event
                && (hook.event.ignores_matcher() || hook.matcher.matches(&names))
                && hook.condition.as_ref().is_none_or(|condition| {
                    !hook.event.is_about_calls() || condition.matches(&names, subjects)
                })
        };
        let mut hooks: Vec<_> = self.set.hooks.iter().enumerate().filter(is_wanted).collect();
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(index, hook)| !hook.hook.is_once || done.insert(*index));
        hooks.into_iter().map(|(_, hook)| hook).collect()
    }

    /// Prepares a hook. The error says why it does not run.
    fn prepare(
        &self,
        scene: &HookScene<'_>,
        session_hook: &SessionHook,
        input: &EventInput,
    ) -> Result<PreparedHook, String> {
        let hook = &session_hook.hook;
        let is_of_project = session_hook.origin == HookOrigin::Project;
        // 1) Where it runs. The sandbox is that of the agent's commands.
        let is_outside = session_hook.may_run_outside && {
            let roots = scene.roots.iter().chain([&self.launch.project]);
            !names_path_below(hook, self.launch.home.as_deref(), roots)
        };
        let sandbox = scene.sandboxed.clone().filter(|_| !is_outside);
        let is_sandboxed = sandbox.is_some();
        if is_of_project && !is_sandboxed {
            return Err(
                "it did not run: there is no sandbox, in which hooks of projects run".to_owned()
            );
        }
        let is_read_only = scene.mode == PermissionMode::ReadOnly;
        if is_of_project && is_read_only && !scene.enforces_read_only {
            return Err(
                "it did not run: the sandbox cannot keep it from changing files in this read-only session"
                    .to_owned(),
            );
        }
        // 2) Hooks of a project run where their files were looked for when they were trusted, those outside where no word means a
        //    file of the project.
        let cwd = if is_of_project {
            self.launch.project.clone()
        } else if is_outside {
            self.launch.home.clone().unwrap_or_else(|| PathBuf::from("/"))
        } else {
            scene.cwd.to_path_buf()
        };
        let project = self.launch.project.to_string_lossy().into_owned();
        let mut env = BTreeMap::from([(PROJECT_VARIABLE.to_owned(), project.clone())]);
        if let Some(trace) = scene.trace {
            env.insert(TRACE_VARIABLE.to_owned(), trace.to_string());
        }
        let commands = match &hook.command {
            HookCommand::Line(line) => {
                ["bash", "sh"].map(|shell| [shell, "-c", line].map(str::to_owned).to_vec()).to_vec()
            }
            HookCommand::Program(words) => {
                let variable = format!("${{{PROJECT_VARIABLE}}}");
                vec![words.iter().map(|word| word.replace(&variable, &project)).collect()]
            }
        };
        let timeout = match input.event {
            HookEvent::SessionEnd => hook.timeout.min(SESSION_END),
            _ => hook.timeout,
        };
        let text = input.to_json(scene, |id| self.transcript(id));
        let runs = commands.into_iter().map(|argv| HookRun {
            argv,
            cwd: cwd.clone(),
            env: env.clone(),
            input: Arc::clone(&text),
            timeout,
        });
        let outside = || Arc::new(self.launch.runner.clone()) as Arc<dyn PipedProcesses>;
        Ok(PreparedHook {
            event: input.event,
            is_sandboxed,
            redactor: self.launch.redactor.clone(),
            processes: sandbox.unwrap_or_else(outside),
            runs: runs.collect(),
            trusted: self.launch.trusted.clone().filter(|_| is_of_project),
            script: script_of(hook, self.launch.home.as_deref(), &self.launch.project, &cwd),
        })
    }

    /// Returns the path of the log of a session; empty if there is none.
    fn transcript(&self, id: &SessionId) -> String {
        let output = self.launch.store.scratch(id);
        let folder = output.as_deref().and_then(Path::parent);
        folder.map_or_else(String::new, |folder| {
            folder.join("history.jsonl").to_string_lossy().into_owned()
        })
    }

    /// Runs the hooks of events at the same time, as far as they are not too many. `waits` tells if it waits for all.
    pub(super) async fn results<'a>(
        &'a self,
        scene: &HookScene<'_>,
        inputs: &[EventInput],
        waits: bool,
        cancellation: &CancellationToken,
    ) -> Vec<HookResult<'a>> {
        let mut running = Vec::new();
        for input in inputs {
            for hook in self.hooks_at(input) {
                let prepared = self.prepare(scene, hook, input);
                if hook.hook.is_async && !waits {
                    self.start_in_background(hook, input.event, prepared);
                    continue;
                }
                let (event, call) = (input.event, input.call.as_ref());
                let shown = call.map_or(Value::Null, |call| call.input.clone());
                let tool = call.map(|call| call.name().to_owned());
                running.push(async move {
                    let (answer, is_sandboxed) = match prepared {
                        Ok(prepared) => {
                            let is_sandboxed = prepared.is_sandboxed;
                            (prepared.run(cancellation).await, is_sandboxed)
                        }
                        Err(why) => (Err(HookFailure::Failed(why)), false),
                    };
                    HookResult { hook, event, answer, is_sandboxed, tool, shown }
                });
            }
        }
        // In their order, in which the answers count.
        stream::iter(running).buffered(MOST_AT_ONCE).collect().await
    }

    /// Starts a hook that the agent does not wait for. What it answers has no effect, but its failure is told later.
    fn start_in_background(
        &self,
        hook: &SessionHook,
        event: HookEvent,
        prepared: Result<PreparedHook, String>,
    ) {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = prepared.and_then(|prepared| {
            let is_full = background.len() >= MOST_IN_BACKGROUND;
            let why =
                || format!("it did not run: {MOST_IN_BACKGROUND} hooks run in the background");
            if is_full { Err(why()) } else { Ok(prepared) }
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
                return untold.push(failure_notice(hook, event, &why, false));
            }
        };
        let (hook, token) = (hook.clone(), self.background_token.clone());
        background.spawn(async move {
            let is_sandboxed = prepared.is_sandboxed;
            match prepared.run(&token).await {
                Ok(answer) => answer.message.into_iter().map(|text| told(&hook, &text)).collect(),
                Err(failure) => {
                    vec![failure_notice(&hook, event, &failure.to_string(), is_sandboxed)]
                }
            }
        });
    }

    /// Waits for the hooks in the background, not long, and ends them.
    async fn end_background(&self) {
        let mut background = {
            let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *background)
        };
        let mut notices = Vec::new();
        let collect = async {
            while let Some(ended) = background.join_next().await {
                notices.extend(ended.unwrap_or_default());
            }
        };
        let is_late = tokio::time::timeout(LAST_IN_BACKGROUND, collect).await.is_err();
        if is_late {
            self.background_token.cancel();
            while let Ok(Some(ended)) =
                tokio::time::timeout(LAST_IN_BACKGROUND, background.join_next()).await
            {
                notices.extend(ended.unwrap_or_default());
            }
        }
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).extend(notices);
    }

    /// Returns the messages of hooks that the agent did not wait for, and those about the configuration.
    fn take_untold(&self) -> Vec<SourceNotice> {
        let mut notices =
            std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = background.try_join_next() {
            notices.extend(ended.unwrap_or_default());
        }
        notices
    }
}

/// Why a hook gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookFailure {
    /// It did not run or failed: a part of a sentence.
    Failed(String),
    /// It was ended, since nobody waits for its answer any more.
    Cancelled,
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => f.write_str(why),
            Self::Cancelled => f.write_str("it was ended with the run"),
        }
    }
}

impl PreparedHook {
    async fn run(self, cancellation: &CancellationToken) -> Result<HookAnswer, HookFailure> {
        let failed = |why: String| HookFailure::Failed(format!("it did not run: {why}"));
        if let Some(trusted) = self.trusted {
            let checked = tokio::task::spawn_blocking(move || trusted.check()).await;
            let checked = checked.map_err(io::Error::other).map_err(|error| error.to_string());
            let checked = checked.and_then(|checked| checked.map_err(|error| error.to_string()));
            checked.map_err(failed)?;
        }
        // Shells and interpreters report a missing script with the status of an objection.
        if let Some(script) = self.script.filter(|script| !script.exists()) {
            return Err(failed(format!("there is no file {}", script.display())));
        }
        let mut failure = String::new();
        for run in self.runs {
            match run.execute(self.processes.as_ref(), cancellation).await {
                Ok(print) if print.end == ProcessEnd::Cancelled => {
                    return Err(HookFailure::Cancelled);
                }
                Ok(mut print) => {
                    // Before anything is cut: half a secret is a secret, too.
                    self.redactor.redact_string(&mut print.stderr);
                    if let Ok(mut text) = String::from_utf8(print.stdout.clone())
                        && self.redactor.redact_string(&mut text)
                    {
                        print.stdout = text.into_bytes();
                    }
                    return HookAnswer::read(self.event, &print).map_err(HookFailure::Failed);
                }
                Err(error) if error.is_missing => failure = error.message,
                Err(_) if cancellation.is_cancelled() => return Err(HookFailure::Cancelled),
                Err(error) => return Err(HookFailure::Failed(error.message)),
            }
        }
        Err(HookFailure::Failed(failure))
    }
}

#[async_trait]
impl SessionHooks for CommandHooks {
    fn has(&self, kind: HookKind) -> bool {
        // The first prompt shows what is wrong with the configuration, the end of the session what hooks in the background did.
        self.kinds.contains(&kind) || matches!(kind, HookKind::Prompt | HookKind::SessionEnd)
    }

    async fn run(
        &self,
        scene: HookScene<'_>,
        moment: HookMoment<'_>,
        cancellation: &CancellationToken,
    ) -> HookOutcome {
        let inputs = EventInput::of_moment(&scene, &moment, &self.condition_places(&scene));
        let results = self.results(&scene, &inputs, false, cancellation).await;
        if moment.kind() == HookKind::SessionEnd {
            self.end_background().await;
        }
        let mut outcome = HookOutcome {
            notices: self.take_untold(),
            has_run: !results.is_empty(),
            ..HookOutcome::default()
        };
        for result in results {
            add_result(&mut outcome, result, &moment);
        }
        outcome
    }
}

/// Adds what one hook gave to the answer of all.
fn add_result(outcome: &mut HookOutcome, result: HookResult<'_>, moment: &HookMoment<'_>) {
    let HookResult { hook, event, answer, is_sandboxed, shown, tool: _ } = result;
    let answer = match answer {
        Ok(answer) => answer,
        // A cancelled hook needs no notice: the run was cancelled.
        Err(HookFailure::Cancelled) => return,
        Err(HookFailure::Failed(why)) => {
            outcome.notices.push(failure_notice(hook, event, &why, is_sandboxed));
            match hook.hook.on_failure {
                FailureEffect::Tell => return,
                FailureEffect::Object => {
                    HookAnswer::of_objection(event, format!("a hook failed: {why}"))
                }
            }
        }
    };
    let HookAnswer { permission, input, objection, context, message, stop, unused } = answer;
    outcome.notices.extend(message.map(|text| told(hook, &text)));
    if !unused.is_empty() {
        let why = format!("what it answered as {} has no effect", unused.join(", "));
        outcome.notices.push(failure_notice(hook, event, &why, false));
    }
    outcome.context.extend(context.map(|text| {
        let (name, source) = ("hook", format!("a hook of {event}"));
        crow_core::message::wrap_in_tag(name, &source, &text)
    }));
    outcome.stop = outcome.stop.take().or(stop);
    // An objection because the sandbox hides a file is none.
    let reasons = permission.iter().map(|(_, reason)| reason).chain(&objection);
    if is_sandboxed
        && hook.origin == HookOrigin::User
        && reasons.into_iter().any(|reason| SANDBOX_SIGNS.iter().any(|sign| reason.contains(sign)))
    {
        outcome.notices.push(warning(format!("{}{SANDBOX_HINT}", describe(hook, event))));
    }
    if let Some(objection) = objection {
        outcome.objection = Some(match outcome.objection.take() {
            Some(before) => format!("{before}\n{objection}"),
            None => objection,
        });
    }
    if let Some((permission, reason)) = permission {
        let given = match permission {
            // A project's hook can only object.
            AnsweredPermission::Allow if hook.origin == HookOrigin::Project => None,
            AnsweredPermission::Allow => Some(HookPermission::Allow),
            AnsweredPermission::Ask => Some(HookPermission::Ask(format!("a hook asks: {reason}"))),
            AnsweredPermission::Deny => Some(HookPermission::Deny(reason)),
        };
        outcome.permission = HookPermission::stricter(outcome.permission.take(), given);
    }
    if let (Some(changed), HookMoment::BeforeCall { tool, input, .. }) = (input, moment) {
        match input_with_changes(tool, input, &shown, &changed) {
            Ok(changed) => {
                if outcome.input.as_ref().is_some_and(|other| *other != changed) {
                    let why = "another hook changed the input as well; this change counts";
                    outcome.notices.push(failure_notice(hook, event, why, false));
                }
                outcome.input = Some(changed);
            }
            Err(why) => outcome.notices.push(failure_notice(hook, event, &why, false)),
        }
    }
}

/// Returns the message about hooks and files that are not used, if there are some.
fn skipped_message(set: &HookSet) -> Option<String> {
    // What the user switched off needs no message.
    let is_mistake = |reason: &str| !reason.contains("switches all hooks off");
    let skipped = set.unused.iter().filter(|(_, unused)| is_mistake(&unused.reason)).count();
    match (skipped, set.faults.as_slice()) {
        (0, []) => None,
        (0, [fault, ..]) => Some(format!("hooks are not used: {fault}")),
        (1, []) => {
            let (file, unused) = set.unused.first()?;
            let (file, place, reason) = (file.display(), &unused.place, &unused.reason);
            Some(format!("a hook does not run: {file}, {place}: {reason}"))
        }
        (count, _) => Some(format!("{count} hooks do not run; `crow-agent hooks list` says why")),
    }
}

fn warning(text: String) -> SourceNotice {
    SourceNotice { level: NoticeLevel::Warning, text }
}

/// Returns the message of a hook for the user.
fn told(hook: &SessionHook, text: &str) -> SourceNotice {
    let text = format!("{} says: {text}", describe(hook, hook.hook.event));
    SourceNotice { level: NoticeLevel::Info, text }
}

/// Returns the message about the failure of a hook.
fn failure_notice(
    hook: &SessionHook,
    event: HookEvent,
    why: &str,
    is_sandboxed: bool,
) -> SourceNotice {
    let has_hint = is_sandboxed && hook.origin == HookOrigin::User && why.contains("status");
    let hint = if has_hint { SANDBOX_HINT } else { "" };
    warning(format!("{}: {why}{hint}", describe(hook, event)))
}

fn describe(hook: &SessionHook, event: HookEvent) -> String {
    let command = crow_text::shorten(&crow_text::one_line(&hook.hook.command()), SHOWN);
    format!("the {event} hook `{command}`")
}
