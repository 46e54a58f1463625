//! Starting agents below another one, also from within its calls.
//!
//! Two ways: a child is *spawned* with a task of its own (it takes a slot of the tree, counts towards the depth limit
//! and gets a share of the budget), or *driven* by its parent's function (no task, no slot, the parent's budget). Order
//! of a spawn: slot, session (its id is saved in the parent's header first), start event, task.

use std::{
    fmt,
    future::Future,
    num::NonZeroU32,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{BackgroundChild, ChildEnd, ChildError, ChildOutcome, ChildTask, Children},
    event::{AgentEvent, AgentRole, Envelope, ParentCall, RunOutcome},
    ids::{SessionId, TaskId},
    model::ResolvedModel,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use super::{
    AgentAccess, AgentEnd, AgentError, AgentHandle, AgentInternals, ChildSpec,
    agent_shared::AgentShared,
    background::Background,
    children::{ParentLink, wait_for_end},
    internals::InternalsParts,
    job_notices::last_task,
    launch::{AgentLaunch, AgentPlacement},
    runtime::RuntimeInner,
    subagent_waits::{SubagentWaiter, SubagentWaits},
};
use super::{AgentSession, SessionSpec};
use crate::{agent_tree::AgentSlot, config::RuntimeConfig};

/// A child gets one of this many parts of its parent's remaining budget.
const PARTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// An agent function for a single task.
pub type AgentFn = Box<
    dyn FnOnce(AgentInternals) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send>>
        + Send,
>;

/// The program of a child that is started by its name.
pub struct ChildRun {
    /// The model of the child.
    pub model: ResolvedModel,
    /// Its access limit.
    pub access: AgentAccess,
    /// The agent function, which already contains the task.
    pub agent: AgentFn,
}

impl fmt::Debug for ChildRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildRun")
            .field("model", &self.model.info.reference)
            .finish_non_exhaustive()
    }
}

/// Resolves the name of a child to the agent to run. Provided by the program that composes the agents.
#[async_trait]
pub trait ChildFactory: Send + Sync + fmt::Debug {
    /// Creates the agent for a task. Fails with [`ChildError::unknown_agent`] for an unknown name.
    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError>;
}

/// Starts children of one agent. Holds nothing that keeps that agent's session open.
#[derive(Debug, Clone)]
pub(super) struct ChildAgents {
    runtime: Weak<RuntimeInner>,
    config: Arc<RuntimeConfig>,
    pub(super) shared: Arc<AgentShared>,
    tasks: TaskTracker,
    factory: Arc<Mutex<Option<Arc<dyn ChildFactory>>>>,
    waits: SubagentWaits,
    pub(super) background: Background,
}

impl ChildAgents {
    pub(super) fn new(parent: &InternalsParts) -> Self {
        let InternalsParts { runtime, config, shared, tasks, history, .. } = parent;
        let clock = Arc::clone(&config.clock);
        let background = Background::new(&shared.session_token, clock, last_task(history));
        Self {
            runtime: runtime.clone(),
            config: Arc::clone(config),
            shared: Arc::clone(shared),
            tasks: tasks.clone(),
            factory: Arc::default(),
            waits: SubagentWaits::default(),
            background,
        }
    }

