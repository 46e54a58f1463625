//! Parameters of child agents, and their end.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentRole},
    ids::CallId,
    model::ResolvedModel,
};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentHandle, agent_shared::AgentShared, recorder::Recorder, runtime::ABORT_GRACE,
};
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
