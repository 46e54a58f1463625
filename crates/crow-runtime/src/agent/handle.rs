//! Handles that control an agent from outside.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    capability::{PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest},
    event::{AgentEvent, AgentState, RunOutcome},
    history::History,
    ids::{CallId, RequestId, RunId, SessionId},
    message::{Block, UserPrompt},
    model::ModelRef,
    redact::Redactor,
    tool::ToolResult,
    usage::TokenUsage,
};
use tokio::sync::mpsc;

use super::observer::{ObserveFrom, Observer, OneAgent};
use super::{
    HandleError, InputMessage, SessionHeader, SessionPermissions, agent_shared::AgentShared,
};
use crate::{
    Sandbox, SnapshotStore, SnapshotStoreError,
    changes::Leases,
    config::RuntimeConfig,
    delegated_calls::CallNotOpen,
    events::EventStream,
    pending_questions::AnswerError,
    session::{Damage, SessionError, SessionMetadata},
    undo::{RunningAgent, UndoError, UndoJournal},
};

/// Capacity of the input queue, and of the steering queue.
pub(super) const INPUT_QUEUE: usize = 16;

/// The results of an agent that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEnd {
    /// Its session.
    pub session_id: SessionId,
    /// The error, if it failed.
    pub result: Result<(), String>,
    /// Outcome of its last run, if it had one.
    pub run: Option<RunOutcome>,
    /// The text of its last reply, or its summary of the completed task.
    pub text: String,
    /// The files changed by its calls and by the agents that it drove, each once.
    pub files_modified: Vec<PathBuf>,
    /// Their token usage since it was spawned.
    pub usage: TokenUsage,
}

impl AgentEnd {
    /// Returns the final answer: the non-empty summary of a completed last run (which may come from an agent that this
    /// one drove), otherwise `text`.
    pub fn answer(&self) -> &str {
        match &self.run {
            Some(RunOutcome::Completed { summary, .. }) if !summary.is_empty() => summary,
            Some(_) | None => &self.text,
        }
    }
}

/// A handle that controls an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    pub(super) shared: Arc<AgentShared>,
    pub(super) input: mpsc::Sender<InputMessage>,
    pub(super) config: Arc<RuntimeConfig>,
    pub(super) leases: Arc<Leases>,
}

impl AgentHandle {
    /// Sends a prompt to the agent, which starts a run. Does not wait.
    pub fn send_input(&self, content: Vec<Block>) -> Result<RunId, HandleError> {
        self.send_prompt(content.into())
    }

    /// Sends a prompt that may contain commands, which starts a run. Does not wait.
    pub fn send_prompt(&self, prompt: UserPrompt) -> Result<RunId, HandleError> {
        let UserPrompt { content, commands } = prompt;
        self.start_run(|run_id| InputMessage::UserInput { run_id, content, commands })
    }

    /// Asks the agent to compact its conversation, which is a run of its own. `focus` is what is to be kept above all.
    /// Does not wait. A loop of your own must serve [`InputMessage::Compaction`].
    pub fn compact(&self, focus: Option<String>) -> Result<RunId, HandleError> {
        self.start_run(|run_id| InputMessage::Compaction { run_id, focus })
    }

