//! From a session to a running agent, and from its end to a sealed session.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, Weak},
};

use crow_core::event::{AgentEvent, AgentState};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentError, AgentHandle, AgentInternals,
    children::{Parent, end_children},
    handle::{INPUT_QUEUE, WeakHandle},
    internals::Parts,
    panic::panic_message,
    runtime::Inner,
    shared::{Outcome, Runs, Shared},
};
use crate::{AgentSession, events::Recorder, outside::CallDesk, tree::Tree};

/// Where an agent stands among the others.
pub(super) struct Place {
    pub tree: Arc<Tree>,
    /// How many agents stand above it.
    pub depth: usize,
    /// The agent that started it.
    pub parent: Option<Parent>,
}

/// An agent that is about to run.
pub(super) struct Launch {
    runtime: Weak<Inner>,
    tasks: tokio_util::task::TaskTracker,
    pub(super) shared: Arc<Shared>,
    recorder: Arc<Recorder>,
    parent: Option<Parent>,
    pub(super) internals: AgentInternals,
}

impl Launch {
    /// Puts an agent and its handle together. Nobody knows of it yet.
    pub(super) fn new(
        inner: &Arc<Inner>,
        session: AgentSession,
        place: Place,
        session_token: CancellationToken,
    ) -> (Self, AgentHandle) {
        let Place { tree, depth, parent } = place;
        let config = &inner.config;
        let torn_bytes = session.torn_bytes();
        let (input, input_rx) = mpsc::channel(INPUT_QUEUE);
        let (steering, steering_rx) = mpsc::channel(INPUT_QUEUE);
        let recorder = Arc::new(Recorder::new(
            &session.metadata,
            Arc::clone(&tree),
            Arc::clone(&config.clock),
            session.log,
        ));
        let runs = Runs { current: session_token.child_token(), waiting: Vec::new() };
        let shared = Arc::new(Shared {
            id: session.metadata.session_id.clone(),
            parent: session.metadata.parent(),
            torn_bytes,
            depth,
            tree,
            recorder: Arc::downgrade(&recorder),
            calls: Arc::new(CallDesk::default()),
            state: watch::Sender::new(AgentState::Idle),
            end: watch::Sender::new(None),
            metadata: Mutex::new(session.metadata),
            session_token,
            abort_token: CancellationToken::new(),
            runs: Mutex::new(runs),
            children: Mutex::default(),
            outcome: Mutex::default(),
        });
        let handle = AgentHandle {
            shared: Arc::clone(&shared),
            input,
            steering,
            store: Arc::clone(&config.store),
            ids: Arc::clone(&config.ids),
        };
        let internals = AgentInternals::new(Parts {
            runtime: Arc::downgrade(inner),
            config: Arc::clone(config),
            shared: Arc::clone(&shared),
            recorder: Arc::clone(&recorder),
            history: session.history,
            abilities: session.abilities,
            tools: session.tools,
            input: input_rx,
            steering: steering_rx,
            tasks: inner.tasks.clone(),
        });
        let (runtime, tasks) = (Arc::downgrade(inner), inner.tasks.clone());
        (Self { runtime, tasks, shared, recorder, parent, internals }, handle)
    }

    /// Makes the agent known and starts its task, which owns all that the agent is.
    pub(super) fn start<F, Fut>(self, handle: &AgentHandle, agent: F)
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let Self { runtime, tasks, shared, recorder, parent, internals } = self;
        if let Some(inner) = runtime.upgrade() {
            inner.agents().insert(shared.id.clone(), WeakHandle::new(handle));
        }
        tasks.spawn(async move {
            let work = shared.abort_token.run_until_cancelled(run_caught(agent, internals));
            let result = work.await.unwrap_or(Err(AgentError::Aborted));
            end_children(&shared).await;
            let end = Arc::new(seal(&shared, recorder, result).await);
            if let Some(parent) = parent {
                parent.on_child_end(&shared, &end);
            } else {
                shared.tree.outlet.close();
            }
            if let Some(inner) = runtime.upgrade() {
                inner.agents().remove(&shared.id);
            }
            shared.end.send_replace(Some(end));
        });
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

/// Says how it ended: in the log, in the stream and in the state. The session is free afterwards.
async fn seal(
    shared: &Shared,
    recorder: Arc<Recorder>,
    result: Result<(), AgentError>,
) -> AgentEnd {
    let failure = match result {
        Ok(()) | Err(AgentError::Closed | AgentError::Cancelled) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = &failure {
        let event = AgentEvent::Error { error: error.to_string(), provider: None };
        if recorder.record(event.clone(), &shared.session_token).await.is_err() {
            recorder.tell(event, &shared.session_token).await;
        }
    }
    let result = failure.map_or(Ok(()), |error| Err(error.to_string()));
    let state = match &result {
        Ok(()) => AgentState::Done,
        Err(error) => AgentState::Error(error.clone()),
    };
    shared.state.send_replace(state.clone());
    recorder.tell(AgentEvent::StateChange { state }, &shared.session_token).await;
    drop(recorder);
    let Outcome { text, files_modified, usage } = shared.outcome().clone();
    AgentEnd { session_id: shared.id.clone(), result, text, files_modified, usage }
}
