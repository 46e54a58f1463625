//! Agents that agents start.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentRole, AgentState, Envelope, ParentCall},
    ids::{CallId, SessionId},
    model::ResolvedModel,
};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentError, AgentHandle, AgentInternals,
    launch::{Launch, Place},
    runtime::{ABORT_GRACE, Inner},
    shared::Shared,
};
use crate::{AgentSession, SessionSpec, events::Recorder, tree::Seat};

/// How long a child may take to end by itself once it was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// What a child agent is to be.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// Its name.
    pub agent: String,
    /// What it is to its parent.
    pub role: AgentRole,
    /// The model that it asks.
    pub model: ResolvedModel,
    /// A few words about its task, for the user.
    pub task: String,
    /// The call that asks for it, if a call does.
    pub call_id: Option<CallId>,
    /// Whether it may change anything.
    pub reach: Reach,
}

/// How far an agent may go. A child never goes further than its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// As far as the policy permits.
    #[default]
    Policy,
    /// It only reads, whatever the policy permits.
    ReadOnly,
}

/// Where the end of a child is told.
pub(super) struct Parent {
    recorder: Weak<Recorder>,
    agent: String,
    child: String,
    seat: Seat,
    /// Cancelled when the parent is shut down: its children are too, whatever owns them.
    pub(super) session_token: CancellationToken,
}

impl Parent {
    pub(super) async fn on_child_end(self, child: &Shared, end: &AgentEnd) {
        drop(self.seat);
        let Some(recorder) = self.recorder.upgrade() else { return };
        let result = match &end.result {
            Ok(()) => end.text.clone(),
            Err(error) => format!("failed: {error}"),
        };
        let ended = AgentEvent::SubagentEnd {
            parent: self.agent,
            subagent: self.child,
            child_id: child.id.clone(),
            result,
        };
        recorder.tell(ended, &child.session_token).await;
    }
}

impl AgentInternals {
    /// Makes a child agent that this function drives itself, in its own task: how one agent speaks with another one's
    /// voice. Its session is a child of this one, and its events come out in the same stream.
    pub async fn child(&mut self, spec: ChildSpec) -> Result<Self, AgentError> {
        let (inner, session) = self.child_session(&spec).await?;
        let driver = Some(Arc::clone(&self.shared));
        let place = self.place_below(driver, &self.shared.session_token);
        let (launch, _) = Launch::new(&inner, session, place);
        let mut child = launch.internals;
        child.reach = self.reach.and(spec.reach);
        Ok(child)
    }

