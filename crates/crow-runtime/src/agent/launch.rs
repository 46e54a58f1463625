//! From a session to a running agent, and from the agent's end to a sealed session.
//!
//! The task of an agent runs its function, then ends its children and jobs, seals the session (last events, log
//! released) and reports to the parent. [`AgentEndGuard`] publishes the end when the task is dropped in any way, so
//! waiting for an agent always finishes. Panics in the function, while sealing and while reporting are caught
//! separately.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
};

use crow_core::{
    ending::SharedWorkRecord,
    event::{AgentEvent, AgentState},
    turn::Budget,
};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    AgentAccess, AgentEnd, AgentError, AgentHandle, AgentInternals,
    agent_shared::{self, AgentOutcome, AgentShared},
    children::{ParentLink, end_children},
    handle::{INPUT_QUEUE, WeakHandle},
    internals::InternalsParts,
    job_changes::JobChanges,
    panic::panic_message,
    pipeline::report_last_moved_files,
    runtime::RuntimeInner,
};
use super::{AgentSession, recorder::Recorder};
use crate::agent_tree::AgentTree;

/// The position of an agent among the others.
pub(super) struct AgentPlacement {
    pub tree: Arc<AgentTree>,
    /// Number of ancestors.
    pub depth: usize,
    /// Number of spawned agents among its ancestors and itself.
    pub spawned: usize,
    /// Its access limit.
    pub access: AgentAccess,
    /// Its budget; `None` if it uses its driver's.
    pub budget: Option<Budget>,
    /// The agent whose function drives it, if it has no task of its own.
    pub driver: Option<Arc<AgentShared>>,
    /// Where its calls are recorded: its own record, or that of its driver.
    pub work: SharedWorkRecord,
    pub session_token: CancellationToken,
    pub abort_token: CancellationToken,
}

/// An agent that is ready to run.
pub(super) struct AgentLaunch {
    runtime: Weak<RuntimeInner>,
    tasks: tokio_util::task::TaskTracker,
    pub(super) shared: Arc<AgentShared>,
    recorder: Arc<Recorder>,
    pub(super) internals: AgentInternals,
    /// The changes of its jobs, whose last ones are recorded after its function returned.
    job_changes: JobChanges,
}

impl AgentLaunch {
    /// Assembles an agent and its handle. It is not registered yet.
    pub(super) fn new(
        inner: &Arc<RuntimeInner>,
        session: AgentSession,
        place: AgentPlacement,
    ) -> (Self, AgentHandle) {
        let AgentPlacement {
            tree,
            depth,
            spawned,
            access: reach,
            budget,
            driver,
            work,
            session_token,
            abort_token,
        } = place;
        let config = &inner.config;
        let (torn_bytes, damage) = (session.torn_bytes(), session.damage().clone());
        let (input, input_rx) = mpsc::channel(INPUT_QUEUE);
        let recorder =
            Arc::new(Recorder::new(&session.metadata, Arc::clone(&tree), config, session.log));
        let shared = Arc::new(AgentShared::new(agent_shared::SharedParts {
            metadata: session.metadata,
            torn_bytes,
            damage,
            context_tokens: session.history.last_usage().map_or(0, |usage| usage.input_tokens),
            depth,
            spawned,
            access: reach,
            budget,
            tree,
            driver,
            work,
            recorder: Arc::downgrade(&recorder),
            session_token,
            abort_token,
        }));
        let handle = AgentHandle {
            shared: Arc::clone(&shared),
            input,
            config: Arc::clone(config),
            leases: Arc::clone(&inner.leases),
        };
        let (internals, job_changes) = AgentInternals::new(InternalsParts {
            runtime: Arc::downgrade(inner),
            config: Arc::clone(config),
            shared: Arc::clone(&shared),
            recorder: Arc::clone(&recorder),
            history: session.history,
            abilities: session.abilities,
            tools: session.tools,
            input: input_rx,
            tasks: inner.tasks.clone(),
            leases: Arc::clone(&inner.leases),
        });
        let (runtime, tasks) = (Arc::downgrade(inner), inner.tasks.clone());
        (Self { runtime, tasks, shared, recorder, internals, job_changes }, handle)
    }