    fn factory(&self) -> Option<Arc<dyn ChildFactory>> {
        self.factory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_factory(&self, factory: Arc<dyn ChildFactory>) {
        *self.factory.lock().unwrap_or_else(PoisonError::into_inner) = Some(factory);
    }

    fn now(&self) -> Duration {
        self.config.clock.monotonic()
    }

    /// Fails if the depth limit forbids to spawn another agent below this one. Driven agents do not count.
    pub(super) fn check_depth(&self) -> Result<(), AgentError> {
        let depth = self.config.children.depth;
        if self.shared.spawned >= depth {
            return Err(AgentError::ChildTooDeep { depth });
        }
        Ok(())
    }

    /// Spawns a child that has a slot.
    pub(super) async fn spawn<F, Fut>(
        &self,
        spec: ChildSpec,
        owner: &CancellationToken,
        seat: AgentSlot,
        agent: F,
    ) -> Result<AgentHandle, AgentError>
    where
        F: FnOnce(AgentInternals) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let (inner, session) = self.session(&spec).await?;
        let parent_agent = self.shared.metadata().agent_type.clone();
        let parent = ParentLink {
            recorder: self.shared.recorder.clone(),
            agent: parent_agent.clone(),
            child: spec.agent.clone(),
            seat,
            session_token: self.shared.session_token.clone(),
        };
        let child_id = session.id().clone();
        let (launch, handle) =
            AgentLaunch::new(&inner, session, self.placement(None, owner, spec.access));
        let started = AgentEvent::SubagentStart {
            parent: parent_agent,
            subagent: spec.agent,
            child_id,
            task: spec.task,
        };
        self.emit_unlogged(started).await;
        // No await from here on: a future that is dropped earlier has started nothing.
        self.shared.add_child(handle.clone());
        launch.start(&handle, Some(parent), agent);
        Ok(handle)
    }

    /// Makes the agent of a session that the function of this agent drives.
    pub(super) fn drive(
        &self,
        inner: &Arc<RuntimeInner>,
        session: AgentSession,
        access: AgentAccess,
    ) -> AgentInternals {
        let driver = Some(Arc::clone(&self.shared));
        let place = self.placement(driver, &self.shared.session_token, access);
        let (launch, _) = AgentLaunch::new(inner, session, place);
        if let Some(factory) = self.factory() {
            launch.internals.offer_children(factory);
        }
        launch.internals
    }

    /// Creates the session of a child. Parent and child refer to each other before the child runs.
    pub(super) async fn session(
        &self,
        spec: &ChildSpec,
    ) -> Result<(Arc<RuntimeInner>, AgentSession), AgentError> {
        let inner = self.runtime.upgrade().ok_or(AgentError::RuntimeGone)?;
        let info = &spec.model.info;
        let id = SessionId::new(self.config.ids.next_id());
        let crow = self.shared.metadata().crow();
        let session = SessionSpec {
            id: Some(id.clone()),
            abilities: info.abilities,
            role: spec.role,
            parent: Some(ParentCall {
                session_id: self.shared.id.clone(),
                call_id: spec.call_id.clone(),
            }),
            root: Some(self.shared.tree.root.clone()),
            additional_directories: crow.additional_directories,
            ..SessionSpec::new(spec.agent.clone(), info.reference.clone(), crow.cwd)
        };
        // Reserved before the blocking task, which then delivers the start event without waiting.
        let room = self.shared.tree.outlet.reserve_slot(&self.shared.run_token()).await;
        // The id is saved first: a crash may leave an id without a session, but never a session missing from its
        // parent.
        self.shared.metadata().child_session_ids.push(id.clone());
        if let Err(error) = self.save_header() {
            self.forget_child(&id);
            return Err(error);
        }
        let (config, tree) = (Arc::clone(&self.config), Arc::clone(&self.shared.tree));
        let span = tracing::Span::current();
        let make = self.tasks.spawn_blocking(move || {
            let _entered = span.enter();
            let on_start = |start: Arc<Envelope>| {
                tree.add_session(&start.session_id);
                tree.outlet.push(room, &start);
            };
            AgentSession::create_with_callback(&config, session, on_start)
        });
        match make.await.map_err(|error| AgentError::Custom(Box::new(error)))? {
            Ok(session) => Ok((inner, session)),
            Err(error) => {
                self.forget_child(&id);
                self.save_header()?;
                Err(error.into())
            }
        }
    }