    /// Sends a message in the middle of a run: the agent reads it before the next model call. Between runs it starts
    /// one.
    ///
    /// A message that is unread when the run is interrupted starts no run: it is put before the prompt of the next one,
    /// unless it is [taken back](Self::take_back_steering).
    pub fn steer(&self, content: Vec<Block>) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        let to_full = |_| HandleError::Full { capacity: INPUT_QUEUE };
        self.shared.steer(content).map_err(to_full)
    }

    /// Takes back the unread messages sent by [`steer`](Self::steer), oldest first: the agent will not read them.
    pub fn take_back_steering(&self) -> Vec<Vec<Block>> {
        self.shared.runs().take_steering()
    }

    /// Delivers the result of a call that was executed outside: to the call, which may not wait for it yet, or to a
    /// loop that executes calls itself. Each call accepts one result.
    pub fn send_tool_result(&self, call_id: CallId, result: ToolResult) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        let delivered = self.shared.calls.deliver(&call_id, result);
        delivered.map_err(|CallNotOpen| HandleError::CallNotOpen { call_id })
    }

    /// Answers the permission question of a call, of any agent of the root session. The first answer counts. An answer
    /// that allows more than was offered is refused.
    pub fn answer(&self, id: &RequestId, answer: PermissionAnswer) -> Result<(), AnswerError> {
        self.shared.tree.answers.answer(id, answer)
    }

    /// Returns the unanswered permission questions of all agents of the root session.
    pub fn open_questions(&self) -> Vec<PermissionRequest> {
        self.shared.tree.answers.list()
    }

    /// Answers a question to the user from any agent of the root session. The first answer counts. An answer that the
    /// question does not accept is refused, see [`UserQuestion::accepts`](crow_core::capability::UserQuestion::accepts).
    pub fn answer_question(
        &self,
        id: &RequestId,
        answer: QuestionAnswer,
    ) -> Result<(), AnswerError> {
        self.shared.tree.questions.answer(id, answer)
    }

    /// Returns the unanswered user questions of all agents of the root session, oldest first.
    pub fn open_user_questions(&self) -> Vec<QuestionRequest> {
        self.shared.tree.questions.list()
    }

    /// Cancels the run under way and the queued ones. Unread steering messages start no run, see
    /// [`steer`](Self::steer).
    pub fn interrupt(&self) {
        self.shared.runs().interrupt();
        if *self.shared.state.borrow() != AgentState::Idle
            && let Some(recorder) = self.shared.recorder.upgrade()
        {
            recorder.try_emit_unlogged(AgentEvent::Cancelling);
        }
    }

    /// Cancels only this run, under way or queued. Returns false if there is no such run.
    pub fn cancel_run(&self, id: &RunId) -> bool {
        let cancelled = self.shared.runs().cancel(id);
        if cancelled == Some(true)
            && let Some(recorder) = self.shared.recorder.upgrade()
        {
            recorder.try_emit_unlogged(AgentEvent::Cancelling);
        }
        cancelled.is_some()
    }

    /// Cancels the run under way and asks the agent to end.
    pub fn shutdown(&self) {
        self.shared.session_token.cancel();
    }

    /// Ends an agent by force, at its next await point. Its pending work is dropped; its session is sealed all the
    /// same.
    pub fn abort(&self) {
        self.shared.session_token.cancel();
        self.shared.abort_token.cancel();
    }

    /// Waits until the agent has ended, and returns its results.
    pub async fn wait_for_end(&self) -> Arc<AgentEnd> {
        let mut end = self.shared.end.subscribe();
        let ended = end.wait_for(Option::is_some).await;
        match ended.map(|end| end.clone()) {
            Ok(Some(end)) => end,
            // Unreachable: the sender lives as long as this handle, and `wait_for` does not return on `None`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Takes the main stream, which is complete as long as it is read. `None` if it was taken before, and for a child,
    /// whose events are in the stream of its root.
    pub fn stream(&self) -> Option<EventStream> {
        if self.shared.depth > 0 {
            return None;
        }
        self.shared.tree.outlet.take_stream()
    }

    /// Observes the agent from now on, without slowing it down. The handle of a root also observes its descendants.
    pub fn subscribe(&self) -> Observer {
        self.observe(ObserveFrom::Now)
    }

    /// Observes the agent from the first durable event after number `seq`; 0 starts with the session.
    pub fn subscribe_after(&self, seq: u64) -> Observer {
        self.observe(ObserveFrom::After(seq))
    }

    /// Returns the number of the last durable event of the root session.
    pub fn last_seq(&self) -> u64 {
        self.shared.tree.root.with_last_seq(|now| now)
    }

    /// Returns the state of the agent.
    pub fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    /// Returns true if both handles control the same agent. A session that was closed and reopened has another agent.
    pub fn is_same_agent(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns true if [`wait_for_end`](Self::wait_for_end) would return at once.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.end.borrow().is_some()
    }

    /// Returns the session id.
    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the number of bytes of a torn last line that were cut off when the session was opened.
    pub fn torn_bytes(&self) -> usize {
        self.shared.torn_bytes
    }

    /// Returns the damage found when the session was opened.
    pub fn damage(&self) -> &Damage {
        &self.shared.damage
    }

    /// Reads the history from the session's log. Blocks.
    pub fn history(&self) -> Result<History, SessionError> {
        let mut stored = self.config.store.read(&self.shared.id)?;
        stored
            .fold()
            .map_err(|source| SessionError::Inconsistent { id: self.shared.id.clone(), source })
    }

    /// Returns the session header.
    pub fn metadata(&self) -> SessionMetadata {
        self.shared.metadata().clone()
    }

    /// Returns the session header, which can be changed through it.
    pub fn header(&self) -> &SessionHeader {
        &self.shared.header
    }

    /// Returns the permissions of all agents of this root session.
    pub fn permissions(&self) -> SessionPermissions<'_> {
        SessionPermissions(&self.shared)
    }

    /// Returns the input tokens of the last model request of this agent; 0 before the first one.
    pub fn context_tokens(&self) -> u64 {
        self.shared.outcome().context_tokens
    }

    /// Returns the token usage per model of all agents of this root session, including earlier processes.
    pub fn spent(&self) -> Vec<(ModelRef, TokenUsage)> {
        self.shared.tree.spent()
    }

    /// Returns the part of the budget of the run under way, or of the last one, that is used; 1 is all of it. Of several
    /// limits the one that is used most counts. Returns `None` if nothing is limited.
    pub fn used_budget(&self) -> Option<f64> {
        self.shared.budget().used_part(self.config.clock.monotonic())
    }

    /// Opens the undo journal of this root session. An undo through it waits for its turn to change files, and the
    /// agent is notified before its next model call. Blocks.
    pub fn undo_journal(&self) -> Result<UndoJournal, UndoError> {
        let agent = Box::new(self.clone());
        UndoJournal::of_agent(&self.config, self.root_id(), agent, Arc::clone(&self.leases))
    }

    /// Returns the snapshot store of the session's workspace; `None` if nothing is captured. Blocks.
    pub fn snapshot_store(&self) -> Result<Option<Arc<SnapshotStore>>, SnapshotStoreError> {
        let Some(stores) = &self.config.snapshots else { return Ok(None) };
        stores.open_workspace(&self.metadata().crow().workspace()).map(Some)
    }

    /// Returns the redactor, for texts that do not come from events.
    pub fn redactor(&self) -> &Redactor {
        &self.config.redactor
    }

    /// Returns the id of the root session, which users see.
    pub(crate) fn root_id(&self) -> &SessionId {
        self.shared.tree.root.id()
    }

    fn observe(&self, from: ObserveFrom) -> Observer {
        let only = (self.shared.depth > 0)
            .then(|| OneAgent::new(self.shared.id.clone(), self.shared.end.subscribe()));
        Observer::new(Arc::clone(&self.shared.tree), Arc::clone(&self.config.store), only, from)
    }

    /// Sends a message that starts a run, and registers the run.
    fn start_run(&self, message: impl FnOnce(RunId) -> InputMessage) -> Result<RunId, HandleError> {
        let run_id = RunId::new(self.config.ids.next_id());
        let token = self.shared.session_token.child_token();
        // The run is registered before the agent can take its input: `runs` stays locked meanwhile.
        let mut runs = self.shared.runs();
        self.send(message(run_id.clone()))?;
        runs.register(run_id.clone(), token);
        Ok(run_id)
    }

    fn send(&self, message: InputMessage) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        self.input.try_send(message).map_err(|error| refusal(&error, &self.shared.id))
    }

    /// Fails if the agent has ended or was shut down: input sent now would never be read.
    fn refuse_after_end(&self) -> Result<(), HandleError> {
        let is_over = || self.input.is_closed() || self.shared.state.borrow().is_end();
        if self.shared.session_token.is_cancelled() || is_over() {
            return Err(HandleError::Ended { id: self.shared.id.clone() });
        }
        Ok(())
    }
}

