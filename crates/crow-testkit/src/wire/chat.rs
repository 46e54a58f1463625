//! Rendering of the `OpenAI` Chat Completions stream and its reasoning variants.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::sse::bare;
use super::{
    ChatFlavour, ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, UsageChunk, VendorError,
    WireOptions,
};

/// Creation time of all scripted replies, in Unix seconds.
pub(super) const CREATED: u64 = 1_763_000_000;

/// Renders the chunks of a complete reply.
pub(super) fn frames(reply: &ScriptedReply, options: &WireOptions) -> Vec<Bytes> {
    let mut stream = ChatRenderer { out: Vec::new(), calls: 0, details: 0, reply, options };
    if options.chat == ChatFlavour::OpenRouter {
        stream.out.push(Bytes::from_static(b": OPENROUTER PROCESSING\n\n"));
    }
    stream.delta(&stream.first_delta());
    for block in &reply.blocks {
        stream.block(block);
    }
    if reply.stop == ScriptedStop::Failed {
        stream.out.push(error_frame(&VendorError::Server, options));
        return stream.out;
    }
    stream.finish();
    stream.out
}

/// Renders an error in the middle of a stream.
pub(super) fn error_frame(error: &VendorError, options: &WireOptions) -> Bytes {
    match options.chat {
        ChatFlavour::OpenAi | ChatFlavour::ReasoningContent => {
            bare(&error.chat_body(&options.model))
        }
        ChatFlavour::OpenRouter => {
            let mut chunk = envelope(options);
            chunk.insert("provider".to_owned(), json!("Crow"));
            chunk.insert("error".to_owned(), error.openrouter_error());
            chunk.insert(
                "choices".to_owned(),
                json!([{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]),
            );
            bare(&Value::Object(chunk))
        }
    }
}

/// Returns the number of final frames that mark a reply as complete.
pub(super) fn terminal_frames(options: &WireOptions) -> usize {
    match options.usage {
        UsageChunk::Sent => 3,
        UsageChunk::Omitted => 2,
    }
}

/// State of the rendering of one reply.
struct ChatRenderer<'a> {
    out: Vec<Bytes>,
    /// Number of calls rendered, which is the index of the next one.
    calls: usize,
    /// Index of the next `OpenRouter` reasoning detail.
    details: usize,
    reply: &'a ScriptedReply,
    options: &'a WireOptions,
}