    /// Opens the last of the `earlier` sessions in which this agent drove a child of the same name, role and call. One
    /// that cannot be opened is left alone: another process may have it open.
    pub(super) async fn earlier_session(
        &self,
        spec: &ChildSpec,
        earlier: &[SessionId],
    ) -> Result<Option<(Arc<RuntimeInner>, AgentSession)>, AgentError> {
        let inner = self.runtime.upgrade().ok_or(AgentError::RuntimeGone)?;
        if earlier.is_empty() {
            return Ok(None);
        }
        let (config, tree) = (Arc::clone(&self.config), Arc::clone(&self.shared.tree));
        let (parent, earlier, spec) = (self.shared.id.clone(), earlier.to_vec(), spec.clone());
        let span = tracing::Span::current();
        let open = self.tasks.spawn_blocking(move || {
            let _entered = span.enter();
            let matches_spec = |id: &&SessionId| {
                config.store.read(id).is_ok_and(|stored| {
                    let metadata = stored.metadata;
                    metadata.parent_session_id.as_ref() == Some(&parent)
                        && metadata.parent_tool_use_id == spec.call_id
                        && metadata.agent_type == spec.agent
                        && metadata.crow().role == spec.role
                })
            };
            let id = earlier.iter().rev().find(matches_spec)?;
            let abilities = spec.model.info.abilities;
            match AgentSession::open_child(&config, id, tree.root.clone(), abilities) {
                Ok(session) => {
                    tree.reopen_session(id);
                    Some(session)
                }
                Err(error) => {
                    tracing::warn!(session = %id, %error, "a child's session is not opened again");
                    None
                }
            }
        });
        let session = open.await.map_err(|error| AgentError::Custom(Box::new(error)))?;
        Ok(session.map(|session| (inner, session)))
    }

    fn save_header(&self) -> Result<(), AgentError> {
        let recorder = self.shared.recorder.upgrade().ok_or(AgentError::Closed)?;
        let now = self.config.clock.now();
        // Written under the lock, so that of two changes the later one is written last.
        let mut metadata = self.shared.metadata();
        metadata.updated_at = now;
        Ok(recorder.save_metadata(&metadata)?)
    }

    fn forget_child(&self, id: &SessionId) {
        self.shared.metadata().child_session_ids.retain(|known| known != id);
    }

    /// Returns the placement of a child; a `driver` makes it a driven one.
    fn placement(
        &self,
        driver: Option<Arc<AgentShared>>,
        owner: &CancellationToken,
        reach: AgentAccess,
    ) -> AgentPlacement {
        let shared = &self.shared;
        // A driven child uses its driver's budget and does not count towards the depth.
        let (spawned, budget, work) = if driver.is_some() {
            (shared.spawned, None, shared.work.clone())
        } else {
            let budget = shared.budget().share(PARTS, self.now());
            (shared.spawned + 1, Some(budget), shared.work.for_subagent())
        };
        AgentPlacement {
            tree: Arc::clone(&shared.tree),
            depth: shared.depth + 1,
            spawned,
            access: shared.access.stricter(reach),
            budget,
            driver,
            work,
            session_token: owner.child_token(),
            abort_token: shared.abort_token.child_token(),
        }
    }

    pub(super) async fn emit_unlogged(&self, event: AgentEvent) {
        if let Some(recorder) = self.shared.recorder.upgrade() {
            recorder.emit_unlogged(event, &self.shared.run_token()).await;
        }
    }

    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError> {
        if let Err(error) = self.check_depth() {
            return Err(ChildError::Refused { reason: error.to_string() });
        }
        match self.factory() {
            Some(factory) => factory.make(task).await,
            None => Err(ChildError::unknown_agent(&task.agent, Vec::new())),
        }
    }

    /// Acquires a slot. Only agents that were not spawned themselves wait for one: the slots they wait for are released
    /// without them.
    async fn seat(&self, task: &ChildTask) -> Result<AgentSlot, ChildError> {
        if let Some(seat) = self.shared.tree.try_acquire_slot() {
            return Ok(seat);
        }
        let running = self.config.children.running;
        let reason = format!("{running} agents run already");
        if self.shared.spawned > 0 {
            return Err(ChildError::Refused { reason });
        }
        self.emit_unlogged(AgentEvent::CallWait { call_id: task.call_id.clone(), reason }).await;
        self.shared.tree.acquire_slot().await.ok_or(ChildError::Cancelled)
    }

