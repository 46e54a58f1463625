//! Answering the calls of a reply.

use std::sync::Arc;

use crow_core::{
    call::{InvalidCall, ResolvedCall, resolve},
    ending::{WorkCall, WorkKind, WorkStatus},
    event::{AgentEvent, AgentState},
    history::HistoryError,
    ids::{CallId, ReplyId},
    message::ToolCall,
    permission::{Denial, DenialSource},
    tool::{ToolCategory, ToolRegistry, ToolResult},
    turn::{RequestedCall, Validity},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::{
    changes::ChangeTracker, moved_files::MovedFileNotices, prepare::PreparedCall,
    sandbox::CallSandbox,
};
use crate::{
    agent::{
        AgentError, agent_shared::AgentShared, hook_port::HookPort, questions::RecordQueue,
        session_writer::SessionWriter,
    },
    config::RuntimeConfig,
    delegated_calls::RunBy,
};

/// Maximum number of reading calls that run in parallel.
pub(super) const PARALLEL_READS: usize = 8;
/// Maximum number of agent-starting calls that run in parallel. Their agents may still have to wait for free slots.
const PARALLEL_AGENTS: usize = 32;

/// A call that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutedCall {
    /// The id of the call.
    pub id: CallId,
    /// The resolved name of the tool, or the name the model used.
    pub name: String,
    /// The arguments as executed, or as the model gave them.
    pub arguments: Value,
    /// The result.
    pub result: ToolResult,
    /// Execution time in milliseconds.
    pub duration_ms: u64,
    /// Validity of tool and arguments.
    pub validity: Validity,
    /// True if success of this tool ends the turn.
    pub ends_turn: bool,
    /// The denial, if it was denied.
    pub denial: Option<Denial>,
}

/// Answers the calls of an agent: decides about them, runs them, and records results, changes and questions.
pub(crate) struct CallPipeline {
    pub(super) config: Arc<RuntimeConfig>,
    pub(super) shared: Arc<AgentShared>,
    pub(super) sandbox: CallSandbox,
    pub(super) changes: ChangeTracker,
    pub(super) moved_files: MovedFileNotices,
    /// Events that running calls ask the agent to record.
    pub(super) record_queue: RecordQueue,
    pub(super) hooks: HookPort,
    /// What hooks said since it was taken.
    pub(super) hook_results: CallHookResults,
}

/// What the hooks of calls want, beside what they say about the calls themselves.
#[derive(Debug, Default)]
pub(crate) struct CallHookResults {
    /// Texts for the model.
    pub context: Vec<String>,
    /// Reason to end the turn.
    pub stop: Option<String>,
}

impl CallHookResults {
    pub(super) fn add(&mut self, context: Vec<String>, stop: Option<String>) {
        self.context.extend(context);
        self.stop = self.stop.take().or(stop);
    }
}

/// The calls of one reply, on their way through the pipeline.
pub(super) struct ReplyCalls<'a> {
    pub(super) pipeline: &'a mut CallPipeline,
    pub(super) session: &'a mut SessionWriter,
    pub(super) tools: &'a ToolRegistry,
    pub(super) reply_id: &'a ReplyId,
    pub(super) cancel: &'a CancellationToken,
}

/// Parts of a new [`CallPipeline`].
pub(crate) struct CallPipelineParts {
    pub config: Arc<RuntimeConfig>,
    pub shared: Arc<AgentShared>,
    pub sandbox: CallSandbox,
    pub changes: ChangeTracker,
    pub moved_files: MovedFileNotices,
    pub record_queue: RecordQueue,
    pub hooks: HookPort,
}

impl CallPipeline {
    pub(crate) fn new(parts: CallPipelineParts) -> Self {
        let CallPipelineParts {
            config,
            shared,
            sandbox,
            changes,
            moved_files,
            record_queue,
            hooks,
        } = parts;
        let hook_results = CallHookResults::default();
        Self { config, shared, sandbox, changes, moved_files, record_queue, hooks, hook_results }
    }

    /// Returns what hooks said since the last time.
    pub(crate) fn take_hook_results(&mut self) -> CallHookResults {
        std::mem::take(&mut self.hook_results)
    }

    /// Answers the calls of a reply, each exactly once, and returns the answers in the order of the calls. Fails without
    /// running anything if a call is not open in the history.
    pub(crate) async fn call(
        &mut self,
        session: &mut SessionWriter,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        calls: Vec<RequestedCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let history = session.history();
        for call in &calls {
            if history.open_reply() != Some(reply_id) || !history.is_open(&call.call.id) {
                return Err(HistoryError::NotOpen { call_id: call.call.id.clone() }.into());
            }
        }
        session.set_state(AgentState::Processing).await?;
        ReplyCalls { pipeline: self, session, tools, reply_id, cancel }.answer(calls).await
    }

