//! Token usage of model calls.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// The part of `output_tokens` that was reasoning, where the provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// The part of `input_tokens` that was read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// The part of `input_tokens` that was written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// The part of `cache_write_tokens` that is kept for an hour, which costs more.
    #[serde(default)]
    pub cache_write_1h_tokens: u64,
}

impl TokenUsage {
    /// Returns the sum of input and output tokens.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = match (self.reasoning_tokens, other.reasoning_tokens) {
            (None, None) => None,
            (own, theirs) => Some(own.unwrap_or(0).saturating_add(theirs.unwrap_or(0))),
        };
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.cache_write_1h_tokens =
            self.cache_write_1h_tokens.saturating_add(other.cache_write_1h_tokens);
    }
}
