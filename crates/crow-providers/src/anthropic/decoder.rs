//! Decoder of a streamed reply.
//!
//! `content_block_start` opens a block, `content_block_delta` extends the block of its index, `message_start` and
//! `message_delta` carry usage and the stop reason. Deltas of text and thinking are emitted at once; the blocks of the
//! reply are built in [`finish`](Decoder::finish), in the order of their start. Without `message_stop` the stream is
//! truncated. Servers that imitate the format omit events, so a delta may open its block and ids of calls may be
//! missing or repeated. Unknown fields of an event are skipped, known ones may be missing or null.

use crow_core::{
    message::{CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{ModelEvent, ModelReply, ProviderError, ProviderErrorKind, StopReason, TextCallNotes},
    usage::TokenUsage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    classify::error_event,
    codec::{Decoder, free_call_id},
};

/// State of one reply. Blocks are in the order of their start.
pub(super) struct AnthropicDecoder {
    origin: Origin,
    blocks: Vec<AnthropicOpenBlock>,
    usage: AnthropicUsage,
    stop: Option<String>,
    response_id: Option<String>,
    is_complete: bool,
}

/// A block that still receives deltas.
struct AnthropicOpenBlock {
    index: u64,
    kind: AnthropicBlockKind,
    /// The block as its start event had it.
    item: Map<String, Value>,
    /// Text, reasoning, or the JSON of the arguments so far.
    text: String,
    signature: String,
}

/// Kind of a block's content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnthropicBlockKind {
    Text,
    Thinking,
    Call,
    /// Redacted thinking, and unknown types.
    Opaque,
}

impl AnthropicDecoder {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            blocks: Vec::new(),
            usage: AnthropicUsage::default(),
            stop: None,
            response_id: None,
            is_complete: false,
        }
    }

    fn on_message(&mut self, message: &Value) {
        self.response_id = message.get("id").and_then(Value::as_str).map(str::to_owned);
        if let Some(usage) = message.get("usage") {
            self.usage.merge(usage);
        }
    }

    fn on_block(&mut self, index: u64, item: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let (kind, initial) = match text("type") {
            "text" => (AnthropicBlockKind::Text, text("text").to_owned()),
            "thinking" => (AnthropicBlockKind::Thinking, text("thinking").to_owned()),
            "tool_use" => (AnthropicBlockKind::Call, String::new()),
            _ => (AnthropicBlockKind::Opaque, String::new()),
        };
        let signature = text("signature").to_owned();
        if kind == AnthropicBlockKind::Call {
            out.push(ModelEvent::CallStarted { name: text("name").to_owned() });
        }
        push_delta(kind, &initial, out);
        self.blocks.push(AnthropicOpenBlock { index, kind, item, text: initial, signature });
    }

    fn on_delta(&mut self, index: u64, delta: AnthropicDelta, out: &mut Vec<ModelEvent>) {
        let AnthropicDelta { text, thinking, signature, partial_json, stop_reason: _ } = delta;
        let block = self.block_for(index, text.is_some(), thinking.is_some());
        let Some(block) = block else { return };
        if let Some(more) = text.or(thinking) {
            block.text.push_str(&more);
            match block.kind {
                AnthropicBlockKind::Text if !more.is_empty() => {
                    out.push(ModelEvent::TextDelta(more));
                }
                AnthropicBlockKind::Thinking if !more.is_empty() => {
                    out.push(ModelEvent::ThinkingDelta(more));
                }
                AnthropicBlockKind::Text
                | AnthropicBlockKind::Thinking
                | AnthropicBlockKind::Call
                | AnthropicBlockKind::Opaque => {}
            }
        }
        block.text.push_str(&partial_json.unwrap_or_default());
        block.signature.push_str(&signature.unwrap_or_default());
    }

    /// Returns the open block of this index. Some servers omit its start, so a delta of text or thinking opens one.
    fn block_for(
        &mut self,
        index: u64,
        is_text: bool,
        is_thinking: bool,
    ) -> Option<&mut AnthropicOpenBlock> {
        let open = self.blocks.iter().rposition(|block| block.index == index);
        if open.is_none() {
            let (kind, name) = match (is_text, is_thinking) {
                (true, _) => (AnthropicBlockKind::Text, "text"),
                (false, true) => (AnthropicBlockKind::Thinking, "thinking"),
                (false, false) => return None,
            };
            let item = Map::from_iter([("type".to_owned(), json!(name))]);
            let (text, signature) = (String::new(), String::new());
            self.blocks.push(AnthropicOpenBlock { index, kind, item, text, signature });
        }
        match open {
            Some(position) => self.blocks.get_mut(position),
            None => self.blocks.last_mut(),
        }
    }

    fn stop(&self, has_calls: bool) -> StopReason {
        let stop = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
            Some("stop_sequence") => StopReason::StopSequence,
            Some("pause_turn") => StopReason::Pause,
            Some("refusal") => StopReason::Refusal,
            Some(_) | None => StopReason::EndTurn,
        };
        if stop == StopReason::EndTurn && has_calls { StopReason::ToolUse } else { stop }
    }
}