    /// Starts a child agent with a task and a handle of its own.
    ///
    /// It is shut down when `owner` is cancelled: the token of a call or a run, or
    /// [`session_token`](Self::session_token) for a child that outlives the run. It never outlives this agent, and goes on
    /// when nobody holds a handle of it. Its events come out in the stream of the root. Fails when children stand too deep or too many run, see
    /// [`ChildLimits`](crate::ChildLimits), and when the runtime was dropped.
    pub async fn spawn_child<F, Fut>(
        &mut self,
        spec: ChildSpec,
        owner: &CancellationToken,
        agent: F,
    ) -> Result<AgentHandle, AgentError>
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let limits = self.config.children;
        if self.shared.depth >= limits.depth {
            return Err(AgentError::ChildTooDeep { depth: limits.depth });
        }
        let seat = self.shared.tree.begin_child(limits.running);
        let seat = seat.ok_or(AgentError::TooManyChildren { running: limits.running })?;
        let (inner, session) = self.child_session(&spec).await?;
        let parent = Parent {
            recorder: Arc::downgrade(&self.recorder),
            agent: self.context.agent_name.clone(),
            child: spec.agent.clone(),
            seat,
            session_token: self.shared.session_token.clone(),
        };
        let child_id = session.id().clone();
        let (mut launch, handle) = Launch::new(&inner, session, self.place_below(None, owner));
        launch.internals.reach = self.reach.and(spec.reach);
        let (parent_agent, task) = (self.context.agent_name.clone(), spec.task);
        let started = AgentEvent::SubagentStart {
            parent: parent_agent,
            subagent: spec.agent,
            child_id,
            task,
        };
        self.recorder.tell(started, &self.shared.run_token()).await;
        // Nothing is waited for from here on: whoever drops this future before has started nothing.
        self.shared.add_child(handle.clone());
        launch.start(&handle, Some(parent), agent);
        Ok(handle)
    }

    /// Waits for a child to end. A child that goes on for too long after `cancel` is aborted.
    pub async fn wait_for_child(
        &mut self,
        child: &AgentHandle,
        cancel: &CancellationToken,
    ) -> Result<Arc<AgentEnd>, AgentError> {
        self.set_state(AgentState::WaitingForSubagent(child.session_id().clone())).await?;
        let end = match cancel.run_until_cancelled(child.ended()).await {
            Some(end) => end,
            None => end_in_time(child).await,
        };
        self.set_state(AgentState::Processing).await?;
        Ok(end)
    }

    /// Makes the session of a child. Both sessions know of each other before the child does anything.
    async fn child_session(
        &mut self,
        spec: &ChildSpec,
    ) -> Result<(Arc<Inner>, AgentSession), AgentError> {
        let inner = self.runtime.upgrade().ok_or(AgentError::RuntimeGone)?;
        let info = &spec.model.info;
        let id = SessionId::new(self.config.ids.next_id());
        let session = SessionSpec {
            id: Some(id.clone()),
            abilities: info.abilities,
            role: spec.role,
            parent: Some(ParentCall {
                session_id: self.shared.id.clone(),
                call_id: spec.call_id.clone(),
            }),
            root: Some(self.shared.tree.root.clone()),
            ..SessionSpec::new(
                spec.agent.clone(),
                info.reference.clone(),
                self.context.workspace.cwd(),
            )
        };
        let room = self.shared.tree.outlet.room(&self.shared.run_token()).await;
        // A crash may leave an id without a session, but never a session that nobody knows.
        self.shared.metadata().child_session_ids.push(id.clone());
        if let Err(error) = self.save_metadata() {
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
                self.save_metadata()?;
                Err(error.into())
            }
        }
    }

    fn forget_child(&self, id: &SessionId) {
        self.shared.metadata().child_session_ids.retain(|known| known != id);
    }

    fn place_below(&self, driver: Option<Arc<Shared>>, owner: &CancellationToken) -> Place {
        Place {
            tree: Arc::clone(&self.shared.tree),
            depth: self.shared.depth + 1,
            driver,
            session_token: owner.child_token(),
            abort_token: self.shared.abort_token.child_token(),
        }
    }
}

impl Reach {
    /// Returns the shorter of both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Policy, Self::Policy) => Self::Policy,
            (Self::ReadOnly, _) | (_, Self::ReadOnly) => Self::ReadOnly,
        }
    }
}

/// Ends the children of an agent whose function is over.
pub(super) async fn end_children(shared: &Shared) {
    // They stay known meanwhile: a shutdown whose deadline passes says which of them it aborts.
    let children = shared.children().clone();
    join_all(children.iter().map(end_in_time)).await;
    shared.children().clear();
}

/// Ends a child: by its own will if it is quick, else by force.
async fn end_in_time(child: &AgentHandle) -> Arc<AgentEnd> {
    child.shutdown();
    if let Ok(end) = tokio::time::timeout(CANCEL_GRACE, child.ended()).await {
        return end;
    }
    child.abort();
    match tokio::time::timeout(ABORT_GRACE, child.ended()).await {
        Ok(end) => end,
        Err(_) => Arc::new(AgentEnd {
            session_id: child.session_id().clone(),
            result: Err("the agent does not end".to_owned()),
            text: String::new(),
            files_modified: Vec::new(),
            usage: crow_core::usage::TokenUsage::default(),
        }),
    }
}
