//! Agents that agents start.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentRole, AgentState, ParentCall},
    ids::CallId,
    model::ResolvedModel,
};
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentError, AgentHandle, AgentInternals,
    launch::{Launch, Place},
    runtime::{ABORT_GRACE, Inner},
    shared::Shared,
};
use crate::{AgentSession, SessionSpec, events::Recorder, tree::Tree};

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
    tree: Arc<Tree>,
}

impl Parent {
    pub(super) fn on_child_end(&self, child: &Shared, end: &AgentEnd) {
        self.tree.end_child();
        let Some(recorder) = self.recorder.upgrade() else { return };
        let result = match &end.result {
            Ok(()) => end.text.clone(),
            Err(error) => format!("failed: {error}"),
        };
        recorder.tell_now(AgentEvent::SubagentEnd {
            parent: self.agent.clone(),
            subagent: self.child.clone(),
            child_id: child.id.clone(),
            result,
        });
    }
}

impl AgentInternals {
    /// Makes a child agent that this function drives itself, in its own task: how one agent speaks with another one's
    /// voice. Its session is a child of this one, and its events come out in the same stream.
    pub async fn child(&mut self, spec: ChildSpec) -> Result<Self, AgentError> {
        let (inner, session) = self.child_session(&spec).await?;
        let place = Place {
            tree: Arc::clone(&self.shared.tree),
            depth: self.shared.depth + 1,
            parent: None,
        };
        let token = self.shared.session_token.child_token();
        let (launch, _) = Launch::new(&inner, session, place, token);
        let mut child = launch.internals;
        child.reach = self.reach.and(spec.reach);
        Ok(child)
    }

    /// Starts a child agent with a task and a handle of its own.
    ///
    /// It is shut down when `owner` is cancelled: the token of a call or a run, or
    /// [`session_token`](Self::session_token) for a child that outlives the run. It never outlives this agent. Its events
    /// come out in the stream of the root. Fails when children stand too deep or too many run, see
    /// [`ChildLimits`](crate::ChildLimits).
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
        let tree = Arc::clone(&self.shared.tree);
        if !tree.begin_child(limits.running) {
            return Err(AgentError::TooManyChildren { running: limits.running });
        }
        let (inner, session) = match self.child_session(&spec).await {
            Ok(made) => made,
            Err(error) => {
                tree.end_child();
                return Err(error);
            }
        };
        let parent = Parent {
            recorder: Arc::downgrade(&self.recorder),
            agent: self.context.agent_name.clone(),
            child: spec.agent.clone(),
            tree: Arc::clone(&tree),
        };
        let child_id = session.id().clone();
        let place = Place { tree, depth: self.shared.depth + 1, parent: Some(parent) };
        let (mut launch, handle) = Launch::new(&inner, session, place, owner.child_token());
        launch.internals.reach = self.reach.and(spec.reach);
        self.shared.add_child(handle.clone());
        let (parent, subagent, task) = (self.context.agent_name.clone(), spec.agent, spec.task);
        let started = AgentEvent::SubagentStart { parent, subagent, child_id, task };
        self.recorder.tell(started, owner).await;
        launch.start(&handle, agent);
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
        self.shared.children().retain(|known| known.session_id() != child.session_id());
        self.set_state(AgentState::Processing).await?;
        Ok(end)
    }

    /// Makes the session of a child. Both sessions know of each other before the child does anything.
    async fn child_session(
        &mut self,
        spec: &ChildSpec,
    ) -> Result<(Arc<Inner>, AgentSession), AgentError> {
        let inner = self.runtime.upgrade().ok_or(AgentError::Closed)?;
        let info = &spec.model.info;
        let session = SessionSpec {
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
        let config = Arc::clone(&self.config);
        let make = self.tasks.spawn_blocking(move || AgentSession::create(&config, session));
        let session = make.await.map_err(|error| AgentError::Custom(Box::new(error)))??;
        self.shared.tree.add_session(session.id());
        self.shared.metadata().child_session_ids.push(session.id().clone());
        self.save_metadata()?;
        Ok((inner, session))
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
    let children = std::mem::take(&mut *shared.children());
    children.iter().for_each(AgentHandle::shutdown);
    for child in &children {
        end_in_time(child).await;
    }
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
