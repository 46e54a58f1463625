//! The todo list as a plan.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{
    Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate,
};
use crow_core::{
    ids::SessionId,
    todo::{TodoItem, TodoStatus},
};

use super::{child::ChildDisplay, event::EventContext, text::sanitise};

/// The todo lists as the client has them.
#[derive(Debug, Default)]
pub(super) struct PlanViews {
    /// By the session of the agent.
    shown: HashMap<SessionId, Plan>,
}

impl PlanViews {
    /// Shows the todo list if it changed. Lists of agents that the client does not know as sessions are not shown: they
    /// would replace the primary's.
    pub(super) fn on_plan(&mut self, at: &mut EventContext<'_>, items: &[TodoItem]) {
        let ChildDisplay::Session(session) = at.display else { return };
        let plan = Plan::new(items.iter().map(entry).collect());
        let shown = self.shown.get(&at.who.session);
        let is_known = shown.map_or(items.is_empty(), |shown| *shown == plan);
        if !is_known {
            self.shown.insert(at.who.session.clone(), plan.clone());
            at.send(session.clone(), SessionUpdate::Plan(plan.meta(at.who.meta())));
        }
    }
}

/// Converts a todo item. Todos have no priority: the one in progress gets the highest.
fn entry(item: &TodoItem) -> PlanEntry {
    let (priority, status) = match item.status {
        TodoStatus::Pending => (PlanEntryPriority::Medium, PlanEntryStatus::Pending),
        TodoStatus::InProgress => (PlanEntryPriority::High, PlanEntryStatus::InProgress),
        TodoStatus::Completed => (PlanEntryPriority::Medium, PlanEntryStatus::Completed),
    };
    PlanEntry::new(sanitise(&item.content), priority, status)
}
