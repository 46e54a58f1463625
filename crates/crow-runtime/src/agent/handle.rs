//! Driving an agent from outside.

use std::{path::PathBuf, sync::Arc};

use crow_core::{
    capability::{PermissionAnswer, PermissionRequest, QuestionAnswer, QuestionRequest},
    event::{AgentEvent, AgentState, ParentCall, RunOutcome},
    history::History,
    ids::{CallId, RequestId, RunId, SessionId},
    message::Block,
    model::ModelRef,
    permission::{PermissionMode, PermissionPolicy},
    redact::Redactor,
    tool::ToolResult,
    usage::TokenUsage,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{HandleError, InputMessage, agent_shared::AgentShared};
use crate::{
    OpenedWith, Sandbox, SnapshotStore, SnapshotStoreError,
    changes::Leases,
    config::RuntimeConfig,
    events::{EventStream, ObserveFrom, Observer, OneAgent},
    outside_calls::NotOpen,
    pending_questions::AnswerError,
    session::{Damage, SessionError, SessionMetadata},
    undo::{UndoError, UndoJournal},
};

/// How many inputs may wait.
pub(super) const INPUT_QUEUE: usize = 16;

/// What came of an agent that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEnd {
    /// Its session.
    pub session_id: SessionId,
    /// Why it failed, if it did.
    pub result: Result<(), String>,
    /// How its last run ended, if it had one.
    pub run: Option<RunOutcome>,
    /// Its last words: those of its last reply, or what it said about the task when it was done.
    pub text: String,
    /// The files that its calls changed, and those of the agents that it drove, each once.
    pub files_modified: Vec<PathBuf>,
    /// The tokens that they used since it was spawned.
    pub usage: TokenUsage,
}

impl AgentEnd {
    /// Returns what the agent came to: its last words, or what another one said that it drives and that had the last word.
    pub fn answer(&self) -> &str {
        match &self.run {
            Some(RunOutcome::Completed { summary, .. }) if !summary.is_empty() => summary,
            Some(_) | None => &self.text,
        }
    }
}

/// Drives an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    pub(super) shared: Arc<AgentShared>,
    pub(super) input: mpsc::Sender<InputMessage>,
    pub(super) config: Arc<RuntimeConfig>,
    pub(super) leases: Arc<Leases>,
}

impl AgentHandle {
    /// Says something to the agent, which starts a run. Waits for nothing.
    pub fn send_input(&self, content: Vec<Block>) -> Result<RunId, HandleError> {
        let run_id = RunId::new(self.config.ids.next_id());
        let token = self.shared.session_token.child_token();
        // The run is known before the agent can take its input.
        let mut runs = self.shared.runs();
        self.send(InputMessage::UserInput { run_id: run_id.clone(), content })?;
        runs.ask_for(run_id.clone(), token);
        Ok(run_id)
    }