    /// Answers every open call, as after a crash or a cancel, so that the model can be called again. Returns their
    /// number.
    pub(crate) async fn close_open_calls(
        &self,
        session: &mut SessionWriter,
    ) -> Result<usize, AgentError> {
        let Some(reply_id) = session.history().open_reply().cloned() else { return Ok(0) };
        let open = session.history().open_calls();
        for call in &open {
            let mut result = interrupted(call.started);
            if let Some(before) = call.snapshot.clone() {
                self.changes.record_cut_off(session, before, &mut result).await?;
                result.metadata.cut_off = true;
            }
            let end = AgentEvent::CallEnd {
                call_id: call.call_id.clone(),
                reply_id: reply_id.clone(),
                tool: call.tool.clone(),
                result,
                denial: None,
            };
            session.emit(end).await?;
        }
        Ok(open.len())
    }

    /// Records changes that jobs made meanwhile.
    pub(crate) async fn scan_jobs(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        self.changes.jobs().scan(session).await
    }

    /// Notifies the user of files that were moved aside meanwhile.
    pub(crate) async fn report_moved_files(
        &self,
        session: &mut SessionWriter,
    ) -> Result<(), AgentError> {
        self.moved_files.report(session).await
    }

    /// Asks the user whether files moved aside are their own, and puts those back.
    pub(crate) async fn ask_about_moved_files(
        &mut self,
        session: &mut SessionWriter,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        self.moved_files.ask(session, &mut self.record_queue, cancel).await
    }

    /// Recovers, once per tree, from sessions that were killed while a command ran, and notifies the user.
    pub(crate) async fn recover_from_killed_sessions(
        &self,
        session: &mut SessionWriter,
    ) -> Result<(), AgentError> {
        if !self.sandbox.begin_recovery() {
            return Ok(());
        }
        self.changes.jobs().record_killed(session).await?;
        self.sandbox.recover(session).await
    }

    /// Returns true if the sandbox can enforce read-only commands.
    pub(crate) fn can_enforce_read_only(&self) -> impl Future<Output = bool> + Send + use<> {
        self.sandbox.can_enforce_read_only()
    }
}

impl ReplyCalls<'_> {
    /// Answers the calls. Consecutive ones that may run in parallel do.
    async fn answer(mut self, calls: Vec<RequestedCall>) -> Result<Vec<ExecutedCall>, AgentError> {
        let mut done = Vec::with_capacity(calls.len());
        let tools = self.tools;
        let calls: Vec<_> =
            calls.into_iter().map(|call| UnderstoodCall::new(tools, call)).collect();
        for call in &calls {
            self.claim(call).await?;
        }
        let mut calls = calls.into_iter().peekable();
        while let Some(call) = calls.next() {
            let group = call.group();
            let mut batch = vec![call];
            if let Some((kind, most)) = group {
                let fits =
                    |next: &UnderstoodCall| next.group().is_some_and(|(other, _)| other == kind);
                while batch.len() < most
                    && let Some(next) = calls.next_if(fits)
                {
                    batch.push(next);
                }
            }
            let mut prepared = Vec::with_capacity(batch.len());
            for call in batch {
                let span = call.span.clone();
                // Boxed: a future in a span takes its room twice where it is made.
                prepared.push(Box::pin(self.prepare(call)).instrument(span).await?);
            }
            done.append(&mut self.run_batch(prepared).await?);
        }
        Ok(done)
    }

    /// Registers whether a call runs inside or outside, before any call runs: a result from outside may arrive at any
    /// time.
    async fn claim(&mut self, call: &UnderstoodCall) -> Result<(), AgentError> {
        let call_id = &call.call.id;
        if !self.pipeline.shared.calls.claim(call_id, call.run_by()) {
            return Ok(());
        }
        let text = format!(
            "a result for call {call_id} came from outside and is not used; this agent runs the call itself"
        );
        self.session.warn_user(text).await
    }

    /// Records the end of a call.
    pub(super) async fn record_end(&mut self, executed: &ExecutedCall) -> Result<(), AgentError> {
        self.record_work(executed);
        let end = AgentEvent::CallEnd {
            call_id: executed.id.clone(),
            reply_id: self.reply_id.clone(),
            tool: executed.name.clone(),
            result: executed.result.clone(),
            denial: executed.denial.clone(),
        };
        self.session.emit(end).await
    }

    /// Records what a call means for a later claim that the work is done. Calls about the session itself mean nothing.
    fn record_work(&self, executed: &ExecutedCall) {
        let tool = self.tools.get(&executed.name);
        let category = tool.map(|tool| tool.category());
        let kind = match category {
            Some(ToolCategory::Session) => return,
            // The calls of the subagent are recorded one by one.
            Some(ToolCategory::Agent | ToolCategory::Network | ToolCategory::External) | None => {
                WorkKind::Other
            }
            Some(ToolCategory::Read) => WorkKind::Look,
            Some(ToolCategory::Write) => WorkKind::Write,
            Some(ToolCategory::Execute) => WorkKind::Command,
        };
        let metadata = &executed.result.metadata;
        let status = match &executed.denial {
            Some(denial) if denial.source != DenialSource::User => WorkStatus::Refused,
            Some(_) => WorkStatus::Declined,
            None => WorkStatus::of(executed.result.status),
        };
        // Without snapshots only the tools that write say what they change.
        let is_write = kind == WorkKind::Write && status == WorkStatus::Succeeded;
        let is_unseen = is_write && self.session.context().snapshots.is_none();
        let has_changed_files = category != Some(ToolCategory::Agent)
            && (metadata.changes.is_some() || !metadata.files_modified.is_empty() || is_unseen);
        self.session.context().work.on_call(&WorkCall {
            title: work_title(executed),
            kind,
            status,
            changed_files: if has_changed_files {
                metadata.files_modified.clone()
            } else {
                Vec::new()
            },
            has_changed_files,
        });
    }

    /// Records the end of a call that does not run.
    pub(super) async fn record_answered(
        &mut self,
        executed: ExecutedCall,
    ) -> Result<PreparedCall, AgentError> {
        let (status, is_denied) = (executed.result.status, executed.denial.is_some());
        tracing::debug!(?status, is_denied, "call answered without running");
        self.record_end(&executed).await?;
        Ok(PreparedCall::Answered(Box::new(executed)))
    }
}

