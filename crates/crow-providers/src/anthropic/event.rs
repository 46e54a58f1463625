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
    pub(super) delta: Option<AnthropicDelta>,
    pub(super) content_block: Option<Map<String, Value>>,
    pub(super) message: Option<Value>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// What a delta adds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicDelta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
}

/// What is reported at the beginning and again, grown, at the end.
#[derive(Debug, Default)]
pub(super) struct AnthropicUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_write: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    cache_read: Option<u64>,
    thinking: Option<u64>,
}

impl AnthropicUsage {
    /// Takes in a later report. Numbers only grow; what a report leaves out, calls zero or misspells, stays.
    pub(super) fn merge(&mut self, later: &Value) {
        let number = |path: &str| later.pointer(path).and_then(Value::as_u64);
        for (count, path) in [
            (&mut self.input, "/input_tokens"),
            (&mut self.output, "/output_tokens"),
            (&mut self.cache_write, "/cache_creation_input_tokens"),
            (&mut self.cache_write_5m, "/cache_creation/ephemeral_5m_input_tokens"),
            (&mut self.cache_write_1h, "/cache_creation/ephemeral_1h_input_tokens"),
            (&mut self.cache_read, "/cache_read_input_tokens"),
            (&mut self.thinking, "/output_tokens_details/thinking_tokens"),
        ] {
            *count = (*count).max(number(path));
        }
    }

    /// Counts all input as input, the cached parts included.
    pub(super) fn total(&self) -> TokenUsage {
        let short = self.cache_write_5m.unwrap_or(0);
        let long = self.cache_write_1h.unwrap_or(0);
        let write = self.cache_write.unwrap_or(0).max(short.saturating_add(long));
        let read = self.cache_read.unwrap_or(0);
        let fresh = self.input.unwrap_or(0);
        TokenUsage {
            input_tokens: fresh.saturating_add(read).saturating_add(write),
            output_tokens: self.output.unwrap_or(0),
            reasoning_tokens: self.thinking,
            cache_read_tokens: read,
            cache_write_tokens: write,
            cache_write_1h_tokens: long,
        }
    }
}
