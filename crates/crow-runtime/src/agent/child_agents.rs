//! How agents are started below another one, also from within its calls.

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

use super::{
    AgentAccess, AgentEnd, AgentError, AgentHandle, AgentInternals, ChildSpec,
    agent_shared::AgentShared,
    background::Background,
    children::{ParentLink, end_of},
    internals::InternalsParts,
    launch::{AgentLaunch, AgentPlacement},
    runtime::RuntimeInner,
    subagent_waits::{SubagentWaiter, SubagentWaits},
    subagents::last_task,
};
use crate::{
    agent_tree::AgentSlot,
    config::RuntimeConfig,
    session::{AgentSession, SessionSpec},
};

/// A child gets one of so many parts of what is left of its parent's budget.
const PARTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// An agent function that is made for one task.
pub type AgentFn = Box<
    dyn FnOnce(AgentInternals) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send>>
        + Send,
>;

/// What runs when a child is started by its name.
pub struct ChildRun {
    /// The model that it asks.
    pub model: ResolvedModel,
    /// Whether it may change anything.
    pub reach: AgentAccess,
    /// What it does. It knows its task.
    pub agent: AgentFn,
}

impl fmt::Debug for ChildRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildRun")
            .field("model", &self.model.info.reference)
            .finish_non_exhaustive()
    }
}

/// Knows what runs when a child is started by its name. Given to an agent by whoever puts agents together.
#[async_trait]
pub trait ChildFactory: Send + Sync + fmt::Debug {
    /// Makes what runs for a task. A name that it does not know is [`ChildError::unknown_agent`].
    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError>;
}