/// Returns the command line of a call, or its tool and the path that it is about.
fn work_title(executed: &ExecutedCall) -> String {
    let argument = |name| executed.arguments.get(name).and_then(Value::as_str);
    match (argument("command"), argument("path")) {
        (Some(command), _) => command.to_owned(),
        (None, Some(path)) => format!("{} {path}", executed.name),
        (None, None) => executed.name.clone(),
    }
}

/// Returns the result of a call whose end was not recorded.
fn interrupted(started: bool) -> ToolResult {
    let mut result = ToolResult::cancelled();
    result.output = if started {
        "The call was interrupted and its outcome is unknown: it may have ended, or still be running. Look at what it changed before you go on.".to_owned()
    } else {
        "The call was not run: the run was interrupted before it began.".to_owned()
    };
    result
}

/// A call with its resolved tool and arguments, or the reason why it is only answered.
pub(super) struct UnderstoodCall {
    pub(super) call: ToolCall,
    pub(super) meaning: Result<ResolvedCall, CallRejection>,
    /// The span of the call, from its preparation to its end.
    pub(super) span: Span,
}

/// The reason why a call is answered without running.
pub(super) enum CallRejection {
    /// The turn refuses it.
    Refused(String),
    /// The tool is unknown, or the arguments are invalid.
    Invalid(InvalidCall),
}

impl UnderstoodCall {
    fn new(tools: &ToolRegistry, request: RequestedCall) -> Self {
        let RequestedCall { call, refusal, note } = request;
        let mut meaning = match refusal {
            Some(reason) => Err(CallRejection::Refused(reason)),
            None => resolve(tools, &call).map_err(CallRejection::Invalid),
        };
        match (&mut meaning, note) {
            (Ok(resolved), Some(note)) => resolved.repairs.insert(0, note),
            (Err(CallRejection::Invalid(invalid)), Some(note)) => {
                invalid.message = format!("[{note}]\n{}", invalid.message);
            }
            (Err(CallRejection::Refused(_)), Some(_)) | (_, None) => {}
        }
        // The model chose id and name: as text values they are quoted and escaped in a log.
        let span = tracing::debug_span!("call", call = call.id.as_str(), tool = call.name);
        Self { call, meaning, span }
    }

    fn run_by(&self) -> RunBy {
        match &self.meaning {
            Ok(resolved) if resolved.tool.is_delegated() => RunBy::Outside,
            Ok(_) | Err(_) => RunBy::Inside,
        }
    }

    /// Returns the category of calls that this one may run in parallel with, and the maximum number of them. Waiting
    /// for slots is done by the agents themselves.
    fn group(&self) -> Option<(ToolCategory, usize)> {
        match self.meaning.as_ref().ok()?.tool.category() {
            ToolCategory::Read => Some((ToolCategory::Read, PARALLEL_READS)),
            ToolCategory::Agent => Some((ToolCategory::Agent, PARALLEL_AGENTS)),
            ToolCategory::Write
            | ToolCategory::Execute
            | ToolCategory::Network
            | ToolCategory::Session
            | ToolCategory::External => None,
        }
    }
}