/// Returns the error for a message that the queue of an agent does not take.
fn refusal<T>(error: &mpsc::error::TrySendError<T>, agent: &SessionId) -> HandleError {
    match error {
        mpsc::error::TrySendError::Full(_) => HandleError::Full { capacity: INPUT_QUEUE },
        mpsc::error::TrySendError::Closed(_) => HandleError::Ended { id: agent.clone() },
    }
}

impl RunningAgent for AgentHandle {
    fn is_idle(&self) -> bool {
        self.shared.runs().is_idle()
    }

    fn sandbox(&self) -> Option<&Sandbox> {
        self.shared.tree.sandbox.as_deref()
    }

    fn notify_undo(&self) {
        self.shared.tree.undo_recorded.notify_one();
    }
}

/// A handle that does not keep the agent running: an agent ends when no [`AgentHandle`] is left.
#[derive(Debug)]
pub(super) struct WeakHandle {
    shared: Arc<AgentShared>,
    input: mpsc::WeakSender<InputMessage>,
    config: Arc<RuntimeConfig>,
    leases: Arc<Leases>,
}

impl WeakHandle {
    pub(super) fn new(handle: &AgentHandle) -> Self {
        Self {
            shared: Arc::clone(&handle.shared),
            input: handle.input.downgrade(),
            config: Arc::clone(&handle.config),
            leases: Arc::clone(&handle.leases),
        }
    }

    pub(super) fn shared(&self) -> &Arc<AgentShared> {
        &self.shared
    }

    pub(super) fn upgrade(&self) -> Option<AgentHandle> {
        Some(AgentHandle {
            shared: Arc::clone(&self.shared),
            input: self.input.upgrade()?,
            config: Arc::clone(&self.config),
            leases: Arc::clone(&self.leases),
        })
    }
}
