//! Driving an agent from outside.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
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
    pub(super) heard: Arc<AtomicBool>,
    pub(super) stream: Mutex<Option<mpsc::Receiver<Arc<Envelope>>>>,
}

impl Shared {
    pub(super) fn run_token(&self) -> CancellationToken {
        self.run_token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn begin_run(&self) -> CancellationToken {
        let token = self.session_token.child_token();
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
        self.send(InputMessage::UserInput { run_id: run_id.clone(), content })?;
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

    /// Cancels the run under way. Does nothing between runs.
    pub fn interrupt(&self) {
        self.shared.run_token().cancel();
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
        Some(EventStream::new(receiver))
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

/// What the runtime says when an agent function is over.
pub(super) fn last_event(error: &super::AgentError) -> AgentEvent {
    AgentEvent::Error { error: error.to_string(), provider: None }
}
