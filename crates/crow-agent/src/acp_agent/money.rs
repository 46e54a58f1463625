//! What a run costs, where a bound asks for it.

use std::collections::HashMap;

use crow_core::model::{ModelRef, Models, Price};

use super::{AcpAgent, Coagent};
use crate::{BaseAgent, ModelUsage};

/// What a run costs. Prices are looked up only where the run has a bound in money.
#[derive(Debug, Default)]
pub(super) struct Money {
    prices: Option<HashMap<ModelRef, Price>>,
}

impl Money {
    /// Looks up what the models of a composition cost. A bound that could not be kept is an error.
    pub(super) async fn of_run(agent: &AcpAgent, models: &dyn Models) -> Result<Self, String> {
        if agent.limits.max_money.is_none() {
            return Ok(Self::default());
        }
        let mut prices = HashMap::new();
        let mut references = Vec::new();
        collect(agent, &mut references);
        for reference in references {
            let price = models.price(&reference).await.ok_or_else(|| {
                format!("the run has a bound in money, and the price of {reference} is not known")
            })?;
            prices.insert(reference, price);
        }
        Ok(Self { prices: Some(prices) })
    }

    /// Returns what `used` costs in US dollars, if it is counted.
    pub(super) fn spent(&self, used: &ModelUsage) -> Option<f64> {
        let prices = self.prices.as_ref()?;
        let costs = used.iter().filter_map(|(model, usage)| Some(prices.get(model)?.cost(usage)));
        Some(costs.sum())
    }
}

fn collect(agent: &AcpAgent, references: &mut Vec<ModelRef>) {
    let mut of_base = |agent: &BaseAgent| {
        let models = std::iter::once(agent.model()).chain(agent.fallbacks());
        references.extend(models.map(|model| model.info.reference.clone()));
    };
    of_base(&agent.primary);
    for coagent in &agent.coagents {
        match coagent {
            Coagent::Base(agent) => of_base(agent),
            Coagent::Composition(_) => {}
        }
    }
    for coagent in &agent.coagents {
        if let Coagent::Composition(inner) = coagent {
            collect(inner, references);
        }
    }
}
