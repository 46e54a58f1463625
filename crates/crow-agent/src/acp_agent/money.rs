//! What a run costs, where a bound asks for it.

use std::collections::HashMap;

use crow_core::{
    model::{ModelRef, Models, Price},
    usage::TokenUsage,
};

use super::{AcpAgent, Coagent};

/// What a run costs. Prices are looked up only where the run has a bound in money.
#[derive(Debug, Default)]
pub(super) struct Money {
    prices: HashMap<ModelRef, Price>,
    spent: Option<f64>,
}

impl Money {
    /// Looks up what the models of a composition cost. A bound that could not be kept is an error.
    pub(super) async fn of_run(agent: &AcpAgent, models: &dyn Models) -> Result<Self, String> {
        let mut money = Self::default();
        if agent.limits.max_money.is_none() {
            return Ok(money);
        }
        money.spent = Some(0.0);
        let mut references = Vec::new();
        collect(agent, &mut references);
        for reference in references {
            let price = models.price(&reference).await.ok_or_else(|| {
                format!("the run has a bound in money, and the price of {reference} is not known")
            })?;
            money.prices.insert(reference, price);
        }
        Ok(money)
    }

    pub(super) fn add(&mut self, model: &ModelRef, usage: &TokenUsage) {
        if let (Some(spent), Some(price)) = (&mut self.spent, self.prices.get(model)) {
            *spent += price.cost(usage);
        }
    }

    /// Returns US dollars, if they are counted.
    pub(super) fn spent(&self) -> Option<f64> {
        self.spent
    }
}

fn collect(agent: &AcpAgent, references: &mut Vec<ModelRef>) {
    references.push(agent.model().info.reference.clone());
    for coagent in &agent.coagents {
        match coagent {
            Coagent::Base(agent) => references.push(agent.model().info.reference.clone()),
            Coagent::Composition(inner) => collect(inner, references),
        }
    }
}
