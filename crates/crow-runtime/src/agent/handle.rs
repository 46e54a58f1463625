//! Driving an agent from outside.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crow_core::{
    event::{AgentEvent, AgentState, Envelope, ParentCall},
    history::History,
    ids::{CallId, IdSource, RunId, SessionId},
    message::Block,
    tool::ToolResult,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{EventStream, HandleError, InputMessage};
use crate::{SessionError, SessionMetadata, SessionStore};

/// How many inputs may wait.
pub(super) const INPUT_QUEUE: usize = 16;

/// What handle and agent share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) id: SessionId,
    pub(super) parent: Option<ParentCall>,
    pub(super) state: watch::Sender<AgentState>,
    pub(super) ended: watch::Sender<bool>,
    pub(super) metadata: Mutex<SessionMetadata>,
    /// Cancelled by shutdown.
    pub(super) session_token: CancellationToken,
    /// Cancelled by interrupt; a new one for each run.
    pub(super) run_token: Mutex<CancellationToken>,
    /// The runs that wait in the queue: an interrupt cancels them too.
    pub(super) waiting: Mutex<Vec<(RunId, CancellationToken)>>,
    pub(super) missed: Arc<AtomicU64>,
    pub(super) heard: Arc<AtomicBool>,
    pub(super) stream: Mutex<Option<mpsc::Receiver<Arc<Envelope>>>>,
}

impl Shared {
    pub(super) fn run_token(&self) -> CancellationToken {
        self.run_token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the token that the run got when it was asked for.
    pub(super) fn begin_run(&self, id: &RunId) -> CancellationToken {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|(run, _)| run == id);
        let token = place
            .map_or_else(|| self.session_token.child_token(), |place| waiting.swap_remove(place).1);
        *self.run_token.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
        token
    }

    pub(super) fn metadata(&self) -> SessionMetadata {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Drives an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) input: mpsc::Sender<InputMessage>,
    pub(super) steering: mpsc::Sender<Vec<Block>>,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) ids: Arc<dyn IdSource>,
}

impl AgentHandle {
    /// Says something to the agent, which starts a run. Waits for nothing.
    pub fn send_input(&self, content: Vec<Block>) -> Result<RunId, HandleError> {
        let run_id = RunId::new(self.ids.next_id());
        let token = self.shared.session_token.child_token();
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.send(InputMessage::UserInput { run_id: run_id.clone(), content })?;
        waiting.push((run_id.clone(), token));
        Ok(run_id)
    }

    /// Gives the result of a call that was run outside.
    pub fn send_tool_result(&self, call_id: CallId, result: ToolResult) -> Result<(), HandleError> {
        self.send(InputMessage::ToolResult { call_id, result: Box::new(result) })
    }

    /// Says something to the agent in the middle of a run. It reads it before the next model call.
    pub fn steer(&self, content: Vec<Block>) -> Result<(), HandleError> {
        self.steering.try_send(content).map_err(|error| self.refusal(&error))
    }

    /// Cancels the run under way and those that wait in the queue.
    pub fn interrupt(&self) {
        self.shared.run_token().cancel();
        for (_, token) in self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            token.cancel();
        }
    }

    /// Cancels the run under way and ends the agent.
    pub fn shutdown(&self) {
        self.shared.session_token.cancel();
    }

    /// Waits until the agent has ended.
    pub async fn ended(&self) {
        let mut ended = self.shared.ended.subscribe();
        // An error means that the sender is gone, which is an end too.
        drop(ended.wait_for(|ended| *ended).await);
    }

    /// Takes the main stream, or none if it is taken.
    pub fn stream(&self) -> Option<EventStream> {
        let receiver = self.shared.stream.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.shared.heard.store(true, Ordering::Relaxed);
        Some(EventStream::new(receiver, Arc::clone(&self.shared.missed)))
    }

    /// Returns what the agent is doing.
    pub fn state(&self) -> AgentState {
        self.shared.state.borrow().clone()
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Reads the history from the session's log. Blocks.
    pub fn history(&self) -> Result<History, SessionError> {
        let stored = self.store.read(&self.shared.id)?;
        History::from_log(&stored.events)
            .map_err(|source| SessionError::Inconsistent { id: self.shared.id.clone(), source })
    }

    /// Returns the session's header.
    pub fn metadata(&self) -> SessionMetadata {
        self.shared.metadata()
    }

    /// Returns what started the session, for a child.
    pub fn parent_info(&self) -> Option<&ParentCall> {
        self.shared.parent.as_ref()
    }

    /// Returns the sessions that this one started.
    pub fn child_sessions(&self) -> Vec<SessionId> {
        self.metadata().child_session_ids
    }

    fn send(&self, message: InputMessage) -> Result<(), HandleError> {
        self.input.try_send(message).map_err(|error| self.refusal(&error))
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
    shared: Arc<Shared>,
    input: mpsc::WeakSender<InputMessage>,
    steering: mpsc::WeakSender<Vec<Block>>,
    store: Arc<dyn SessionStore>,
    ids: Arc<dyn IdSource>,
}

impl WeakHandle {
    pub(super) fn new(handle: &AgentHandle) -> Self {
        Self {
            shared: Arc::clone(&handle.shared),
            input: handle.input.downgrade(),
            steering: handle.steering.downgrade(),
            store: Arc::clone(&handle.store),
            ids: Arc::clone(&handle.ids),
        }
    }

    pub(super) fn upgrade(&self) -> Option<AgentHandle> {
        Some(AgentHandle {
            shared: Arc::clone(&self.shared),
            input: self.input.upgrade()?,
            steering: self.steering.upgrade()?,
            store: Arc::clone(&self.store),
            ids: Arc::clone(&self.ids),
        })
    }
}

/// What the runtime says when an agent function is over.
pub(super) fn last_event(error: &super::AgentError) -> AgentEvent {
    AgentEvent::Error { error: error.to_string(), provider: None }
}
