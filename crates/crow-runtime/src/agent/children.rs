//! The interface through which agents start children and wait for them.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentRole, AgentState},
    ids::{CallId, SessionId},
    model::ResolvedModel,
};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentError, AgentHandle, AgentInternals,
    agent_shared::AgentShared,
    launch::AgentLaunch,
    runtime::{ABORT_GRACE, RuntimeInner},
};
use super::{AgentSession, recorder::Recorder};
use crate::agent_tree::AgentSlot;

/// Time for a cancelled child to end by itself, before it is aborted.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// Parameters of a child agent.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// Its name.
    pub agent: String,
    /// Its role towards its parent.
    pub role: AgentRole,
    /// The model of the child.
    pub model: ResolvedModel,
    /// A short description of its task, for the user.
    pub task: String,
    /// The call that starts it, if a call does.
    pub call_id: Option<CallId>,
    /// Its access limit.
    pub access: AgentAccess,
}

/// The access limit of an agent. A child never gets more than its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AgentAccess {
    /// Whatever the policy permits.
    #[default]
    Policy,
    /// Read-only, whatever the policy permits.
    ReadOnly,
}

/// Reports the end of a child to its parent.
pub(super) struct ParentLink {
    pub(super) recorder: Weak<Recorder>,
    pub(super) agent: String,
    pub(super) child: String,
    pub(super) seat: AgentSlot,
    /// Cancelled when the parent is shut down, which shuts the child down even if something else owns it.
    pub(super) session_token: CancellationToken,
}

impl ParentLink {
    pub(super) async fn on_child_end(self, child: &AgentShared, end: &AgentEnd) {
        let Some(recorder) = self.recorder.upgrade() else { return };
        let result = match &end.result {
            Ok(()) => end.answer().to_owned(),
            Err(error) => format!("failed: {error}"),
        };
        let ended = AgentEvent::SubagentEnd {
            parent: self.agent,
            subagent: self.child,
            child_id: child.id.clone(),
            result,
        };
        recorder.emit_unlogged(ended, &child.session_token).await;
        // The slot is released after the end was reported, so the next child begins after that.
        drop(self.seat);
    }
}

impl AgentInternals {
    /// Creates a child agent that this function drives itself, in its own task, so that one agent can act as another.
    /// Its session is a child of this one, its events go to the same stream, and its usage counts as this agent's.
    pub async fn child(&mut self, spec: ChildSpec) -> Result<Self, AgentError> {
        let (inner, session) = self.children.session(&spec).await?;
        Ok(self.drive(&inner, session, spec.access))
    }

    /// Reopens the last session among `earlier` in which an earlier process drove such a child, with its history; its
    /// open calls are answered. Returns `None` if there is none.
    pub async fn reopen_child(
        &mut self,
        spec: &ChildSpec,
        earlier: &[SessionId],
    ) -> Result<Option<Self>, AgentError> {
        let Some((inner, session)) = self.children.earlier_session(spec, earlier).await? else {
            return Ok(None);
        };
        let mut child = self.drive(&inner, session, spec.access);
        child.close_open_calls().await?;
        Ok(Some(child))
    }

    fn drive(&self, inner: &Arc<RuntimeInner>, session: AgentSession, reach: AgentAccess) -> Self {
        let driver = Some(Arc::clone(&self.shared));
        let place = self.children.placement(driver, &self.shared.session_token, reach);
        let (launch, _) = AgentLaunch::new(inner, session, place);
        if let Some(factory) = self.children.factory() {
            launch.internals.offer_children(factory);
        }
        launch.internals
    }

    /// Spawns a child agent with a task and a handle of its own.
    ///
    /// It is shut down when `owner` is cancelled: the token of a call or a run, or
    /// [`session_token`](Self::session_token) for a child that outlives the run. It never outlives this agent, and it
    /// continues without any handle. Its events go to the stream of the root. Fails if children are nested too deep or
    /// too many run, see [`ChildLimits`](crate::ChildLimits), and if the runtime was dropped.
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
        let running = self.config.children.running;
        self.children.check_depth()?;
        let seat = self.shared.tree.try_acquire_slot();
        let seat = seat.ok_or(AgentError::TooManyChildren { running })?;
        self.children.spawn(spec, owner, seat, agent).await
    }

    /// Waits for a child to end. A child that does not end in time after `cancel` is aborted.
    pub async fn wait_for_child(
        &mut self,
        child: &AgentHandle,
        cancel: &CancellationToken,
    ) -> Result<Arc<AgentEnd>, AgentError> {
        self.set_state(AgentState::WaitingForSubagent(child.session_id().clone())).await?;
        let end = wait_for_end(child, cancel).await;
        self.set_state(AgentState::Processing).await?;
        Ok(end)
    }
}

impl AgentAccess {
    /// Returns the stricter of both.
    pub(crate) fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Policy, Self::Policy) => Self::Policy,
            (Self::ReadOnly, _) | (_, Self::ReadOnly) => Self::ReadOnly,
        }
    }
}

/// Ends the children of an agent whose function has returned.
pub(super) async fn end_children(shared: &AgentShared) {
    // They stay listed meanwhile: a shutdown whose deadline passes reports which of them it aborts.
    let children = shared.children().clone();
    join_all(children.iter().map(end_in_time)).await;
    shared.children().clear();
}

/// Waits for a child to end; when `cancel` is cancelled, ends it.
pub(super) async fn wait_for_end(child: &AgentHandle, cancel: &CancellationToken) -> Arc<AgentEnd> {
    match cancel.run_until_cancelled(child.wait_for_end()).await {
        Some(end) => end,
        None => end_in_time(child).await,
    }
}

/// Ends a child: asks it to shut down, and aborts it after [`CANCEL_GRACE`].
async fn end_in_time(child: &AgentHandle) -> Arc<AgentEnd> {
    child.shutdown();
    if let Ok(end) = tokio::time::timeout(CANCEL_GRACE, child.wait_for_end()).await {
        return end;
    }
    child.abort();
    match tokio::time::timeout(ABORT_GRACE, child.wait_for_end()).await {
        Ok(end) => end,
        Err(_) => Arc::new(AgentEnd {
            session_id: child.session_id().clone(),
            result: Err("the agent does not end".to_owned()),
            run: None,
            text: String::new(),
            files_modified: Vec::new(),
            usage: crow_core::usage::TokenUsage::default(),
        }),
    }
}
