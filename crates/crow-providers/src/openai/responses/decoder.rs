//! Decoder of a streamed reply.
//!
//! Most events are deltas of an item, which [`ItemDelta`] parses without a JSON tree. Other events start or complete an
//! item of [`Output`], or report the whole response; the last of those ends the reply with its status and usage.
//! Without it the stream is truncated.

use crow_core::{
    message::{Origin, ReplyBlock, ReplyContent},
    model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, StopReason, TextCallNotes},
    usage::TokenUsage,
};
use serde_json::Value;

use super::output::{ItemDelta, Output, delta_subject, text};
use crate::{
    classify,
    codec::Decoder,
    openai::reply::{RESPONSES_USAGE, ReplyIds, event_error, parse_event, read_usage},
};

/// State of one reply.
#[derive(Debug)]
pub(super) struct ResponsesDecoder {
    origin: Origin,
    ids: ReplyIds,
    output: Output,
    refusal: ResponsesRefusal,
    end: Option<ResponsesStreamEnd>,
    usage: TokenUsage,
    response_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponsesRefusal {
    None,
    Received,
}

/// End of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponsesStreamEnd {
    Completed,
    TooLong,
    Filtered,
}

impl ResponsesDecoder {
    pub(super) fn new(origin: Origin, ids: ReplyIds) -> Self {
        Self {
            origin,
            ids,
            output: Output::default(),
            refusal: ResponsesRefusal::None,
            end: None,
            usage: TokenUsage::default(),
            response_id: None,
        }
    }

    /// Handles a delta, which most events are. Returns false if the event is another one.
    fn on_delta(&mut self, event: &str, data: &str, out: &mut Vec<ModelEvent>) -> bool {
        let Ok(piece) = serde_json::from_str::<ItemDelta<'_>>(data) else { return false };
        let name = piece.kind.as_deref().unwrap_or(event);
        let Some(subject) = delta_subject(name) else { return false };
        if name == "response.refusal.delta" {
            self.refusal = ResponsesRefusal::Received;
        }
        self.output.on_delta(subject, &piece, out);
        true
    }

    fn on_response(
        &mut self,
        kind: &str,
        event: &Value,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let response = event.get("response").unwrap_or(&Value::Null);
        let id = text(response, "id");
        if !id.is_empty() {
            self.response_id = Some(id.to_owned());
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.usage = read_usage(usage, RESPONSES_USAGE);
        }
        // The status determines the end; servers that omit it imply it by the event's name.
        let status = match text(response, "status") {
            "" => kind.trim_start_matches("response."),
            status => status,
        };
        match (kind, status) {
            ("response.created" | "response.in_progress" | "response.queued", _) => return Ok(()),
            (_, "failed") => return Err(failed(event, response)),
            (_, "incomplete") => self.end = Some(why_incomplete(response)),
            (_, _) => self.end = Some(ResponsesStreamEnd::Completed),
        }
        if let Some(output) = response.get("output").and_then(Value::as_array) {
            self.output.on_all(output, out);
        }
        Ok(())
    }

    fn stop(&self, blocks: &[ReplyBlock], is_refused: bool) -> StopReason {
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        match self.end {
            Some(ResponsesStreamEnd::TooLong) => StopReason::MaxTokens,
            Some(ResponsesStreamEnd::Filtered) => StopReason::Refusal,
            Some(ResponsesStreamEnd::Completed) | None if has_calls => StopReason::ToolUse,
            Some(ResponsesStreamEnd::Completed) | None if is_refused => StopReason::Refusal,
            Some(ResponsesStreamEnd::Completed) | None => StopReason::EndTurn,
        }
    }
}

impl Decoder for ResponsesDecoder {
    fn on_event(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        // 1) Deltas.
        if self.on_delta(event, data, out) {
            return Ok(());
        }
        // 2) Other events of items and of the response.
        let value = parse_event(data)?;
        let kind = match text(&value, "type") {
            "" => event,
            kind => kind,
        };
        match kind {
            "response.output_item.added" => self.output.on_added(&value, out),
            "response.output_item.done" => self.output.on_done(&value, out),
            "response.reasoning_summary_part.added" => self.output.on_summary_part(&value, out),
            "response.created"
            | "response.in_progress"
            | "response.queued"
            | "response.completed"
            | "response.incomplete"
            | "response.failed" => {
                self.on_response(kind, &value, out)?;
            }
            "error" => return Err(classify::error_event(&value)),
            kind => {
                if let Some(error) = event_error(&value) {
                    return Err(error);
                }
                tracing::trace!(kind, "an event that says nothing new is skipped");
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ModelReply, ProviderError> {
        if self.end.is_none() {
            let message = "the stream ended without response.completed";
            return Err(ProviderError::new(ProviderErrorKind::Truncated, message));
        }
        let output = std::mem::take(&mut self.output);
        let is_refused = self.refusal == ResponsesRefusal::Received || output.has_refusal();
        let blocks = output.into_blocks(&mut self.ids);
        Ok(ModelReply {
            stop: self.stop(&blocks, is_refused),
            blocks,
            usage: self.usage,
            origin: self.origin.clone(),
            response_id: self.response_id.take(),
            text_calls: TextCallNotes::default(),
        })
    }

    fn is_complete(&self) -> bool {
        self.end.is_some()
    }
}

fn failed(event: &Value, response: &Value) -> ProviderError {
    if response.get("error").is_some_and(|error| !error.is_null()) {
        return classify::error_event(event);
    }
    ProviderError::new(ProviderErrorKind::Server, "the response failed without saying why")
}

fn why_incomplete(response: &Value) -> ResponsesStreamEnd {
    let reason = response.get("incomplete_details").map_or("", |details| text(details, "reason"));
    if reason == "content_filter" {
        ResponsesStreamEnd::Filtered
    } else {
        ResponsesStreamEnd::TooLong
    }
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
