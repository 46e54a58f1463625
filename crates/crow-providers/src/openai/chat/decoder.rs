//! Decoder of a streamed reply.
//!
//! Most chunks are a piece of text, which [`read_quick`] parses without a JSON tree; the first chunk, which has the id,
//! and all others are parsed completely. A reply needs a `finish_reason` or `[DONE]`. Usage may follow the `finish_reason`,
//! so it is complete only with `[DONE]`.

use std::borrow::Cow;

use crow_core::{
    message::{Origin, ReplyBlock, ReplyContent},
    model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, StopReason, TextCallNotes},
    usage::TokenUsage,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::reply::{CallPiece, ChatOpenReply, ReasoningDelta};
use crate::{
    codec::Decoder,
    openai::reply::{CHAT_USAGE, ReplyIds, event_error, parse_event, read_usage},
};

/// State of one reply.
#[derive(Debug)]
pub(super) struct ChatDecoder {
    origin: Origin,
    ids: ReplyIds,
    reply: ChatOpenReply,
    refusal: ChatRefusal,
    finish: Option<String>,
    usage: TokenUsage,
    response_id: Option<String>,
    place: ChunkPosition,
    end: ChatStreamEnd,
}

/// Position of the next chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    First,
    Later,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatRefusal {
    None,
    Received,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatStreamEnd {
    Open,
    /// `[DONE]` was received.
    Done,
}

impl ChatDecoder {
    pub(super) fn new(origin: Origin, ids: ReplyIds) -> Self {
        Self {
            origin,
            ids,
            reply: ChatOpenReply::default(),
            refusal: ChatRefusal::None,
            finish: None,
            usage: TokenUsage::default(),
            response_id: None,
            place: ChunkPosition::First,
            end: ChatStreamEnd::Open,
        }
    }

    /// Handles the data of an event. The first chunk is parsed completely, because it has the id.
    fn on_data(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let is_first =
            std::mem::replace(&mut self.place, ChunkPosition::Later) == ChunkPosition::First;
        match read_quick(data).filter(|_| !is_first) {
            Some(QuickText::Text(text)) => self.reply.push_text(&text, out),
            Some(QuickText::Reasoning(text)) => {
                self.reply.push_reasoning(&ReasoningDelta::of_content(text), out);
            }
            None => self.on_chunk(&parse_event(data)?, out)?,
        }
        Ok(())
    }

    fn on_chunk(&mut self, chunk: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(error) = event_error(chunk) {
            return Err(error);
        }
        if self.response_id.is_none() {
            let id = chunk.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            self.response_id = id.map(str::to_owned);
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = read_usage(usage, CHAT_USAGE);
        }
        // A chunk with usage may have no choices.
        let choices = chunk.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten().filter(|choice| is_first(choice)) {
            self.on_choice(choice, out)?;
        }
        Ok(())
    }

    fn on_choice(
        &mut self,
        choice: &Value,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = event_error(choice) {
            return Err(error);
        }
        if let Some(delta) = choice.get("delta") {
            self.on_delta(delta, out);
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            Some("error") => Err(ended_by(ProviderErrorKind::Server, "error")),
            // Sent by DeepSeek.
            Some(reason @ "insufficient_system_resource") => {
                Err(ended_by(ProviderErrorKind::Overloaded, reason))
            }
            Some(reason) if !reason.is_empty() => {
                self.finish = Some(reason.to_owned());
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn on_delta(&mut self, delta: &Value, out: &mut Vec<ModelEvent>) {
        if let Some(reasoning) = ReasoningDelta::read(delta) {
            self.reply.push_reasoning(&reasoning, out);
        }
        match delta.get("content") {
            Some(Value::String(text)) => self.reply.push_text(text, out),
            Some(Value::Array(parts)) => {
                for text in parts.iter().filter_map(|part| part.get("text")?.as_str()) {
                    self.reply.push_text(text, out);
                }
            }
            Some(_) | None => {}
        }
        let refusal = delta.get("refusal").and_then(Value::as_str);
        if let Some(refusal) = refusal.filter(|text| !text.is_empty()) {
            self.refusal = ChatRefusal::Received;
            self.reply.push_text(refusal, out);
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for piece in calls.into_iter().flatten() {
            self.reply.push_call(&CallPiece::parse(piece), out);
        }
    }

    fn stop(&self, blocks: &[ReplyBlock]) -> StopReason {
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        match self.finish.as_deref() {
            Some("length" | "max_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            // Ollama ends with "stop" after calls, too; some servers end with "tool_calls" without a call.
            Some(_) | None if has_calls => StopReason::ToolUse,
            Some(_) | None if self.refusal == ChatRefusal::Received => StopReason::Refusal,
            Some(_) | None => StopReason::EndTurn,
        }
    }
}

impl Decoder for ChatDecoder {
    fn on_event(
        &mut self,
        _event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        match data.trim() {
            "" => Ok(()),
            "[DONE]" => {
                self.end = ChatStreamEnd::Done;
                Ok(())
            }
            data => self.on_data(data, out),
        }
    }

    fn finish(&mut self) -> Result<ModelReply, ProviderError> {
        if self.end == ChatStreamEnd::Open && self.finish.is_none() {
            let message = "the stream ended without finish_reason and without [DONE]";
            return Err(ProviderError::new(ProviderErrorKind::Truncated, message));
        }
        let blocks = std::mem::take(&mut self.reply).into_blocks(&mut self.ids);
        Ok(ModelReply {
            stop: self.stop(&blocks),
            blocks,
            usage: self.usage,
            origin: self.origin.clone(),
            response_id: self.response_id.take(),
            text_calls: TextCallNotes::default(),
        })
    }

    fn is_complete(&self) -> bool {
        self.end == ChatStreamEnd::Done
    }
}

fn ended_by(kind: ProviderErrorKind, reason: &str) -> ProviderError {
    let message = format!("the reply ended with the reason \"{reason}\"");
    ProviderError::new(kind, message)
}

/// Returns true for the first choice. Only one is requested; some servers do not number it.
fn is_first(choice: &Value) -> bool {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
}

/// A chunk with a piece of text and nothing else.
#[derive(Debug, PartialEq, Eq)]
enum QuickText<'a> {
    Text(Cow<'a, str>),
    /// From the field `reasoning_content`.
    Reasoning(Cow<'a, str>),
}

#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow)]
    choices: [ChunkChoice<'a>; 1],
    usage: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: ChatDelta<'a>,
    finish_reason: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    reasoning: Option<IgnoredAny>,
    reasoning_details: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
}

/// Parses a chunk if it has a piece of text and nothing else that matters.
fn read_quick(data: &str) -> Option<QuickText<'_>> {
    let chunk: ChatChunk<'_> = serde_json::from_str(data).ok()?;
    let [ChunkChoice { index, delta, finish_reason, error }] = chunk.choices;
    let more = [chunk.usage, chunk.error, finish_reason, error];
    let further = [delta.reasoning, delta.reasoning_details, delta.refusal, delta.tool_calls];
    if index.unwrap_or(0) != 0 || more.iter().chain(&further).any(Option::is_some) {
        return None;
    }
    let is_nonempty = |text: &Cow<'_, str>| !text.is_empty();
    match (delta.content.filter(is_nonempty), delta.reasoning_content.filter(is_nonempty)) {
        (Some(text), None) => Some(QuickText::Text(text)),
        (None, Some(text)) => Some(QuickText::Reasoning(text)),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
