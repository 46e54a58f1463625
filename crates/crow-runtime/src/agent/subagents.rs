//! What an agent function does about the children that are started by name, and what it may use.

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
    /// Lets the calls of this agent start children by name. Those that it drives itself may, too, if they are made later.
    pub fn offer_children(&self, factory: Arc<dyn ChildFactory>) {
        self.children.set_factory(factory);
    }

    /// Gives this agent, and all agents of its tree, tools that come and go. The first source stays: whoever offers another
    /// one is told no.
    pub fn offer_tools(&self, source: Arc<dyn ToolSource>) -> bool {
        self.shared.tree.tool_source.set(source).is_ok()
    }

    /// Returns where the agents of the tree take tools from beside their own.
    pub fn tool_source(&self) -> Option<Arc<dyn ToolSource>> {
        self.shared.tree.tool_source.get().cloned()
    }

    /// Bounds what is used from here on, by this agent and by all that it starts, within what it was given itself.
    pub fn set_budget(&self, limits: BudgetLimits) {
        self.shared.set_budget(limits, self.config.clock.monotonic());
    }

    /// Returns what may be used: of its parent's, for a child.
    pub fn budget(&self) -> Budget {
        self.shared.budget()
    }

    /// Returns the bound that is reached, if one is: no model is to be asked any more.
    pub fn over_budget(&self) -> Option<LimitKind> {
        self.shared.budget().reached(self.config.clock.monotonic())
    }

    /// Returns how much time is left, where time is bounded.
    pub fn time_left(&self) -> Option<Duration> {
        self.shared.budget().remaining(self.config.clock.monotonic()).time
    }

    /// Returns the price of a model, where money is bounded: nothing else needs it.
    pub(super) async fn price(&mut self, model: &ModelRef) -> Result<Option<Price>, AgentError> {
        if !self.shared.budget().bounds_money() {
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

    /// Tells the model of tasks whose end it has not seen, each once.
    pub(super) async fn tell_ended_tasks(&mut self) -> Result<(), AgentError> {
        let ended = self.children.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = ended.iter().map(line).collect();
        self.remind(lines.join("\n")).await
    }
}

fn line(child: &BackgroundChild) -> String {
    let end = match &child.state {
        BackgroundState::Running => "goes on".to_owned(),
        BackgroundState::NotStarted(error) => error.to_string(),
        BackgroundState::Ended(outcome) => match &outcome.end {
            ChildEnd::Done { .. } => "is through".to_owned(),
            ChildEnd::Failed { reason } => format!("failed: {reason}"),
            ChildEnd::Cancelled => "was cancelled".to_owned(),
        },
    };
    let BackgroundChild { id, agent, description, .. } = child;
    format!("{id} ({agent}: {description}) {end}; its result was not read, task_output has it")
}

/// Returns the number of the last task in the background that results tell of.
pub(super) fn last_task(history: &History) -> u64 {
    let ids = named_in(history, BackgroundChild::EXTRA_KEY);
    ids.filter_map(|(id, _)| task_number(&id)).max().unwrap_or(0)
}
