//! Differences between the servers of the format.

use crow_core::model::{ModelConfig, ModelInfo, Thinking};
use serde_json::{Map, Value, json};

use crate::{
    codec::ConversationRoute,
    openai::{effort::effort, number},
};

/// A variant of Chat Completions: the parts of a request that differ between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatVariant {
    /// Field for the maximum tokens of a reply.
    limit: &'static str,
    /// Field for the session, if the provider's cache uses one.
    cache_key: Option<&'static str>,
    /// Field for the amount of thinking.
    thinking: ThinkingField,
    /// Models that accept a temperature.
    temperature: Temperature,
    /// Maximum characters of a call's id.
    longest_id: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThinkingField {
    /// `reasoning_effort: "low"`.
    Effort,
    /// `reasoning: {…}`, which accepts a number of tokens as well.
    Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temperature {
    AllModels,
    /// Models that think refuse it.
    UnlessThinking,
}

impl ChatVariant {
    /// `OpenAI` itself.
    pub const OPENAI: Self = Self {
        limit: "max_completion_tokens",
        cache_key: Some("prompt_cache_key"),
        thinking: ThinkingField::Effort,
        temperature: Temperature::UnlessThinking,
        longest_id: 40,
    };

    /// `OpenRouter`.
    pub const OPENROUTER: Self = Self {
        limit: "max_tokens",
        cache_key: None,
        thinking: ThinkingField::Object,
        temperature: Temperature::AllModels,
        longest_id: 64,
    };

    /// All other servers.
    pub const COMPATIBLE: Self = Self {
        limit: "max_tokens",
        cache_key: None,
        thinking: ThinkingField::Effort,
        temperature: Temperature::AllModels,
        longest_id: 64,
    };

    pub(super) fn longest_id(self) -> usize {
        self.longest_id
    }

    /// Adds the fields of the configuration that the model accepts.
    pub(super) fn configure(
        self,
        head: &mut Map<String, Value>,
        route: &ConversationRoute,
        config: &ModelConfig,
    ) {
        let model = &route.model;
        if let Some(limit) = config.max_tokens {
            head.insert(self.limit.to_owned(), json!(limit));
        }
        if let Some(temperature) = config.temperature.filter(|_| self.takes_temperature(model)) {
            head.insert("temperature".to_owned(), number::decimal(temperature));
        }
        if let Some(thinking) = config.thinking.filter(|_| model.abilities.thinking) {
            let (field, value) = self.thinking.request(thinking, &model.reference.model);
            head.insert(field.to_owned(), value);
        }
        if let Some(field) = self.cache_key {
            head.insert(field.to_owned(), json!(route.session));
        }
    }

    fn takes_temperature(self, model: &ModelInfo) -> bool {
        match self.temperature {
            Temperature::AllModels => true,
            Temperature::UnlessThinking => !model.abilities.thinking,
        }
    }
}

impl ThinkingField {
    fn request(self, thinking: Thinking, model: &str) -> (&'static str, Value) {
        match (self, thinking) {
            (Self::Effort, _) => ("reasoning_effort", json!(effort(thinking, model))),
            (Self::Object, Thinking::Off) => ("reasoning", json!({ "enabled": false })),
            (Self::Object, Thinking::Tokens(most)) => ("reasoning", json!({ "max_tokens": most })),
            (Self::Object, Thinking::Low | Thinking::Medium | Thinking::High) => {
                ("reasoning", json!({ "effort": effort(thinking, model) }))
            }
        }
    }
}
