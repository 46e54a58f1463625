//! The chunks of a stream. Unknown fields are skipped, known ones may be missing or null.

use crow_core::usage::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Chunk {
    pub(super) candidates: Option<Vec<Candidate>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    pub(super) usage_metadata: Option<Usage>,
    pub(super) response_id: Option<String>,
    pub(super) error: Option<Value>,
}

/// A reply; only one is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    pub(super) content: Option<Content>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub(super) parts: Option<Vec<Map<String, Value>>>,
}

/// Why a prompt was not answered.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
    pub(super) block_reason_message: Option<String>,
}

/// What is reported with each chunk, growing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_use_prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached_content: Option<u64>,
}

impl Usage {
    /// Takes in a later report. What it leaves out stays.
    pub(super) fn merge(&mut self, later: &Self) {
        self.prompt = self.prompt.max(later.prompt);
        self.tool_use_prompt = self.tool_use_prompt.max(later.tool_use_prompt);
        self.candidates = self.candidates.max(later.candidates);
        self.thoughts = self.thoughts.max(later.thoughts);
        self.cached_content = self.cached_content.max(later.cached_content);
    }

    /// Counts thoughts as output.
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
