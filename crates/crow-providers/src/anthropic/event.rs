//! The events of a stream. Unknown fields are skipped, known ones may be missing or null.

use crow_core::usage::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An event. Its type determines which fields are present.
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

/// Delta of a block, or of the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnthropicDelta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
}

/// Token counts, reported at the start and again, grown, at the end.
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
    /// Merges a later report. Each count keeps its maximum, so one that is missing, zero or not a number changes
    /// nothing.
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

    /// Returns the totals. The input includes its cached parts.
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
