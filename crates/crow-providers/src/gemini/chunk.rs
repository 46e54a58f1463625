//! The chunks of a stream. Unknown fields are skipped, known ones may be missing or null.

use crow_core::usage::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A chunk of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct GeminiChunk {
    pub(super) candidates: Option<Vec<Candidate>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    pub(super) usage_metadata: Option<Value>,
    pub(super) response_id: Option<String>,
    pub(super) error: Option<Value>,
}

/// A candidate for the reply; only one is requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    pub(super) content: Option<GeminiContent>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GeminiContent {
    pub(super) parts: Option<Vec<Map<String, Value>>>,
}

/// Reason why a prompt was blocked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
    pub(super) block_reason_message: Option<String>,
}

/// Token counts, reported with each chunk and growing.
#[derive(Debug, Default)]
pub(super) struct GeminiUsage {
    prompt: Option<u64>,
    tool_use_prompt: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
    cached_content: Option<u64>,
}

impl GeminiUsage {
    /// Merges a later report. Each count keeps its maximum, so one that is missing or not a number changes nothing.
    pub(super) fn merge(&mut self, later: &Value) {
        for (count, name) in [
            (&mut self.prompt, "promptTokenCount"),
            (&mut self.tool_use_prompt, "toolUsePromptTokenCount"),
            (&mut self.candidates, "candidatesTokenCount"),
            (&mut self.thoughts, "thoughtsTokenCount"),
            (&mut self.cached_content, "cachedContentTokenCount"),
        ] {
            *count = (*count).max(later.get(name).and_then(Value::as_u64));
        }
    }

    /// Returns the totals. Thoughts count as output.
    pub(super) fn total(&self) -> TokenUsage {
        let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
        TokenUsage {
            input_tokens: sum(self.prompt, self.tool_use_prompt),
            output_tokens: sum(self.candidates, self.thoughts),
            reasoning_tokens: self.thoughts,
            cache_read_tokens: self.cached_content.unwrap_or(0),
            cache_write_tokens: 0,
            cache_write_1h_tokens: 0,
        }
    }
}