impl ChatRenderer<'_> {
    fn first_delta(&self) -> Value {
        match self.options.chat {
            ChatFlavour::OpenAi if self.reply.has_calls() => {
                json!({"role": "assistant", "content": null, "refusal": null})
            }
            ChatFlavour::OpenAi => json!({"role": "assistant", "content": "", "refusal": null}),
            ChatFlavour::ReasoningContent => {
                json!({"role": "assistant", "content": null, "reasoning_content": ""})
            }
            ChatFlavour::OpenRouter => json!({"role": "assistant", "content": ""}),
        }
    }

    fn block(&mut self, block: &ScriptedBlock) {
        match block {
            ScriptedBlock::Text(text) => {
                let field = match self.reply.stop {
                    ScriptedStop::Refusal => "refusal",
                    ScriptedStop::EndTurn
                    | ScriptedStop::ToolUse
                    | ScriptedStop::MaxTokens
                    | ScriptedStop::StopSequence
                    | ScriptedStop::ContentFilter
                    | ScriptedStop::Failed => "content",
                };
                for piece in self.options.pieces.cut(text) {
                    self.delta(&json!({field: piece}));
                }
            }
            ScriptedBlock::Thinking { text, signature } => self.thinking(text, signature),
            ScriptedBlock::RedactedThinking(data) => {
                if self.options.chat == ChatFlavour::OpenRouter {
                    let detail = json!({
                        "type": "reasoning.encrypted", "data": data,
                        "format": "anthropic-claude-v1", "index": self.details,
                    });
                    self.delta(&json!({"content": "", "reasoning_details": [detail]}));
                    self.details += 1;
                }
            }
            ScriptedBlock::Call { id, name, arguments } => self.call(id, name, arguments),
        }
    }

    fn thinking(&mut self, text: &str, signature: &str) {
        match self.options.chat {
            ChatFlavour::OpenAi => {}
            ChatFlavour::ReasoningContent => {
                for piece in self.options.pieces.cut(text) {
                    self.delta(&json!({"content": null, "reasoning_content": piece}));
                }
            }
            ChatFlavour::OpenRouter => {
                for piece in self.options.pieces.cut(text) {
                    let detail = json!({
                        "type": "reasoning.text", "text": piece,
                        "format": "anthropic-claude-v1", "index": self.details,
                    });
                    self.delta(
                        &json!({"content": "", "reasoning": piece, "reasoning_details": [detail]}),
                    );
                }
                if !signature.is_empty() {
                    let detail = json!({
                        "type": "reasoning.text", "signature": signature,
                        "format": "anthropic-claude-v1", "index": self.details,
                    });
                    self.delta(&json!({
                        "content": "", "reasoning": null, "reasoning_details": [detail],
                    }));
                }
                self.details += 1;
            }
        }
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let index = self.calls;
        self.calls += 1;
        self.delta(&json!({"tool_calls": [{
            "index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": ""},
        }]}));
        for piece in self.options.pieces.cut(arguments) {
            self.delta(
                &json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
            );
        }
    }

    fn delta(&mut self, delta: &Value) {
        self.choice(delta, None);
    }

    fn choice(&mut self, delta: &Value, finish_reason: Option<&str>) {
        let mut chunk = envelope(self.options);
        let mut choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        });
        match (self.options.chat, choice.as_object_mut()) {
            (ChatFlavour::OpenRouter, Some(choice)) => {
                chunk.insert("provider".to_owned(), json!("Crow"));
                choice.insert("native_finish_reason".to_owned(), json!(finish_reason));
            }
            (ChatFlavour::OpenAi | ChatFlavour::ReasoningContent, _)
            | (ChatFlavour::OpenRouter, None) => {}
        }
        chunk.insert("choices".to_owned(), json!([choice]));
        if self.options.usage == UsageChunk::Sent {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        if self.options.chat == ChatFlavour::OpenAi {
            chunk.insert("obfuscation".to_owned(), json!("Jx3tQ"));
        }
        self.out.push(bare(&Value::Object(chunk)));
    }

    fn finish(&mut self) {
        self.choice(&json!({}), Some(finish_reason(self.reply.stop)));
        if self.options.usage == UsageChunk::Sent {
            let mut chunk = envelope(self.options);
            let choices = match self.options.chat {
                ChatFlavour::OpenAi | ChatFlavour::ReasoningContent => json!([]),
                ChatFlavour::OpenRouter => json!([{
                    "index": 0, "delta": {"role": "assistant", "content": ""},
                    "finish_reason": null, "native_finish_reason": null, "logprobs": null,
                }]),
            };
            chunk.insert("choices".to_owned(), choices);
            chunk.insert("usage".to_owned(), usage(&self.reply.usage, self.options.chat));
            self.out.push(bare(&Value::Object(chunk)));
        }
        self.out.push(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

fn envelope(options: &WireOptions) -> Map<String, Value> {
    let mut chunk = Map::from_iter([
        ("id".to_owned(), json!(format!("chatcmpl-CrowTestkit{:08}", options.serial))),
        ("object".to_owned(), json!("chat.completion.chunk")),
        ("created".to_owned(), json!(CREATED)),
        ("model".to_owned(), json!(options.model)),
    ]);
    match options.chat {
        ChatFlavour::OpenAi => {
            chunk.insert("service_tier".to_owned(), json!("default"));
            chunk.insert("system_fingerprint".to_owned(), json!("fp_crow"));
        }
        ChatFlavour::ReasoningContent => {
            chunk.insert("system_fingerprint".to_owned(), json!("fp_crow"));
        }
        ChatFlavour::OpenRouter => {}
    }
    chunk
}

fn usage(usage: &ReplyUsage, flavour: ChatFlavour) -> Value {
    let mut block = json!({
        "prompt_tokens": usage.prompt(),
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    });
    if let Some(block) = block.as_object_mut() {
        match flavour {
            ChatFlavour::OpenAi => {}
            ChatFlavour::ReasoningContent => {
                block.insert("prompt_cache_hit_tokens".to_owned(), json!(usage.cache_read));
                block.insert(
                    "prompt_cache_miss_tokens".to_owned(),
                    json!(usage.prompt() - usage.cache_read),
                );
            }
            ChatFlavour::OpenRouter => {
                block.insert("cost".to_owned(), json!(0.00042));
                block.insert("is_byok".to_owned(), json!(false));
            }
        }
    }
    block
}

fn finish_reason(stop: ScriptedStop) -> &'static str {
    match stop {
        ScriptedStop::EndTurn
        | ScriptedStop::StopSequence
        | ScriptedStop::Refusal
        | ScriptedStop::Failed => "stop",
        ScriptedStop::ToolUse => "tool_calls",
        ScriptedStop::MaxTokens => "length",
        ScriptedStop::ContentFilter => "content_filter",
    }
}
