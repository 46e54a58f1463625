//! Decoder of a streamed reply.
//!
//! A chunk contains whole parts. Unsigned text is joined with the open text of the same kind, in `open`. Calls, signed
//! parts and unknown parts first close the open text; parts that the service must get back unchanged become native
//! items of their block. Without a `finishReason` the stream is truncated. Unknown fields of a chunk are skipped, known
//! ones may be missing or null.

use crow_core::{
    message::{CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, StopReason, TextCallNotes},
    usage::TokenUsage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    classify::{error_event, one_line},
    codec::{Decoder, free_call_id},
};

/// State of one reply.
pub(super) struct GeminiDecoder {
    origin: Origin,
    blocks: Vec<ReplyBlock>,
    /// Text that following parts may extend, with its kind.
    open: Option<(TextKind, String)>,
    usage: GeminiUsage,
    finish: Option<String>,
    response_id: Option<String>,
}

/// Kind of a text: reasoning or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Thought,
    Answer,
}

impl GeminiDecoder {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            blocks: Vec::new(),
            open: None,
            usage: GeminiUsage::default(),
            finish: None,
            response_id: None,
        }
    }

    fn on_candidate(
        &mut self,
        candidate: Candidate,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.unwrap_or_default() {
            self.on_part(part, out);
        }
        let Some(reason) = candidate.finish_reason else { return Ok(()) };
        if is_failure(&reason) {
            let detail = candidate.finish_message.unwrap_or_default();
            let message = format!("the model stopped with {reason}: {detail}");
            // A retry will most likely succeed.
            let mut error = ProviderError::new(ProviderErrorKind::Server, one_line(&message));
            error.code = Some(reason);
            return Err(error);
        }
        self.finish = Some(reason);
        Ok(())
    }

    fn on_part(&mut self, mut part: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        if part.contains_key("functionCall") {
            self.close();
            self.on_call(part, out);
            return;
        }
        let text = match part.shift_remove("text") {
            Some(Value::String(text)) => text,
            _ if part.is_empty() => return,
            // A part of an unknown kind.
            _ => return self.keep(part),
        };
        let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
        let voice = if is_thought { TextKind::Thought } else { TextKind::Answer };
        let is_signed = part.contains_key("thoughtSignature");
        // A signed part is a block of its own, because it must be sent back unchanged.
        match (text.is_empty(), is_signed) {
            (true, false) => {}
            (true, true) => {
                part.insert("text".to_owned(), json!(""));
                self.keep(part);
            }
            (false, true) => {
                push_delta(voice, &text, out);
                self.close();
                self.blocks.push(ReplyBlock::with_native(voice.content(text), Value::Object(part)));
            }
            (false, false) => {
                push_delta(voice, &text, out);
                self.grow(voice, &text);
            }
        }
    }

    /// Adds a part that only the service understands, to be sent back unchanged.
    fn keep(&mut self, part: Map<String, Value>) {
        self.close();
        self.blocks.push(ReplyBlock::with_native(ReplyContent::Opaque, Value::Object(part)));
    }

    /// Extends the open text of this kind, or opens one: parts without a signature may be joined.
    fn grow(&mut self, voice: TextKind, more: &str) {
        match &mut self.open {
            Some((open, text)) if *open == voice => text.push_str(more),
            Some(_) | None => {
                self.close();
                self.open = Some((voice, more.to_owned()));
            }
        }
    }

    /// Converts the open text to a block.
    fn close(&mut self) {
        if let Some((voice, text)) = self.open.take() {
            self.blocks.push(ReplyBlock::without_native_item(voice.content(text)));
        }
    }

    fn on_call(&mut self, mut part: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some(Value::Object(mut function)) = part.shift_remove("functionCall") else { return };
        let arguments = match function.shift_remove("args") {
            Some(Value::Null) | None => json!({}),
            Some(arguments) => arguments,
        };
        let text = |name: &str| function.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        let id = free_call_id(text("id"), &self.blocks);
        out.push(ModelEvent::CallStarted { name: name.clone() });
        let has_native = !part.is_empty() || function.len() > 1;
        let call = ToolCall { id, name, arguments: CallArguments::Json(arguments) };
        let content = ReplyContent::Call(call);
        // The content has the arguments already.
        part.insert("functionCall".to_owned(), Value::Object(function));
        self.blocks.push(if has_native {
            ReplyBlock::with_native(content, Value::Object(part))
        } else {
            ReplyBlock::without_native_item(content)
        });
    }
}

