//! A simulation of the vendors' prompt caches on the received prompts.

use std::collections::VecDeque;

use serde_json::Value;

use super::RecordedRequest;
use super::check::{prefix_sequence, without_mark};
use crate::wire::{ReplyUsage, WireDialect};

/// Bytes per token; a real tokenizer would not change the proportions.
const TOKEN: usize = 4;
/// Length of the shortest prefix that vendors cache, in bytes.
const SHORTEST: usize = 1024 * TOKEN;
/// Granularity of `OpenAI`'s cache, in bytes (128 tokens).
const STEP: usize = 128 * TOKEN;
/// Maximum number of prompts; older ones are evicted.
const CAPACITY: usize = 64;

/// The most recent prompts.
#[derive(Debug, Default)]
pub(super) struct PromptCache(VecDeque<CachedPrompt>);

/// A prompt as one text, with the ends (in bytes) of the prefixes that were written to the cache.
#[derive(Debug)]
struct CachedPrompt {
    dialect: WireDialect,
    model: String,
    text: String,
    written: Vec<usize>,
}

impl PromptCache {
    /// Returns the usage of a request: its prompt tokens as measured, the rest as in `reply`. Adds its prompt to the
    /// cache.
    pub(super) fn measure(&mut self, request: &RecordedRequest, reply: ReplyUsage) -> ReplyUsage {
        let prompt = CachedPrompt::of(request);
        let seen = self
            .0
            .iter()
            .filter(|before| before.dialect == prompt.dialect && before.model == prompt.model);
        let read = seen.map(|before| prompt.read_from(before)).max().unwrap_or(0);
        // End of the cached prefix after this request: read, or written by Anthropic's last mark.
        let end = match prompt.dialect {
            WireDialect::AnthropicMessages => prompt.written.last().copied().unwrap_or(0).max(read),
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat | WireDialect::Gemini => read,
        };
        let usage = ReplyUsage {
            input: tokens(prompt.text.len() - end),
            cache_read: tokens(read),
            cache_write: tokens(end - read),
            ..reply
        };
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(prompt);
        usage
    }
}

impl CachedPrompt {
    fn of(request: &RecordedRequest) -> Self {
        let (text, written) = match request.dialect {
            WireDialect::AnthropicMessages => marked_text(&request.body),
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat | WireDialect::Gemini => {
                (prefix_sequence(request.dialect, &request.body).concat(), Vec::new())
            }
        };
        Self { dialect: request.dialect, model: request.model().to_owned(), text, written }
    }

    /// Returns the number of bytes of this prompt that are cached from `before`.
    fn read_from(&self, before: &Self) -> usize {
        let same = common_prefix(self.text.as_bytes(), before.text.as_bytes());
        match self.dialect {
            // Only marked prefixes are written, and a request reads only up to its own last mark.
            WireDialect::AnthropicMessages => {
                let reach = same.min(self.written.last().copied().unwrap_or(0));
                before.written.iter().copied().filter(|end| *end <= reach).max().unwrap_or(0)
            }
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat if same >= SHORTEST => {
                same / STEP * STEP
            }
            WireDialect::Gemini if same >= SHORTEST => same,
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat | WireDialect::Gemini => 0,
        }
    }
}

/// Returns an Anthropic prompt as one text, block by block, and the ends of its marked prefixes in bytes.
fn marked_text(body: &Value) -> (String, Vec<usize>) {
    let (mut text, mut marks) = (String::new(), Vec::new());
    let mut push = |label: &str, block: &Value| {
        text.push_str(label);
        text.push_str(&without_mark(block).to_string());
        if block.get("cache_control").is_some() && text.len() >= SHORTEST {
            marks.push(text.len());
        }
    };
    for (label, list) in [("tool", body.get("tools")), ("system", body.get("system"))] {
        for block in blocks(list) {
            push(label, &block);
        }
    }
    for message in blocks(body.get("messages")) {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        for block in blocks(message.get("content")) {
            push(role, &block);
        }
    }
    if body.get("cache_control").is_some() && text.len() >= SHORTEST {
        marks.push(text.len());
    }
    (text, marks)
}

fn blocks(content: Option<&Value>) -> Vec<Value> {
    match content {
        Some(Value::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Vec::new()
        }
    }
}

/// Returns the length of the common prefix in bytes. Compares blocks first, since prompts are long and mostly equal.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let blocks = left.chunks(BLOCK).zip(right.chunks(BLOCK));
    let same = blocks.take_while(|(left, right)| left == right && left.len() == BLOCK).count();
    let (left, right) = (left.iter().skip(same * BLOCK), right.iter().skip(same * BLOCK));
    same * BLOCK + left.zip(right).take_while(|(left, right)| left == right).count()
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(TOKEN)).unwrap_or(u64::MAX)
}