    /// Says something in the middle of a run: the agent reads it before the next model call. Between runs it starts one.
    ///
    /// What an interrupt finds unread starts no run: it stands before the words of the next one, unless it is
    /// [taken back](Self::take_back_steering).
    pub fn steer(&self, content: Vec<Block>) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        let full = |_| HandleError::Full { capacity: INPUT_QUEUE };
        self.shared.steer(content).map_err(full)
    }

    /// Takes back what was said by [`steer`](Self::steer) and is unread, the oldest first: the agent will not read it.
    pub fn take_back_steering(&self) -> Vec<Vec<Block>> {
        self.shared.runs().take_steering()
    }

    /// Gives the result of a call that was run outside: to the call, which may not wait for it yet, or to a loop that
    /// runs calls by its own means. Each call takes one result.
    pub fn send_tool_result(&self, call_id: CallId, result: ToolResult) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        let delivered = self.shared.calls.deliver(&call_id, result);
        delivered.map_err(|NotOpen| HandleError::CallNotOpen { call_id })
    }

    /// Answers a question about a call, of this agent or of another one of the same root session. The first answer
    /// counts. One that allows what was not offered is refused.
    pub fn answer(&self, id: &RequestId, answer: PermissionAnswer) -> Result<(), AnswerError> {
        self.shared.tree.answers.answer(id, answer)
    }

    /// Returns the questions about calls that wait for an answer, of all agents of the root session.
    pub fn open_questions(&self) -> Vec<PermissionRequest> {
        self.shared.tree.answers.list()
    }

    /// Answers what an agent of this root session asks the user. The first answer counts. One that the question does not
    /// take is refused, see [`UserQuestion::takes`](crow_core::capability::UserQuestion::takes).
    pub fn answer_question(
        &self,
        id: &RequestId,
        answer: QuestionAnswer,
    ) -> Result<(), AnswerError> {
        self.shared.tree.questions.answer(id, answer)
    }

    /// Returns what the agents of the root session ask the user and nobody has answered, the oldest first.
    pub fn open_user_questions(&self) -> Vec<QuestionRequest> {
        self.shared.tree.questions.list()
    }

    /// Cancels the run under way and those that wait in the queue. What was said in the middle of them and is unread
    /// starts no run, see [`steer`](Self::steer).
    pub fn interrupt(&self) {
        self.shared.runs().interrupt();
        if *self.shared.state.borrow() != AgentState::Idle
            && let Some(recorder) = self.shared.recorder.upgrade()
        {
            recorder.tell_now(AgentEvent::Cancelling);
        }
    }

    /// Cancels one run, under way or in the queue, and no other. Returns whether there is such a run.
    pub fn cancel_run(&self, id: &RunId) -> bool {
        let cancelled = self.shared.runs().cancel(id);
        if cancelled == Some(true)
            && let Some(recorder) = self.shared.recorder.upgrade()
        {
            recorder.tell_now(AgentEvent::Cancelling);
        }
        cancelled.is_some()
    }

    /// Cancels the run under way and ends the agent.
    pub fn shutdown(&self) {
        self.shared.session_token.cancel();
    }

    /// Ends an agent that does not end by itself, at the next point where it waits. What it was about to do is not done;
    /// its session is sealed all the same.
    pub fn abort(&self) {
        self.shared.session_token.cancel();
        self.shared.abort_token.cancel();
    }

    /// Waits until the agent has ended, and returns what came of it.
    pub async fn ended(&self) -> Arc<AgentEnd> {
        let mut end = self.shared.end.subscribe();
        let ended = end.wait_for(Option::is_some).await;
        match ended.map(|end| end.clone()) {
            Ok(Some(end)) => end,
            // Neither happens: the sender lives as long as this handle, and none is not waited for.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Takes the one main stream, in which nothing is missing as long as it is read; none if it is taken, and for a child:
    /// its events are in the stream of its root.
    pub fn stream(&self) -> Option<EventStream> {
        if self.shared.depth > 0 {
            return None;
        }
        self.shared.tree.outlet.take_stream()
    }

    /// Watches the agent from here on, without holding it up. On a root's handle the agents below are watched too.
    pub fn subscribe(&self) -> Observer {
        self.observe(ObserveFrom::Now)
    }

    /// Watches the agent beginning with the first durable event after that number; 0 begins with the session.
    pub fn subscribe_after(&self, seq: u64) -> Observer {
        self.observe(ObserveFrom::After(seq))
    }

    /// Returns the number of the last durable event of the root session.
    pub fn last_seq(&self) -> u64 {
        self.shared.tree.root.between(|now| now)
    }

    /// Returns what the agent is doing.
    pub fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    /// Returns whether both drive the same agent. One of a session that was closed and opened again is another one.
    pub fn is_same_agent(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns whether [`ended`](Self::ended) would return at once.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.end.borrow().is_some()
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns how many bytes of a torn last line were cut off when the session was opened.
    pub fn torn_bytes(&self) -> usize {
        self.shared.torn_bytes
    }

    /// Returns what of the session was found damaged when it was opened.
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

    /// Returns the session's header.
    pub fn metadata(&self) -> SessionMetadata {
        self.shared.metadata().clone()
    }

    /// Gives the session a title. Blocks.
    pub fn set_title(&self, title: &str) -> Result<(), SessionError> {
        self.change_metadata(|metadata| {
            let mut crow = metadata.crow();
            title.clone_into(&mut crow.title);
            metadata.set_crow(&crow);
            Ok(())
        })
    }

    /// Keeps in the session's header with what its agent is opened again. Blocks.
    pub fn set_opened_with(&self, with: OpenedWith) -> Result<(), SessionError> {
        self.change_metadata(|metadata| {
            let mut crow = metadata.crow();
            crow.set_opened_with(with);
            metadata.set_crow(&crow);
            Ok(())
        })
    }

    /// Returns how many tokens the model of this agent was sent last; 0 before the first time.
    pub fn context_tokens(&self) -> u64 {
        self.shared.outcome().context_tokens
    }

    /// Returns what each model was asked for by all agents of this root session, also in earlier processes.
    pub fn spent(&self) -> Vec<(ModelRef, TokenUsage)> {
        self.shared.tree.spent()
    }

    /// Keeps a value of the program's own in the session's header. Blocks.
    pub fn set_metadata(&self, key: &str, value: Value) -> Result<(), SessionError> {
        self.change_metadata(|metadata| Ok(metadata.set(key, value)?))
    }

    fn change_metadata(
        &self,
        change: impl FnOnce(&mut SessionMetadata) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let Some(recorder) = self.shared.recorder.upgrade() else {
            return Err(SessionError::Closed { id: self.shared.id.clone() });
        };
        // Written under the lock: of two changes the later one is written last.
        let mut metadata = self.shared.metadata();
        change(&mut metadata)?;
        recorder.save_metadata(&metadata)
    }

    /// Returns what started the session, for a child.
    pub fn parent_info(&self) -> Option<&ParentCall> {
        self.shared.parent.as_ref()
    }

    /// Returns the sessions that this one started.
    pub fn child_sessions(&self) -> Vec<SessionId> {
        self.shared.metadata().child_session_ids.clone()
    }

    /// Returns what is permitted to the agents of this root session.
    pub fn policy(&self) -> PermissionPolicy {
        self.shared.tree.with_policy(PermissionPolicy::clone)
    }

    /// Sets what happens to calls of which no rule speaks, from the next call on, for all agents of this root session.
    ///
    /// The root's handle also keeps it in the session's header, where it holds for the session when it is opened again.
    /// It holds for now even if the header cannot be written. Blocks.
    pub fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), SessionError> {
        self.shared.tree.change_policy(|policy| policy.set_mode(mode));
        if self.shared.depth > 0 {
            return Ok(());
        }
        self.change_metadata(|metadata| {
            metadata.set_permission_mode(Some(mode));
            Ok(())
        })
    }

    /// Takes back what was allowed for the rest of the session: it is asked about again, also after a resume. Blocks.
    pub fn forget_grants(&self) -> Result<(), SessionError> {
        let tree = &self.shared.tree;
        tree.change_policy(|policy| policy.clear_session_rules(tree.root.id()));
        let forgotten = tree.root.between(|last| last);
        self.change_metadata(|metadata| {
            let mut crow = metadata.crow();
            crow.grants_forgotten = forgotten;
            metadata.set_crow(&crow);
            Ok(())
        })
    }

    /// Reads what the agents of this root session changed and what was undone of it. What is undone through it waits
    /// for its turn to change files, and the agent is told before its model is asked again. Blocks.
    pub fn undo_journal(&self) -> Result<UndoJournal, UndoError> {
        UndoJournal::of_agent(&self.config, self.clone(), Arc::clone(&self.leases))
    }

    /// Returns the store of what the files of the session's roots were; none if nothing is captured. Blocks.
    pub fn snapshot_store(&self) -> Result<Option<Arc<SnapshotStore>>, SnapshotStoreError> {
        let Some(stores) = &self.config.snapshots else { return Ok(None) };
        stores.of_workspace(&self.metadata().crow().workspace()).map(Some)
    }

    /// Returns what takes known secrets out of texts that come from elsewhere than the events.
    pub fn redactor(&self) -> &Redactor {
        &self.config.redactor
    }

    /// Returns what holds the commands of this root session.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.shared.tree.sandbox.as_deref()
    }

    /// Wakes the agent, so that it tells of what was undone.
    pub(crate) fn tell_undone(&self) {
        self.shared.tree.undone.notify_one();
    }

    /// Returns whether the agent is between runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.runs().is_idle()
    }

    /// Returns the session that the user knows.
    pub(crate) fn root_id(&self) -> &SessionId {
        self.shared.tree.root.id()
    }

    fn observe(&self, from: ObserveFrom) -> Observer {
        let only = (self.shared.depth > 0)
            .then(|| OneAgent::new(self.shared.id.clone(), self.shared.end.subscribe()));
        Observer::new(Arc::clone(&self.shared.tree), Arc::clone(&self.config.store), only, from)
    }

    fn send(&self, message: InputMessage) -> Result<(), HandleError> {
        self.refuse_after_end()?;
        self.input.try_send(message).map_err(|error| self.refusal(&error))
    }

    /// What is sent after shutdown would be taken by nobody.
    fn refuse_after_end(&self) -> Result<(), HandleError> {
        let is_over = || self.input.is_closed() || self.shared.state.borrow().is_end();
        if self.shared.session_token.is_cancelled() || is_over() {
            return Err(HandleError::Ended { id: self.shared.id.clone() });
        }
        Ok(())
    }

    fn refusal<T>(&self, error: &mpsc::error::TrySendError<T>) -> HandleError {
        match error {
            mpsc::error::TrySendError::Full(_) => HandleError::Full { capacity: INPUT_QUEUE },
            mpsc::error::TrySendError::Closed(_) => {
                HandleError::Ended { id: self.shared.id.clone() }
            }
        }
    }
}

/// A handle that keeps nothing alive: an agent that nobody can reach any more ends.
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
