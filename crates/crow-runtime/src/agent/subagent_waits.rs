//! Tracks which subagents the calls of an agent wait for, and shows it as the state of the agent.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::SessionId,
};

use super::{AgentHandle, child_agents::ChildAgents};

/// The waiting side of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubagentWaiter {
    /// The call that started it.
    Call,
    /// Nothing: it runs in the background.
    Nobody,
}

/// The subagents that calls of one agent wait for, the latest last.
#[derive(Debug, Clone, Default)]
pub(super) struct SubagentWaits(Arc<Mutex<WaitTable>>);

#[derive(Debug, Default)]
struct WaitTable {
    children: Vec<SessionId>,
    /// The state of the agent before the first of these waits.
    before: Option<AgentState>,
}

impl SubagentWaits {
    /// Waits for the end of a subagent. Meanwhile the state of the agent is
    /// [`WaitingForSubagent`](AgentState::WaitingForSubagent); afterwards the previous state is restored.
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
            // A state set by another call meanwhile, such as waiting for a permission, is not replaced.
            let is_waiting = |now: &AgentState| matches!(now, AgentState::WaitingForSubagent(_));
            set_state(agents, state, is_waiting).await;
        }
        end
    }

    fn begin(&self, now: &AgentState, child: SessionId) -> SubagentWait<'_> {
        let mut table = self.table();
        if table.children.is_empty() {
            table.before = Some(now.clone());
        }
        table.children.push(child.clone());
        SubagentWait { waits: self, child }
    }

    fn table(&self) -> MutexGuard<'_, WaitTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a call that waits for a subagent; removed when dropped.
struct SubagentWait<'a> {
    waits: &'a SubagentWaits,
    child: SessionId,
}

impl SubagentWait<'_> {
    /// Ends the wait and returns the state that follows: waiting for another subagent, or the previous state.
    fn next_state(&self) -> Option<AgentState> {
        let mut table = self.waits.table();
        table.children.retain(|id| *id != self.child);
        match table.children.last() {
            Some(next) => Some(AgentState::WaitingForSubagent(next.clone())),
            None => table.before.take(),
        }
    }
}

impl Drop for SubagentWait<'_> {
    fn drop(&mut self) {
        let mut table = self.waits.table();
        table.children.retain(|id| *id != self.child);
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
        agents.emit_unlogged(AgentEvent::StateChange { state }).await;
    }
}
