//! Budgets, tools and named children of an agent function.

use std::{sync::Arc, time::Duration};

use crow_core::{
    capability::{BackgroundChild, BackgroundState, ChildEnd, Children as _},
    history::History,
    model::{ModelRef, Price},
    tool::ToolSource,
    turn::{Budget, BudgetLimits, LimitKind},
    usage::TokenUsage,
};

use super::{AgentError, AgentInternals, ChildFactory, background::task_number, jobs::named_in};

impl AgentInternals {
    /// Enables the calls of this agent, and of agents it drives from now on, to start children by name.
    pub fn offer_children(&self, factory: Arc<dyn ChildFactory>) {
        self.children.set_factory(factory);
    }

    /// Sets the source of dynamic tools for all agents of the tree. Returns false if there is one already, which is
    /// kept.
    pub fn offer_tools(&self, source: Arc<dyn ToolSource>) -> bool {
        self.shared.tree.tool_source.set(source).is_ok()
    }

    /// Returns the source of dynamic tools of the tree.
    pub fn tool_source(&self) -> Option<Arc<dyn ToolSource>> {
        self.shared.tree.tool_source.get().cloned()
    }

    /// Limits the usage from now on, of this agent and its descendants, within the budget of the agent.
    pub fn set_budget(&self, limits: BudgetLimits) {
        self.shared.set_budget(limits, self.config.clock.monotonic());
    }

    /// Returns the budget of the run under way; for a child it is part of its parent's.
    pub fn budget(&self) -> Budget {
        self.shared.budget()
    }

    /// Returns the limit that is exceeded, if any: then no model may be called.
    pub fn over_budget(&self) -> Option<LimitKind> {
        self.shared.budget().reached(self.config.clock.monotonic())
    }

    /// Returns the remaining time, if time is limited.
    pub fn time_left(&self) -> Option<Duration> {
        self.shared.budget().remaining(self.config.clock.monotonic()).time
    }

    /// Returns the price of a model if money is limited; fails if the price is unknown.
    pub(super) async fn price(&mut self, model: &ModelRef) -> Result<Option<Price>, AgentError> {
        if !self.shared.budget().limits_money() {
            return Ok(None);
        }
        let price = self.config.models.price(model).await;
        Ok(Some(price.ok_or_else(|| AgentError::NoPrice { model: model.clone() })?))
    }

    pub(super) fn draw(&self, usage: TokenUsage, price: Option<Price>) {
        self.shared.budget().draw(usage, price.map(|price| price.cost(&usage)));
    }

    pub(super) fn draw_attempt(&self, usage: TokenUsage, price: Option<Price>) {
        self.shared.budget().draw_attempt(usage, price.map(|price| price.cost(&usage)));
    }

    /// Tells the model of background tasks whose end it has not seen, each once.
    pub(super) async fn report_ended_tasks(&mut self) -> Result<(), AgentError> {
        let ended = self.children.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = ended.iter().map(line).collect();
        self.add_notice(lines.join("\n")).await
    }
}

fn line(child: &BackgroundChild) -> String {
    let end = match &child.state {
        BackgroundState::Running => "is running".to_owned(),
        BackgroundState::NotStarted(error) => error.to_string(),
        BackgroundState::Ended(outcome) => match &outcome.end {
            ChildEnd::Done { .. } => "has finished".to_owned(),
            ChildEnd::Failed { reason } => format!("failed: {reason}"),
            ChildEnd::Cancelled => "was cancelled".to_owned(),
        },
    };
    let BackgroundChild { id, agent, description, .. } = child;
    format!("{id} ({agent}: {description}) {end}; its result was not read, task_output has it")
}

/// Returns the highest number of a background task in the results of the history.
pub(super) fn last_task(history: &History) -> u64 {
    let ids = named_in(history, BackgroundChild::EXTRA_KEY);
    ids.filter_map(|(id, _)| task_number(&id)).max().unwrap_or(0)
}