impl Decoder for AnthropicDecoder {
    fn on_event(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError> {
        let parsed = match serde_json::from_str::<Event>(data) {
            Ok(parsed) => parsed,
            // An event of an unknown type need not be JSON, and is skipped.
            Err(_) if data == "[DONE]" || !is_known(event) => return Ok(()),
            Err(error) => {
                let message = format!("event \"{event}\" cannot be read: {error}");
                return Err(ProviderError::new(ProviderErrorKind::Decode, message));
            }
        };
        let Event { kind, index, delta, content_block, message, usage, error } = parsed;
        // An event of any type may contain an error.
        if let Some(error) = error {
            let mut error = error_event(&json!({"error": error}));
            error.request_id = request_id(data).or(error.request_id);
            return Err(error);
        }
        let index = index.unwrap_or(0);
        match (kind.as_deref().unwrap_or(event), delta) {
            ("content_block_delta", Some(delta)) => self.on_delta(index, delta, out),
            ("content_block_start", _) => {
                self.on_block(index, content_block.unwrap_or_default(), out);
            }
            ("message_start", _) => self.on_message(&message.unwrap_or_default()),
            ("message_delta", delta) => {
                self.stop = delta.and_then(|delta| delta.stop_reason).or(self.stop.take());
                self.usage.merge(&usage.unwrap_or_default());
            }
            ("message_stop", _) => self.is_complete = true,
            ("error", _) => return Err(error_event(&Value::Null)),
            ("content_block_stop" | "ping", _) => {}
            (unknown, _) => tracing::debug!(event = unknown, "skipped an unknown event"),
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ModelReply, ProviderError> {
        if !self.is_complete {
            return Err(ProviderError::new(
                ProviderErrorKind::Truncated,
                "the stream ended without message_stop",
            ));
        }
        // A block may be incomplete if the reply was cut.
        let is_cut = self.stop(false) == StopReason::MaxTokens;
        let mut blocks = Vec::new();
        for block in std::mem::take(&mut self.blocks) {
            blocks.extend(block.finish(is_cut, &blocks));
        }
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        Ok(ModelReply {
            blocks,
            stop: self.stop(has_calls),
            usage: self.usage.total(),
            origin: self.origin.clone(),
            response_id: self.response_id.take(),
            text_calls: TextCallNotes::default(),
        })
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl AnthropicOpenBlock {
    /// Converts to a block of the reply; none if it is empty. Call ids in `before` are taken.
    fn finish(self, is_cut: bool, before: &[ReplyBlock]) -> Option<ReplyBlock> {
        let Self { kind, mut item, text, signature, .. } = self;
        match kind {
            AnthropicBlockKind::Text if text.is_empty() => None,
            AnthropicBlockKind::Text => {
                Some(ReplyBlock::without_native_item(ReplyContent::Text { text }))
            }
            AnthropicBlockKind::Thinking if text.is_empty() && signature.is_empty() => None,
            // Reasoning that was cut has no signature; the service would refuse it.
            AnthropicBlockKind::Thinking if signature.is_empty() && is_cut => {
                Some(ReplyBlock::without_native_item(ReplyContent::Thinking { text }))
            }
            AnthropicBlockKind::Thinking => {
                // The content already has the text.
                item.shift_remove("thinking");
                item.insert("signature".to_owned(), json!(signature));
                let content = ReplyContent::Thinking { text };
                Some(ReplyBlock::with_native(content, Value::Object(item)))
            }
            AnthropicBlockKind::Call => Some(ReplyBlock::without_native_item(ReplyContent::Call(
                call(&item, &text, before),
            ))),
            AnthropicBlockKind::Opaque if item.is_empty() => None,
            AnthropicBlockKind::Opaque => {
                // Input of a tool that runs at the provider.
                if let Ok(input) = serde_json::from_str::<Value>(&text) {
                    item.insert("input".to_owned(), input);
                }
                Some(ReplyBlock::with_native(ReplyContent::Opaque, Value::Object(item)))
            }
        }
    }
}

/// Builds a call. A missing or repeated id is replaced by a new one.
fn call(item: &Map<String, Value>, json: &str, before: &[ReplyBlock]) -> ToolCall {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    // Some servers send the whole input in the start event.
    let complete = item.get("input").filter(|input| json.is_empty() && !input.is_null());
    let arguments = match complete {
        Some(input) => CallArguments::Json(input.clone()),
        None => CallArguments::parse(json),
    };
    let id = free_call_id(text("id"), before);
    ToolCall { id, name: text("name").to_owned(), arguments }
}

fn push_delta(kind: AnthropicBlockKind, text: &str, out: &mut Vec<ModelEvent>) {
    match kind {
        AnthropicBlockKind::Text if !text.is_empty() => {
            out.push(ModelEvent::TextDelta(text.to_owned()));
        }
        AnthropicBlockKind::Thinking if !text.is_empty() => {
            out.push(ModelEvent::ThinkingDelta(text.to_owned()));
        }
        AnthropicBlockKind::Text
        | AnthropicBlockKind::Thinking
        | AnthropicBlockKind::Call
        | AnthropicBlockKind::Opaque => {}
    }
}

/// Returns true for the known types. An event without a name may have any type.
fn is_known(event: &str) -> bool {
    matches!(
        event,
        "" | "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
            | "error"
    )
}

fn request_id(data: &str) -> Option<String> {
    let event: Value = serde_json::from_str(data).ok()?;
    event.get("request_id").and_then(Value::as_str).map(str::to_owned)
}

/// An event. Its type determines which fields are present.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    index: Option<u64>,
    delta: Option<AnthropicDelta>,
    content_block: Option<Map<String, Value>>,
    message: Option<Value>,
    usage: Option<Value>,
    error: Option<Value>,
}

/// Delta of a block, or of the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicDelta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// Token counts, reported at the start and again, grown, at the end.
#[derive(Debug, Default)]
struct AnthropicUsage {
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
    fn merge(&mut self, later: &Value) {
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
    fn total(&self) -> TokenUsage {
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