    /// Registers the agent and starts its task, which owns all parts of the agent.
    pub(super) fn start<F, Fut>(self, handle: &AgentHandle, parent: Option<ParentLink>, agent: F)
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let Self { runtime, tasks, shared, recorder, internals, job_changes } = self;
        let inner = runtime.upgrade();
        let is_refused = inner.as_ref().is_none_or(|inner| inner.is_over());
        if let Some(inner) = inner {
            inner.agents().insert(shared.id.clone(), WeakHandle::new(handle));
        }
        let is_child = parent.is_some();
        let ending = AgentEndGuard { runtime, shared: Arc::clone(&shared), is_child, end: None };
        let span = agent_span(&shared, parent.as_ref());
        let task = async move {
            tracing::debug!("agent started");
            // Dropped last, whatever else fails: the session is free before its end is published.
            let (mut ending, recorder) = (ending, recorder);
            // 1) The agent function.
            let work = run_caught(&shared, async move {
                if is_refused { Err(AgentError::Closed) } else { agent(internals).await }
            });
            let result = match &parent {
                Some(parent) => with_parent(&shared, &parent.session_token, work).await,
                None => work.await,
            };
            // 2) The end. The clock and the store are supplied by the program and may panic here too.
            let sealing = async {
                tokio::join!(end_children(&shared), job_changes.end_jobs());
                job_changes.final_scan(&shared, &recorder).await;
                report_last_moved_files(&shared, &recorder).await;
                seal(&shared, recorder, result).await
            };
            let sealed = AssertUnwindSafe(sealing).catch_unwind().await;
            let end = Arc::new(sealed.unwrap_or_else(|panic| {
                AgentEnd::failed(
                    &shared,
                    format!("the end of the agent panicked: {}", panic_message(panic.as_ref())),
                )
            }));
            ending.end = Some(Arc::clone(&end));
            tracing::debug!(is_failed = end.result.is_err(), "agent ended");
            // 3) The report to the parent.
            if let Some(parent) = parent {
                let report = AssertUnwindSafe(parent.on_child_end(&shared, &end)).catch_unwind();
                if let Err(panic) = report.await {
                    let message = panic_message(panic.as_ref());
                    tracing::error!(session = %shared.id, message, "the end of a child could not be told");
                }
            }
        };
        tasks.spawn(task.instrument(span));
    }
}

/// Returns the span of an agent's task. A child belongs to what started it; a root agent outlives the request that opened
/// its session, and has no parent.
fn agent_span(shared: &AgentShared, parent: Option<&ParentLink>) -> tracing::Span {
    let session = &shared.id;
    let Some(parent) = parent else {
        return tracing::debug_span!(parent: None, "agent", %session);
    };
    tracing::debug_span!("agent", %session, agent = parent.child)
}

/// Releases an agent when its task is over in any way: unregisters it and wakes everyone waiting for its end.
struct AgentEndGuard {
    runtime: Weak<RuntimeInner>,
    shared: Arc<AgentShared>,
    is_child: bool,
    end: Option<Arc<AgentEnd>>,
}

impl Drop for AgentEndGuard {
    fn drop(&mut self) {
        let Self { runtime, shared, is_child, end } = self;
        let end = end.take();
        let end = end.unwrap_or_else(|| {
            Arc::new(AgentEnd::failed(shared, "the task of the agent was dropped"))
        });
        // Sealing normally set the end state; after a dropped task it is set here.
        shared.state.send_if_modified(|state| {
            let is_open = !state.is_end();
            if is_open {
                *state = end.result.clone().map_or_else(AgentState::Error, |()| AgentState::Done);
            }
            is_open
        });
        if !*is_child {
            shared.tree.outlet.close();
        }
        if let Some(inner) = runtime.upgrade() {
            inner.forget(shared);
        }
        // Cancels anything that still depends on the agent: it has no owner left.
        shared.session_token.cancel();
        shared.end.send_replace(Some(end));
    }
}

/// Runs the agent function until it returns or is aborted. A panic becomes an error, also one from dropping an aborted
/// function.
async fn run_caught(
    shared: &AgentShared,
    agent: impl Future<Output = Result<(), AgentError>>,
) -> Result<(), AgentError> {
    let work = async { shared.abort_token.run_until_cancelled(agent).await };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result.unwrap_or(Err(AgentError::Aborted)),
        Err(panic) => Err(AgentError::Panicked { message: panic_message(panic.as_ref()) }),
    }
}

/// Runs a child, and shuts it down together with its parent, even if something else owns it.
async fn with_parent(
    shared: &AgentShared,
    parent: &CancellationToken,
    work: impl Future<Output = Result<(), AgentError>>,
) -> Result<(), AgentError> {
    tokio::pin!(work);
    tokio::select! {
        biased;
        result = &mut work => return result,
        () = parent.cancelled() => shared.session_token.cancel(),
    }
    work.await
}

/// Records how the agent ended, in the log, the stream and the state. Afterwards the session is free.
async fn seal(
    shared: &AgentShared,
    recorder: Arc<Recorder>,
    result: Result<(), AgentError>,
) -> AgentEnd {
    let failure = match result {
        Ok(()) | Err(AgentError::Closed | AgentError::Cancelled) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = &failure {
        let event = AgentEvent::Error { error: error.to_string(), provider: None };
        if recorder.record(recorder.redacted(event.clone()), &shared.session_token).await.is_err() {
            recorder.emit_unlogged(event, &shared.session_token).await;
        }
    }
    let result = failure.map_or(Ok(()), |error| Err(error.to_string()));
    let state = match &result {
        Ok(()) => AgentState::Done,
        Err(error) => AgentState::Error(error.clone()),
    };
    shared.state.send_replace(state.clone());
    recorder.emit_unlogged(AgentEvent::StateChange { state }, &shared.session_token).await;
    // Releases the log and its lock, so the session can be opened again.
    drop(recorder);
    AgentEnd::new(shared, result)
}

impl AgentEnd {
    fn new(shared: &AgentShared, result: Result<(), String>) -> Self {
        let AgentOutcome { text, files_modified, usage, run, .. } = shared.outcome().clone();
        Self { session_id: shared.id.clone(), result, run, text, files_modified, usage }
    }

    fn failed(shared: &AgentShared, error: impl Into<String>) -> Self {
        Self::new(shared, Err(error.into()))
    }
}
