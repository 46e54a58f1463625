//! Spawning agents and ending them.

use std::{
    collections::HashMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    },
    time::Duration,
};

use crow_core::{event::AgentState, ids::SessionId};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    AgentError, AgentHandle, AgentInternals, Recorder,
    handle::{INPUT_QUEUE, Shared, WeakHandle, last_event},
    internals::Parts,
    panic::panic_message,
};
use crate::{AgentSession, RuntimeConfig};

/// How many events may wait in the main stream.
const EVENT_QUEUE: usize = 1024;

/// Spawns agents and owns their tasks.
#[derive(Debug, Clone)]
pub struct AgentRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Arc<RuntimeConfig>,
    agents: Mutex<HashMap<SessionId, WeakHandle>>,
    tasks: TaskTracker,
    token: CancellationToken,
}

impl AgentRuntime {
    /// Makes a runtime.
    pub fn new(config: RuntimeConfig) -> Self {
        let inner = Inner {
            config: Arc::new(config),
            agents: Mutex::new(HashMap::new()),
            tasks: TaskTracker::new(),
            token: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns what the runtime is made of.
    pub fn config(&self) -> &Arc<RuntimeConfig> {
        &self.inner.config
    }

    /// Starts an agent in a session.
    pub fn spawn<F, Fut>(&self, session: AgentSession, agent: F) -> AgentHandle
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let (listener, stream) = mpsc::channel(EVENT_QUEUE);
        let (input, input_rx) = mpsc::channel(INPUT_QUEUE);
        let (steering, steering_rx) = mpsc::channel(INPUT_QUEUE);
        let heard = Arc::new(AtomicBool::new(false));
        let missed = Arc::new(AtomicU64::new(0));
        let session_token = self.inner.token.child_token();
        let metadata = session.metadata.clone();
        let shared = Arc::new(Shared {
            id: metadata.session_id.clone(),
            parent: metadata.parent(),
            state: watch::Sender::new(AgentState::Idle),
            ended: watch::Sender::new(false),
            run_token: Mutex::new(session_token.child_token()),
            session_token,
            waiting: Mutex::new(Vec::new()),
            missed: Arc::clone(&missed),
            heard: Arc::clone(&heard),
            stream: Mutex::new(Some(stream)),
            metadata: Mutex::new(metadata.clone()),
        });
        let crow = metadata.crow();
        let recorder = Arc::new(Recorder {
            session_id: metadata.session_id.clone(),
            agent: metadata.agent_type.clone(),
            role: crow.role,
            parent: metadata.parent(),
            round: AtomicU32::new(0),
            root: session.root,
            clock: Arc::clone(&self.inner.config.clock),
            log: Mutex::new(session.log),
            listener,
            heard,
            stalled: AtomicBool::new(false),
            missed: Arc::clone(&missed),
        });
        let handle = AgentHandle {
            shared: Arc::clone(&shared),
            input,
            steering,
            store: Arc::clone(&self.inner.config.store),
            ids: Arc::clone(&self.inner.config.ids),
        };
        let internals = AgentInternals::new(Parts {
            config: Arc::clone(&self.inner.config),
            shared: Arc::clone(&shared),
            recorder: Arc::clone(&recorder),
            history: session.history,
            abilities: session.abilities,
            file_views: session.file_views,
            todo: session.todo,
            shell_folder: session.shell_folder,
            input: input_rx,
            steering: steering_rx,
            tasks: self.inner.tasks.clone(),
        });
        self.agents().insert(shared.id.clone(), WeakHandle::new(&handle));
        let runtime = Arc::downgrade(&self.inner);
        self.inner.tasks.spawn(async move {
            let result = run_caught(agent, internals).await;
            seal(&shared, &recorder, result).await;
            if let Some(inner) = runtime.upgrade() {
                inner.agents.lock().unwrap_or_else(PoisonError::into_inner).remove(&shared.id);
            }
            drop(recorder);
            shared.ended.send_replace(true);
        });
        handle
    }

    /// Returns the handle of a running agent.
    pub fn get(&self, id: &SessionId) -> Option<AgentHandle> {
        self.agents().get(id).and_then(WeakHandle::upgrade)
    }

    /// Returns whether an agent runs in that session.
    pub fn is_running(&self, id: &SessionId) -> bool {
        self.agents().contains_key(id)
    }

    /// Returns the sessions in which agents run.
    pub fn list_active(&self) -> Vec<SessionId> {
        self.agents().keys().cloned().collect()
    }

    /// Ends the agent of a session and waits for it.
    pub async fn shutdown(&self, id: &SessionId) {
        let handle = self.get(id);
        if let Some(handle) = handle {
            handle.shutdown();
            handle.ended().await;
        }
    }

    /// Ends all agents and waits for all tasks. Returns the sessions whose agents had not ended by the deadline.
    pub async fn shutdown_all(&self, deadline: Duration) -> Vec<SessionId> {
        self.inner.token.cancel();
        self.inner.tasks.close();
        match tokio::time::timeout(deadline, self.inner.tasks.wait()).await {
            Ok(()) => Vec::new(),
            Err(_) => self.list_active(),
        }
    }

    fn agents(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, WeakHandle>> {
        self.inner.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the agent function; a panic in it becomes an error.
async fn run_caught<F, Fut>(agent: F, internals: AgentInternals) -> Result<(), AgentError>
where
    F: FnOnce(AgentInternals) -> Fut,
    Fut: Future<Output = Result<(), AgentError>>,
{
    let caught = AssertUnwindSafe(async move { agent(internals).await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| {
        Err(AgentError::Panicked { message: panic_message(panic.as_ref()) })
    })
}

/// Says how it ended: in the log, in the stream and in the state.
async fn seal(shared: &Shared, recorder: &Recorder, result: Result<(), AgentError>) {
    let state = match result {
        Ok(()) | Err(AgentError::Closed | AgentError::Cancelled) => AgentState::Done,
        Err(error) => {
            let event = last_event(&error);
            let envelope =
                recorder.write(event.clone()).unwrap_or_else(|_| recorder.unlogged(event));
            recorder.send(envelope, &shared.session_token).await;
            AgentState::Error(error.to_string())
        }
    };
    shared.state.send_replace(state.clone());
    let change = recorder.unlogged(crow_core::event::AgentEvent::StateChange { state });
    recorder.send(change, &shared.session_token).await;
}
