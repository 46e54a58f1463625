//! The budget of the run under way.

use std::{sync::Arc, time::Duration};

use crow_core::{
    model::{ModelRef, Price},
    turn::{BudgetLimits, LimitKind, RunUsage},
    usage::TokenUsage,
};

use super::{AgentError, agent_shared::AgentShared};
use crate::config::RuntimeConfig;

/// The budget of the run under way, measured by the clock of the runtime. For a child it is part of its parent's.
#[derive(Debug, Clone)]
pub struct RunBudget {
    shared: Arc<AgentShared>,
    config: Arc<RuntimeConfig>,
}

impl RunBudget {
    pub(super) fn new(shared: Arc<AgentShared>, config: Arc<RuntimeConfig>) -> Self {
        Self { shared, config }
    }

    /// Limits the usage from now on, of this agent and its descendants, within the budget of the agent.
    pub fn set_limits(&self, limits: BudgetLimits) {
        self.shared.set_budget(limits, self.now());
    }

    /// Returns the usage so far.
    pub fn spent(&self) -> RunUsage {
        self.shared.budget().spent(self.now())
    }

    /// Returns the limit that is exceeded, if any: then no model may be called.
    pub fn exceeded_limit(&self) -> Option<LimitKind> {
        self.shared.budget().reached(self.now())
    }

    /// Returns a warning for the model if it comes close to a limit of the run, once for each limit and part of it.
    pub fn take_warning(&self) -> Option<String> {
        self.shared.budget().take_warning(self.now())
    }

    /// Returns the remaining time, if time is limited.
    pub fn time_left(&self) -> Option<Duration> {
        self.shared.budget().remaining(self.now()).time
    }

    /// Returns the price of a model if money is limited; fails if the price is unknown.
    pub(super) async fn price(&self, model: &ModelRef) -> Result<Option<Price>, AgentError> {
        if !self.shared.budget().limits_money() {
            return Ok(None);
        }
        let price = self.config.models.price(model).await;
        Ok(Some(price.ok_or_else(|| AgentError::NoPrice { model: model.clone() })?))
    }

    /// Draws the usage of a model call.
    pub(super) fn draw(&self, usage: TokenUsage, price: Option<Price>) {
        self.shared.budget().draw(usage, price.map(|price| price.cost(&usage)));
    }

    /// Draws the usage of an attempt that failed.
    pub(super) fn draw_attempt(&self, usage: TokenUsage, price: Option<Price>) {
        self.shared.budget().draw_attempt(usage, price.map(|price| price.cost(&usage)));
    }

    fn now(&self) -> Duration {
        self.config.clock.monotonic()
    }
}
