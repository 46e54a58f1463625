//! What was used, by the model that was asked.

use crow_core::{model::ModelRef, usage::TokenUsage};

/// What was used, by the model that was asked. In the order in which the models were asked first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelUsage(Vec<(ModelRef, TokenUsage)>);

impl ModelUsage {
    /// Adds what one reply used.
    pub fn add(&mut self, model: &ModelRef, usage: TokenUsage) {
        match self.0.iter_mut().find(|(known, _)| known == model) {
            Some((_, sum)) => *sum += usage,
            None => self.0.push((model.clone(), usage)),
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (model, usage) in other.iter() {
            self.add(model, *usage);
        }
    }

    /// Returns what each model was used for.
    pub fn iter(&self) -> impl Iterator<Item = &(ModelRef, TokenUsage)> {
        self.0.iter()
    }

    /// Returns the sum over all models.
    pub fn total(&self) -> TokenUsage {
        let mut total = TokenUsage::default();
        for (_, usage) in &self.0 {
            total += *usage;
        }
        total
    }
}
