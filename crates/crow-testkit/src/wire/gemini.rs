//! Rendering of the Gemini stream.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::sse::bare_crlf;
use super::{ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, VendorError, WireOptions};

/// Renders the chunks of a complete reply.
///
/// The signature of a thought is sent with the next part: the call itself, or an empty text part after the text.
pub(super) fn frames(reply: &ScriptedReply, options: &WireOptions) -> Vec<Bytes> {
    let mut stream = GeminiRenderer { out: Vec::new(), signature: None, reply, options };
    for block in &reply.blocks {
        if let Some(malformed) = stream.block(block) {
            stream.last(&json!([]), "MALFORMED_FUNCTION_CALL", Some(malformed));
            return stream.out;
        }
    }
    if reply.stop == ScriptedStop::Failed {
        stream.out.push(error_frame(&VendorError::Server, options));
        return stream.out;
    }
    if reply.blocks.is_empty()
        && matches!(reply.stop, ScriptedStop::Refusal | ScriptedStop::ContentFilter)
    {
        stream.blocked();
        return stream.out;
    }
    let mut closing = Map::from_iter([("text".to_owned(), json!(""))]);
    stream.sign(&mut closing);
    stream.last(&json!([closing]), finish_reason(reply.stop), None);
    stream.out
}

/// Renders an error in the middle of a stream.
pub(super) fn error_frame(error: &VendorError, options: &WireOptions) -> Bytes {
    bare_crlf(&error.gemini_body(&options.model))
}

struct GeminiRenderer<'a> {
    out: Vec<Bytes>,
    /// Signature to be sent with the next part.
    signature: Option<&'a str>,
    reply: &'a ScriptedReply,
    options: &'a WireOptions,
}

impl<'a> GeminiRenderer<'a> {
    /// Renders a block. Returns the vendor's message if the call has malformed arguments, which this dialect cannot
    /// represent.
    fn block(&mut self, block: &'a ScriptedBlock) -> Option<String> {
        match block {
            ScriptedBlock::Text(text) => {
                for piece in self.options.pieces.cut(text) {
                    self.part(&json!({"text": piece}));
                }
                if self.signature.is_some() {
                    let mut part = Map::from_iter([("text".to_owned(), json!(""))]);
                    self.sign(&mut part);
                    self.part(&Value::Object(part));
                }
            }
            ScriptedBlock::Thinking { text, signature } => {
                for piece in self.options.pieces.cut(text) {
                    self.part(&json!({"text": piece, "thought": true}));
                }
                self.signature = Some(signature.as_str()).filter(|text| !text.is_empty());
            }
            ScriptedBlock::RedactedThinking(data) => self.signature = Some(data),
            ScriptedBlock::Call { id, name, arguments } => {
                let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) else {
                    return Some(format!("Malformed function call: {name}({arguments})"));
                };
                let mut call = Map::from_iter([
                    ("name".to_owned(), json!(name)),
                    ("args".to_owned(), Value::Object(arguments)),
                ]);
                if !id.is_empty() {
                    call.insert("id".to_owned(), json!(id));
                }
                let mut part = Map::from_iter([("functionCall".to_owned(), Value::Object(call))]);
                self.sign(&mut part);
                self.part(&Value::Object(part));
            }
        }
        None
    }

    fn sign(&mut self, part: &mut Map<String, Value>) {
        if let Some(signature) = self.signature.take() {
            part.insert("thoughtSignature".to_owned(), json!(signature));
        }
    }

    /// Renders the chunk of a blocked prompt, which has no candidates.
    fn blocked(&mut self) {
        let chunk = json!({
            "promptFeedback": {"blockReason": finish_reason(self.reply.stop)},
            "usageMetadata": {
                "promptTokenCount": self.reply.usage.prompt(),
                "totalTokenCount": self.reply.usage.prompt(),
            },
            "modelVersion": self.options.model,
            "responseId": self.response_id(),
        });
        self.out.push(bare_crlf(&chunk));
    }

    fn part(&mut self, part: &Value) {
        // Counts grow with each chunk; only those of the last one are final.
        let sent = u64::try_from(self.out.len() + 1).unwrap_or(u64::MAX);
        let so_far = sent.min(self.reply.usage.visible_output());
        let chunk = json!({
            "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": self.reply.usage.prompt(),
                "candidatesTokenCount": so_far,
                "totalTokenCount": self.reply.usage.prompt() + so_far,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": self.reply.usage.prompt()},
                ],
            },
            "modelVersion": self.options.model,
            "responseId": self.response_id(),
        });
        self.out.push(bare_crlf(&chunk));
    }

    fn last(&mut self, parts: &Value, finish_reason: &str, message: Option<String>) {
        let mut candidate = json!({
            "content": {"parts": parts, "role": "model"},
            "finishReason": finish_reason,
            "index": 0,
        });
        if let (Some(message), Some(candidate)) = (message, candidate.as_object_mut()) {
            candidate.insert("finishMessage".to_owned(), json!(message));
        }
        let chunk = json!({
            "candidates": [candidate],
            "usageMetadata": usage(&self.reply.usage),
            "modelVersion": self.options.model,
            "responseId": self.response_id(),
        });
        self.out.push(bare_crlf(&chunk));
    }

    fn response_id(&self) -> String {
        format!("crowTestkit{:08}", self.options.serial)
    }
}

fn usage(usage: &ReplyUsage) -> Value {
    let mut metadata = Map::from_iter([
        ("promptTokenCount".to_owned(), json!(usage.prompt())),
        ("candidatesTokenCount".to_owned(), json!(usage.visible_output())),
        ("totalTokenCount".to_owned(), json!(usage.prompt() + usage.output)),
        (
            "promptTokensDetails".to_owned(),
            json!([{"modality": "TEXT", "tokenCount": usage.prompt()}]),
        ),
    ]);
    if usage.cache_read > 0 {
        metadata.insert("cachedContentTokenCount".to_owned(), json!(usage.cache_read));
        metadata.insert(
            "cacheTokensDetails".to_owned(),
            json!([{"modality": "TEXT", "tokenCount": usage.cache_read}]),
        );
    }
    if usage.reasoning > 0 {
        metadata.insert("thoughtsTokenCount".to_owned(), json!(usage.reasoning));
    }
    Value::Object(metadata)
}

fn finish_reason(stop: ScriptedStop) -> &'static str {
    match stop {
        // Gemini reports STOP for calls as well.
        ScriptedStop::EndTurn
        | ScriptedStop::ToolUse
        | ScriptedStop::StopSequence
        | ScriptedStop::Failed => "STOP",
        ScriptedStop::MaxTokens => "MAX_TOKENS",
        ScriptedStop::Refusal => "PROHIBITED_CONTENT",
        ScriptedStop::ContentFilter => "SAFETY",
    }
}
