//! From the stream to our reply.

use crow_core::{
    message::{Origin, ReplyBlock, ReplyContent},
    model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, StopReason},
    usage::TokenUsage,
};
use serde_json::Value;

use super::{
    calls::CallPiece,
    quick::{self, Piece},
    reasoning::ReasoningDelta,
    reply::OpenReply,
};
use crate::{
    codec::Decoder,
    openai::{call_ids::ReplyIds, failure, usage},
};

/// Reads one reply.
#[derive(Debug)]
pub(super) struct ChatDecoder {
    origin: Origin,
    ids: ReplyIds,
    reply: OpenReply,
    refusal: Refusal,
    finish: Option<String>,
    usage: TokenUsage,
    response_id: Option<String>,
    place: Place,
    end: End,
}

/// Whether the next chunk is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    None,
    Said,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// `[DONE]` came.
    Done,
}

impl ChatDecoder {
    pub(super) fn new(origin: Origin, ids: ReplyIds) -> Self {
        Self {
            origin,
            ids,
            reply: OpenReply::default(),
            refusal: Refusal::None,
            finish: None,
            usage: TokenUsage::default(),
            response_id: None,
            place: Place::First,
            end: End::Open,
        }
    }

    /// The first chunk has the id.
    fn on_data(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let is_first = std::mem::replace(&mut self.place, Place::Later) == Place::First;
        match quick::read(data).filter(|_| !is_first) {
            Some(Piece::Text(text)) => self.reply.push_text(&text, out),
            Some(Piece::Reasoning(text)) => {
                self.reply.push_reasoning(&ReasoningDelta::of_content(text), out);
            }
            None => self.on_chunk(&failure::parse(data)?, out)?,
        }
        Ok(())
    }

    fn on_chunk(&mut self, chunk: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if let Some(error) = failure::of_event(chunk) {
            return Err(error);
        }
        if self.response_id.is_none() {
            let id = chunk.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            self.response_id = id.map(str::to_owned);
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = usage::read(usage, usage::CHAT);
        }
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
        if let Some(error) = failure::of_event(choice) {
            return Err(error);
        }
        if let Some(delta) = choice.get("delta") {
            self.on_delta(delta, out);
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            Some("error") => Err(ended_by(ProviderErrorKind::Server, "error")),
            // DeepSeek.
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
            self.refusal = Refusal::Said;
            self.reply.push_text(refusal, out);
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for piece in calls.into_iter().flatten() {
            self.reply.push_call(&CallPiece::read(piece), out);
        }
    }

    fn stop(&self, blocks: &[ReplyBlock]) -> StopReason {
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        match self.finish.as_deref() {
            Some("length" | "max_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            // Ollama stops with "stop" when it calls; some say "tool_calls" and call nothing.
            Some(_) | None if has_calls => StopReason::ToolUse,
            Some(_) | None if self.refusal == Refusal::Said => StopReason::Refusal,
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
                self.end = End::Done;
                Ok(())
            }
            data => self.on_data(data, out),
        }
    }

    fn finish(&mut self) -> Result<ModelReply, ProviderError> {
        if self.end == End::Open && self.finish.is_none() {
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
        })
    }

    fn is_complete(&self) -> bool {
        self.end == End::Done
    }
}

fn ended_by(kind: ProviderErrorKind, reason: &str) -> ProviderError {
    let message = format!("the reply ended with the reason \"{reason}\"");
    ProviderError::new(kind, message)
}

/// Only one choice is asked for; some servers do not number it.
fn is_first(choice: &Value) -> bool {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
