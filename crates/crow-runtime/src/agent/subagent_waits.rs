//! Which subagents the calls of an agent wait for, as its state tells it.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::SessionId,
};

use super::{AgentHandle, child_agents::ChildAgents};

/// Who waits for a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubagentWaiter {
    /// The call that started it.
    Call,
    /// It works in the background.
    Nobody,
}

/// The subagents that calls of one agent wait for, the last one that began at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct SubagentWaits(Arc<Mutex<WaitTable>>);

#[derive(Debug, Default)]
struct WaitTable {
    children: Vec<SessionId>,
    /// What the agent did when the first of them began.
    before: Option<AgentState>,
}

impl SubagentWaits {
    /// Waits for the end of a subagent. Meanwhile the agent is in the state
    /// [`WaitingForSubagent`](AgentState::WaitingForSubagent), and afterwards in the one that it was in.
    pub(super) async fn wait<T>(
        &self,
        agents: &ChildAgents,
        child: &AgentHandle,
        end: impl Future<Output = T>,
    ) -> T {
        let id = child.session_id().clone();
        let waits = self.begin(&agents.shared.state.borrow(), id.clone());
        set_state(agents, AgentState::WaitingForSubagent(id), |_| true).await;
        let end = end.await;
        if let Some(state) = waits.next_state() {
            // Another call may ask for a permission meanwhile: that is told first.
            let is_waiting = |now: &AgentState| matches!(now, AgentState::WaitingForSubagent(_));
            set_state(agents, state, is_waiting).await;
        }
        end
    }

    fn begin(&self, now: &AgentState, child: SessionId) -> SubagentWait<'_> {
        let mut known = self.known();
        if known.children.is_empty() {
            known.before = Some(now.clone());
        }
        known.children.push(child.clone());
        SubagentWait { waits: self, child }
    }

    fn known(&self) -> MutexGuard<'_, WaitTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits for a subagent. Dropped, it waits no longer.
struct SubagentWait<'a> {
    waits: &'a SubagentWaits,
    child: SessionId,
}

impl SubagentWait<'_> {
    /// Returns the state after the end of the subagent.
    fn next_state(&self) -> Option<AgentState> {
        let mut known = self.waits.known();
        known.children.retain(|id| *id != self.child);
        match known.children.last() {
            Some(next) => Some(AgentState::WaitingForSubagent(next.clone())),
            None => known.before.take(),
        }
    }
}

impl Drop for SubagentWait<'_> {
    fn drop(&mut self) {
        let mut known = self.waits.known();
        known.children.retain(|id| *id != self.child);
    }
}

async fn set_state(
    agents: &ChildAgents,
    state: AgentState,
    replaces: impl Fn(&AgentState) -> bool,
) {
    let is_new = agents.shared.state.send_if_modified(|now| {
        let may_be = *now != state && now.may_become(&state) && replaces(now);
        if may_be {
            *now = state.clone();
        }
        may_be
    });
    if is_new {
        agents.tell(AgentEvent::StateChange { state }).await;
    }
}