/// Starts agents below another one. Holds nothing that keeps that one's session open.
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

    pub(super) fn factory(&self) -> Option<Arc<dyn ChildFactory>> {
        self.factory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_factory(&self, factory: Arc<dyn ChildFactory>) {
        *self.factory.lock().unwrap_or_else(PoisonError::into_inner) = Some(factory);
    }

    fn now(&self) -> Duration {
        self.config.clock.monotonic()
    }

    /// Fails where no agent may be spawned any more: too many stand above. Those that are driven do not count.
    pub(super) fn may_stand_below(&self) -> Result<(), AgentError> {
        let depth = self.config.children.depth;
        if self.shared.spawned >= depth {
            return Err(AgentError::ChildTooDeep { depth });
        }
        Ok(())
    }

    /// Starts a child that has a seat.
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
            AgentLaunch::new(&inner, session, self.place(None, owner, spec.reach));
        let started = AgentEvent::SubagentStart {
            parent: parent_agent,
            subagent: spec.agent,
            child_id,
            task: spec.task,
        };
        self.tell(started).await;
        // Nothing is waited for from here on: whoever drops this future before has started nothing.
        self.shared.add_child(handle.clone());
        launch.start(&handle, Some(parent), agent);
        Ok(handle)
    }

    /// Makes the session of a child. Both sessions know of each other before the child does anything.
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
        let room = self.shared.tree.outlet.room(&self.shared.run_token()).await;
        // A crash may leave an id without a session, but never a session that nobody knows.
        self.shared.metadata().child_session_ids.push(id.clone());
        if let Err(error) = self.save_header() {
            self.forget_child(&id);
            return Err(error);
        }
        let (config, tree) = (Arc::clone(&self.config), Arc::clone(&self.shared.tree));
        let make = self.tasks.spawn_blocking(move || {
            let tell = |start: Arc<Envelope>| {
                tree.add_session(&start.session_id);
                tree.outlet.push(room, &start);
            };
            AgentSession::create_and_tell(&config, session, tell)
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

    /// Opens the last of these sessions that an agent of that name and role was driven in. One that cannot be opened is left
    /// as it is: somebody else may work in it.
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
        let open = self.tasks.spawn_blocking(move || {
            let is_it = |id: &&SessionId| {
                config.store.read(id).is_ok_and(|stored| {
                    let metadata = stored.metadata;
                    metadata.parent_session_id.as_ref() == Some(&parent)
                        && metadata.parent_tool_use_id == spec.call_id
                        && metadata.agent_type == spec.agent
                        && metadata.crow().role == spec.role
                })
            };
            let id = earlier.iter().rev().find(is_it)?;
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
        // Written under the lock: of two changes the later one is written last.
        let mut metadata = self.shared.metadata();
        metadata.updated_at = now;
        Ok(recorder.save_metadata(&metadata)?)
    }

    fn forget_child(&self, id: &SessionId) {
        self.shared.metadata().child_session_ids.retain(|known| known != id);
    }

    /// Returns where a child stands.
    pub(super) fn place(
        &self,
        driver: Option<Arc<AgentShared>>,
        owner: &CancellationToken,
        reach: AgentAccess,
    ) -> AgentPlacement {
        let shared = &self.shared;
        let (spawned, budget) = if driver.is_some() {
            (shared.spawned, None)
        } else {
            (shared.spawned + 1, Some(shared.budget().share(PARTS, self.now())))
        };
        AgentPlacement {
            tree: Arc::clone(&shared.tree),
            depth: shared.depth + 1,
            spawned,
            reach: shared.reach.and(reach),
            budget,
            driver,
            session_token: owner.child_token(),
            abort_token: shared.abort_token.child_token(),
        }
    }

    pub(super) async fn tell(&self, event: AgentEvent) {
        if let Some(recorder) = self.shared.recorder.upgrade() {
            recorder.tell(event, &self.shared.run_token()).await;
        }
    }

    async fn make(&self, task: &ChildTask) -> Result<ChildRun, ChildError> {
        if let Err(error) = self.may_stand_below() {
            return Err(ChildError::Refused { reason: error.to_string() });
        }
        match self.factory() {
            Some(factory) => factory.make(task).await,
            None => Err(ChildError::unknown_agent(&task.agent, Vec::new())),
        }
    }

    /// Waits for a place. Only agents that were not spawned themselves wait: what they wait for ends without them.
    async fn seat(&self, task: &ChildTask) -> Result<AgentSlot, ChildError> {
        if let Some(seat) = self.shared.tree.begin_child() {
            return Ok(seat);
        }
        let running = self.config.children.running;
        let reason = format!("{running} agents run already");
        if self.shared.spawned > 0 {
            return Err(ChildError::Refused { reason });
        }
        self.tell(AgentEvent::CallWait { call_id: task.call_id.clone(), reason }).await;
        self.shared.tree.child_in_turn().await.ok_or(ChildError::Cancelled)
    }

    /// Runs what was made for a task to its end.
    async fn run_made(
        &self,
        task: ChildTask,
        run: ChildRun,
        cancel: &CancellationToken,
        waiting: SubagentWaiter,
    ) -> Result<ChildOutcome, ChildError> {
        let seat = cancel.run_until_cancelled(self.seat(&task)).await;
        let seat = seat.unwrap_or(Err(ChildError::Cancelled))?;
        let ChildRun { model, reach, agent } = run;
        let spec = ChildSpec {
            agent: task.agent,
            role: AgentRole::Subagent,
            model,
            task: task.description,
            call_id: Some(task.call_id),
            reach,
        };
        let spawned = self.spawn(spec, cancel, seat, agent).await;
        let child = spawned.map_err(|error| ChildError::Failed { reason: error.to_string() })?;
        let end = match waiting {
            SubagentWaiter::Call => self.waits.wait(self, &child, end_of(&child, cancel)).await,
            SubagentWaiter::Nobody => end_of(&child, cancel).await,
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
        let made = cancellation.run_until_cancelled(self.make(&task)).await;
        let run = made.unwrap_or(Err(ChildError::Cancelled))?;
        self.run_made(task, run, &cancellation, SubagentWaiter::Call).await
    }

    async fn start(&self, task: ChildTask) -> Result<TaskId, ChildError> {
        let token = self.background.token().child_token();
        let made = token.run_until_cancelled(self.make(&task)).await;
        let run = made.unwrap_or(Err(ChildError::Cancelled))?;
        let id = self.background.add(&task, token.clone())?;
        let own = self.clone();
        let end = id.clone();
        self.tasks.spawn(async move {
            let ending = own.background.ending(end);
            ending.with(own.run_made(task, run, &token, SubagentWaiter::Nobody).await);
        });
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

/// Says what an agent came to that worked on a task.
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
