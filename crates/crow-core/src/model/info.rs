//! Models: reference, abilities, price and request settings.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// A provider and one of its models, written `provider/model`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ModelRef {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's id, passed on as it is.
    pub model: String,
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Error for a model reference that lacks a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model \"{given}\" is not of the form provider/model, such as anthropic/claude-sonnet-4-5")]
pub struct ModelRefError {
    given: String,
}

impl FromStr for ModelRef {
    type Err = ModelRefError;

    /// Splits at the first slash: model ids may contain further ones.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(ModelRefError { given: text.to_owned() }),
        }
    }
}

/// Facts about a model that are known before a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The model.
    pub reference: ModelRef,
    /// The context window in tokens, input and output together.
    pub context_window: Option<u64>,
    /// Maximum number of tokens of one reply.
    pub max_output_tokens: Option<u64>,
    /// Its abilities.
    pub abilities: Abilities,
    /// The form in which it calls tools, if it is known; native otherwise.
    pub tool_calls: Option<ToolCallFormat>,
}

/// The form in which a model is offered tools and calls them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolCallFormat {
    /// The provider's own fields of requests and replies.
    #[default]
    Native,
    /// Text: the system prompt describes the tools, and the model writes its calls into its reply.
    Text,
    /// Code blocks: commands are the fenced blocks of shell and Python code in a reply, which is how small models write
    /// them. Other tools are called as with [`Text`](Self::Text).
    CodeBlocks,
}

/// The abilities of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// True if it can call tools.
    pub tools: bool,
    /// True if it accepts pictures.
    pub vision: bool,
    /// True if it can think before it answers.
    pub thinking: bool,
}

impl Default for Abilities {
    /// The abilities of an unknown model: it gets tools, but no pictures.
    fn default() -> Self {
        Self { tools: true, vision: false, thinking: false }
    }
}

/// The price of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Uncached input.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache for minutes.
    pub cache_write: f64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: f64,
}

impl Price {
    /// Returns the cost of `usage` in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn cost(&self, usage: &TokenUsage) -> f64 {
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let fresh = usage.input_tokens.saturating_sub(cached);
        let short = usage.cache_write_tokens.saturating_sub(usage.cache_write_1h_tokens);
        let sum = fresh as f64 * self.input
            + usage.output_tokens as f64 * self.output
            + usage.cache_read_tokens as f64 * self.cache_read
            + short as f64 * self.cache_write
            + usage.cache_write_1h_tokens as f64 * self.cache_write_1h;
        sum / 1_000_000.0
    }
}

/// How a model is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelConfig {
    /// Sampling temperature; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Seed of the sampling, for providers that take one; drawn by the provider if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The most tokens of one reply; the model's own limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Thinking before the answer; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
}

/// How much a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// A fair amount.
    Medium,
    /// A lot.
    High,
    /// Up to this many tokens, for providers that take a number.
    Tokens(u64),
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Low => f.write_str("low"),
            Self::Medium => f.write_str("medium"),
            Self::High => f.write_str("high"),
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_id_may_hold_slashes() {
        let model: ModelRef = "openrouter/meta/llama-3".parse().unwrap();
        assert_eq!((model.provider.as_str(), model.model.as_str()), ("openrouter", "meta/llama-3"));
        assert_eq!(model.to_string(), "openrouter/meta/llama-3");
    }

    #[test]
    fn a_reference_without_both_parts_is_refused() {
        for text in ["", "claude", "/x", "anthropic/"] {
            assert!(text.parse::<ModelRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn cached_tokens_are_not_paid_twice() {
        let price = Price {
            input: 3.0,
            output: 15.0,
            cache_read: 0.3,
            cache_write: 3.75,
            cache_write_1h: 6.0,
        };
        let usage = TokenUsage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_read_tokens: 500_000,
            cache_write_tokens: 200_000,
            cache_write_1h_tokens: 100_000,
            ..TokenUsage::default()
        };
        let cost = price.cost(&usage);
        assert!((cost - (0.9 + 1.5 + 0.15 + 0.375 + 0.6)).abs() < 1e-9, "{cost}");
    }
}
