//! The events of a stream. Unknown fields are skipped, known ones may be missing or null.

use crow_core::usage::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An event. Which fields it has depends on its type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) index: Option<u64>,
    pub(super) delta: Option<Delta>,
    pub(super) content_block: Option<Map<String, Value>>,
    pub(super) message: Option<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

/// What a delta adds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
}

/// What is reported at the beginning and again, grown, at the end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl Usage {
    /// Takes in a later report. Numbers only grow; what a report leaves out, or calls zero, stays.
    pub(super) fn merge(&mut self, later: Self) {
        self.input_tokens = self.input_tokens.max(later.input_tokens);
        self.output_tokens = self.output_tokens.max(later.output_tokens);
        self.cache_creation_input_tokens =
            self.cache_creation_input_tokens.max(later.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            self.cache_read_input_tokens.max(later.cache_read_input_tokens);
        self.cache_creation = later.cache_creation.or(self.cache_creation.take());
        self.output_tokens_details =
            later.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// Counts all input as input, the cached parts included.
    pub(super) fn total(&self) -> TokenUsage {
        let split = self.cache_creation.as_ref();
        let short = split.and_then(|split| split.ephemeral_5m_input_tokens).unwrap_or(0);
        let long = split.and_then(|split| split.ephemeral_1h_input_tokens).unwrap_or(0);
        let write = self.cache_creation_input_tokens.unwrap_or(0).max(short.saturating_add(long));
        let read = self.cache_read_input_tokens.unwrap_or(0);
        let fresh = self.input_tokens.unwrap_or(0);
        TokenUsage {
            input_tokens: fresh.saturating_add(read).saturating_add(write),
            output_tokens: self.output_tokens.unwrap_or(0),
            reasoning_tokens: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.thinking_tokens),
            cache_read_tokens: read,
            cache_write_tokens: write,
            cache_write_1h_tokens: long,
        }
    }
}