    /// Runs the child of a task to its end.
    async fn run_child(
        &self,
        task: ChildTask,
        run: ChildRun,
        cancel: &CancellationToken,
        waiting: SubagentWaiter,
    ) -> Result<ChildOutcome, ChildError> {
        let seat = cancel.run_until_cancelled(self.seat(&task)).await;
        let seat = seat.unwrap_or(Err(ChildError::Cancelled))?;
        let ChildRun { model, access: reach, agent } = run;
        let spec = ChildSpec {
            agent: task.agent,
            role: AgentRole::Subagent,
            model,
            task: task.description,
            call_id: Some(task.call_id),
            access: reach,
        };
        let spawned = self.spawn(spec, cancel, seat, agent).await;
        let child = spawned.map_err(|error| ChildError::Failed { reason: error.to_string() })?;
        let end = match waiting {
            SubagentWaiter::Call => {
                self.waits.wait(self, &child, wait_for_end(&child, cancel)).await
            }
            SubagentWaiter::Nobody => wait_for_end(&child, cancel).await,
        };
        Ok(outcome(end.as_ref(), cancel))
    }
}

#[async_trait]
impl Children for ChildAgents {
    async fn run(
        &self,
        task: ChildTask,
        cancellation: CancellationToken,
    ) -> Result<ChildOutcome, ChildError> {
        let created = cancellation.run_until_cancelled(self.make(&task)).await;
        let run = created.unwrap_or(Err(ChildError::Cancelled))?;
        self.run_child(task, run, &cancellation, SubagentWaiter::Call).await
    }

    async fn start(&self, task: ChildTask) -> Result<TaskId, ChildError> {
        let token = self.background.token().child_token();
        let created = token.run_until_cancelled(self.make(&task)).await;
        let run = created.unwrap_or(Err(ChildError::Cancelled))?;
        let id = self.background.add(&task, token.clone())?;
        let own = self.clone();
        let end = id.clone();
        let work = async move {
            let ending = own.background.ending(end);
            ending.with(own.run_child(task, run, &token, SubagentWaiter::Nobody).await);
        };
        self.tasks.spawn(work.in_current_span());
        Ok(id)
    }

    async fn wait(
        &self,
        id: &TaskId,
        patience: Duration,
        cancellation: &CancellationToken,
    ) -> Result<BackgroundChild, ChildError> {
        self.background.wait(id, patience, cancellation).await
    }

    async fn cancel(&self, id: &TaskId) -> Result<BackgroundChild, ChildError> {
        self.background.cancel(id).await
    }

    fn take_ended(&self) -> Vec<BackgroundChild> {
        self.background.take_ended()
    }
}

/// Converts the end of a child to the outcome of its task.
fn outcome(end: &AgentEnd, cancel: &CancellationToken) -> ChildOutcome {
    let text = end.answer().to_owned();
    let ended = match (&end.result, &end.run) {
        (Err(reason), _) => ChildEnd::Failed { reason: reason.clone() },
        (Ok(()), Some(RunOutcome::Cancelled)) => ChildEnd::Cancelled,
        (Ok(()), None) if cancel.is_cancelled() => ChildEnd::Cancelled,
        (Ok(()), Some(RunOutcome::Failed { error, .. })) => {
            ChildEnd::Failed { reason: error.clone() }
        }
        (Ok(()), Some(RunOutcome::Stopped { reason })) => {
            ChildEnd::Failed { reason: reason.to_string() }
        }
        (Ok(()), Some(RunOutcome::Completed { verified, .. })) => {
            ChildEnd::Done { verified: *verified }
        }
        (Ok(()), Some(RunOutcome::NeedsInput) | None) => ChildEnd::Done { verified: false },
    };
    ChildOutcome {
        session_id: end.session_id.clone(),
        end: ended,
        text,
        files_modified: end.files_modified.clone(),
        usage: end.usage,
    }
}