impl Decoder for GeminiDecoder {
    fn on_event(
        &mut self,
        _event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let chunk: GeminiChunk = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) if data == "[DONE]" => return Ok(()),
            Err(error) => {
                let message = format!("a chunk cannot be read: {error}");
                return Err(ProviderError::new(ProviderErrorKind::Decode, message));
            }
        };
        let GeminiChunk { candidates, prompt_feedback, usage_metadata, response_id, error } = chunk;
        if let Some(error) = error {
            return Err(error_event(&json!({"error": error})));
        }
        if let Some(error) = prompt_feedback.and_then(blocked) {
            return Err(error);
        }
        self.response_id = response_id.or(self.response_id.take());
        self.usage.merge(&usage_metadata.unwrap_or_default());
        match candidates.and_then(|candidates| candidates.into_iter().next()) {
            Some(candidate) => self.on_candidate(candidate, out),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<ModelReply, ProviderError> {
        let Some(reason) = self.finish.take() else {
            return Err(ProviderError::new(
                ProviderErrorKind::Truncated,
                "the stream ended without a finishReason",
            ));
        };
        self.close();
        let blocks = std::mem::take(&mut self.blocks);
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        Ok(ModelReply {
            blocks,
            stop: stop_reason(&reason, has_calls),
            usage: self.usage.total(),
            origin: self.origin.clone(),
            response_id: self.response_id.take(),
            text_calls: TextCallNotes::default(),
        })
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }
}

impl TextKind {
    fn content(self, text: String) -> ReplyContent {
        match self {
            Self::Thought => ReplyContent::Thinking { text },
            Self::Answer => ReplyContent::Text { text },
        }
    }
}

fn push_delta(voice: TextKind, text: &str, out: &mut Vec<ModelEvent>) {
    out.push(match voice {
        TextKind::Thought => ModelEvent::ThinkingDelta(text.to_owned()),
        TextKind::Answer => ModelEvent::TextDelta(text.to_owned()),
    });
}

fn blocked(feedback: PromptFeedback) -> Option<ProviderError> {
    let reason = feedback.block_reason?;
    let detail = feedback.block_reason_message.unwrap_or_default();
    let message = one_line(&format!("the prompt was blocked with {reason} {detail}"));
    let mut error = ProviderError::new(ProviderErrorKind::Refusal, message);
    error.code = Some(reason);
    Some(error)
}

/// Returns true if the model failed and its output cannot be used.
fn is_failure(reason: &str) -> bool {
    matches!(
        reason,
        "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "UNEXPECTED_TOOL_CALL"
            | "MISSING_THOUGHT_SIGNATURE"
            | "TOO_MANY_TOOL_CALLS"
            | "OTHER"
    )
}

fn stop_reason(reason: &str, has_calls: bool) -> StopReason {
    match reason {
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT" => StopReason::Refusal,
        _ if has_calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// A chunk of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiChunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    response_id: Option<String>,
    error: Option<Value>,
}

/// A candidate for the reply; only one is requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    content: Option<GeminiContent>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GeminiContent {
    parts: Option<Vec<Map<String, Value>>>,
}

/// Reason why a prompt was blocked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

/// Token counts, reported with each chunk and growing.
#[derive(Debug, Default)]
struct GeminiUsage {
    prompt: Option<u64>,
    tool_use_prompt: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
    cached_content: Option<u64>,
}

impl GeminiUsage {
    /// Merges a later report. Each count keeps its maximum, so one that is missing or not a number changes nothing.
    fn merge(&mut self, later: &Value) {
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
    fn total(&self) -> TokenUsage {
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
