//! Rendering of the `OpenAI` Responses stream.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::chat::CREATED;
use super::sse::typed;
use super::{
    EncryptedReasoning, ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, VendorError,
    WireOptions,
};

/// Renders the events of a complete reply.
pub(super) fn frames(reply: &ScriptedReply, options: &WireOptions) -> Vec<Bytes> {
    let mut stream = ResponsesRenderer { out: Vec::new(), output: Vec::new(), reply, options };
    stream.emit("response.created", [("response", response(options, ResponsePhase::Running))]);
    stream.emit("response.in_progress", [("response", response(options, ResponsePhase::Running))]);
    for block in &reply.blocks {
        match block {
            ScriptedBlock::Text(text) => stream.message(text),
            ScriptedBlock::Thinking { text, signature } => stream.reasoning(text, signature),
            ScriptedBlock::RedactedThinking(data) => stream.reasoning("", data),
            ScriptedBlock::Call { id, name, arguments } => stream.call(id, name, arguments),
        }
    }
    stream.finish();
    stream.out
}

/// Renders an error in the middle of a stream as `response.failed`.
pub(super) fn error_frame(error: &VendorError, options: &WireOptions, sequence: usize) -> Bytes {
    let mut failed = response(options, ResponsePhase::Ended("failed"));
    set(&mut failed, "error", error.responses_error(&options.model));
    typed(&json!({"type": "response.failed", "sequence_number": sequence, "response": failed}))
}

/// Renders an error in the middle of a stream as an event `error`.
pub(super) fn error_event(error: &VendorError, options: &WireOptions, sequence: usize) -> Bytes {
    let mut event = error.responses_error(&options.model);
    set(&mut event, "type", json!("error"));
    set(&mut event, "param", Value::Null);
    set(&mut event, "sequence_number", json!(sequence));
    typed(&event)
}

#[derive(Clone, Copy)]
enum ResponsePhase {
    Running,
    Ended(&'static str),
}

struct ResponsesRenderer<'a> {
    out: Vec<Bytes>,
    /// Finished items; their number is the index of the open one.
    output: Vec<Value>,
    reply: &'a ScriptedReply,
    options: &'a WireOptions,
}

impl ResponsesRenderer<'_> {
    fn emit<const N: usize>(&mut self, kind: &str, fields: [(&str, Value); N]) {
        let mut event = Map::from_iter([
            ("type".to_owned(), json!(kind)),
            ("sequence_number".to_owned(), json!(self.out.len())),
        ]);
        event.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        self.out.push(typed(&Value::Object(event)));
    }

    /// Emits an event inside the open item; `part` names the position in it (`content_index`, `summary_index`).
    fn emit_in<const N: usize>(
        &mut self,
        kind: &str,
        item: &str,
        part: Option<&str>,
        fields: [(&str, Value); N],
    ) {
        let mut event = Map::from_iter([
            ("type".to_owned(), json!(kind)),
            ("sequence_number".to_owned(), json!(self.out.len())),
            ("item_id".to_owned(), json!(item)),
            ("output_index".to_owned(), json!(self.output.len())),
        ]);
        if let Some(part) = part {
            event.insert(part.to_owned(), json!(0));
        }
        event.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        self.out.push(typed(&Value::Object(event)));
    }

    fn open(&mut self, item: Value) {
        let index = json!(self.output.len());
        self.emit("response.output_item.added", [("output_index", index), ("item", item)]);
    }

    fn close(&mut self, item: Value) {
        let index = json!(self.output.len());
        self.emit("response.output_item.done", [("output_index", index), ("item", item.clone())]);
        self.output.push(item);
    }

    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_crow{:06}{:04}", self.options.serial, self.output.len())
    }

    fn message(&mut self, text: &str) {
        let id = self.item_id("msg");
        let message = |status: &str, content: Value| {
            json!({
                "id": id, "type": "message", "status": status, "content": content,
                "role": "assistant",
            })
        };
        let words = PartWords::of(self.reply.stop);
        let position = Some("content_index");
        self.open(message("in_progress", json!([])));
        self.emit_in("response.content_part.added", &id, position, [("part", words.part(""))]);
        for piece in self.options.pieces.cut(text) {
            self.emit_in(
                words.delta,
                &id,
                position,
                [
                    ("delta", json!(piece)),
                    ("logprobs", json!([])),
                    ("obfuscation", json!("p0Kc8dQ")),
                ],
            );
        }
        self.emit_in(
            words.done,
            &id,
            position,
            [(words.field, json!(text)), ("logprobs", json!([]))],
        );
        self.emit_in("response.content_part.done", &id, position, [("part", words.part(text))]);
        self.close(message("completed", json!([words.part(text)])));
    }

    fn reasoning(&mut self, summary: &str, encrypted: &str) {
        let id = self.item_id("rs");
        let item = |encrypted: &str, summary: Value| {
            let mut item = json!({"id": id, "type": "reasoning", "summary": summary});
            if self.options.encrypted == EncryptedReasoning::Sent && !encrypted.is_empty() {
                set(&mut item, "encrypted_content", json!(encrypted));
            }
            item
        };
        // The encrypted content at the start differs from the final one: clients must use the finished item.
        let opening = item(&format!("provisional-{}", self.options.serial), json!([]));
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        let parts = if summary.is_empty() { json!([]) } else { json!([part(summary)]) };
        let finished = item(encrypted, parts);
        self.open(opening);
        if !summary.is_empty() {
            let position = Some("summary_index");
            self.emit_in(
                "response.reasoning_summary_part.added",
                &id,
                position,
                [("part", part(""))],
            );
            for piece in self.options.pieces.cut(summary) {
                self.emit_in(
                    "response.reasoning_summary_text.delta",
                    &id,
                    position,
                    [("delta", json!(piece)), ("obfuscation", json!("mV1s"))],
                );
            }
            self.emit_in(
                "response.reasoning_summary_text.done",
                &id,
                position,
                [("text", json!(summary))],
            );
            self.emit_in(
                "response.reasoning_summary_part.done",
                &id,
                position,
                [("part", part(summary))],
            );
        }
        self.close(finished);
    }

    fn call(&mut self, call_id: &str, name: &str, arguments: &str) {
        let id = self.item_id("fc");
        let call = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "arguments": arguments,
                "call_id": call_id, "name": name,
            })
        };
        self.open(call("in_progress", ""));
        for piece in self.options.pieces.cut(arguments) {
            self.emit_in(
                "response.function_call_arguments.delta",
                &id,
                None,
                [("delta", json!(piece)), ("obfuscation", json!("Yq"))],
            );
        }
        self.emit_in(
            "response.function_call_arguments.done",
            &id,
            None,
            [("arguments", json!(arguments))],
        );
        self.close(call("completed", arguments));
    }

    fn finish(&mut self) {
        let status = match self.reply.stop {
            ScriptedStop::EndTurn
            | ScriptedStop::ToolUse
            | ScriptedStop::StopSequence
            | ScriptedStop::Refusal => "completed",
            ScriptedStop::MaxTokens | ScriptedStop::ContentFilter => "incomplete",
            ScriptedStop::Failed => "failed",
        };
        if self.reply.stop == ScriptedStop::Failed {
            let sequence = self.out.len();
            self.out.push(error_frame(&VendorError::Server, self.options, sequence));
            return;
        }
        let mut last = response(self.options, ResponsePhase::Ended(status));
        set(&mut last, "output", Value::Array(std::mem::take(&mut self.output)));
        set(&mut last, "usage", usage(&self.reply.usage));
        if let Some(reason) = incomplete_reason(self.reply.stop) {
            set(&mut last, "incomplete_details", json!({"reason": reason}));
        }
        self.emit(&format!("response.{status}"), [("response", last)]);
    }
}

/// Names that differ between visible text and a refusal.
struct PartWords {
    kind: &'static str,
    field: &'static str,
    delta: &'static str,
    done: &'static str,
}

impl PartWords {
    fn of(stop: ScriptedStop) -> Self {
        match stop {
            ScriptedStop::Refusal => Self {
                kind: "refusal",
                field: "refusal",
                delta: "response.refusal.delta",
                done: "response.refusal.done",
            },
            ScriptedStop::EndTurn
            | ScriptedStop::ToolUse
            | ScriptedStop::MaxTokens
            | ScriptedStop::StopSequence
            | ScriptedStop::ContentFilter
            | ScriptedStop::Failed => Self {
                kind: "output_text",
                field: "text",
                delta: "response.output_text.delta",
                done: "response.output_text.done",
            },
        }
    }

    fn part(&self, text: &str) -> Value {
        match self.kind {
            "refusal" => json!({"type": "refusal", "refusal": text}),
            _ => {
                json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
            }
        }
    }
}

fn response(options: &WireOptions, phase: ResponsePhase) -> Value {
    let status = match phase {
        ResponsePhase::Running => "in_progress",
        ResponsePhase::Ended(status) => status,
    };
    json!({
        "id": format!("resp_crow{:08}", options.serial),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "model": options.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": {"effort": "medium", "summary": "detailed"},
        "safety_identifier": null,
        "service_tier": "auto",
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
        "user": null,
        "metadata": {},
    })
}

fn usage(usage: &ReplyUsage) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt() + usage.output,
    })
}

fn incomplete_reason(stop: ScriptedStop) -> Option<&'static str> {
    match stop {
        ScriptedStop::MaxTokens => Some("max_output_tokens"),
        ScriptedStop::ContentFilter => Some("content_filter"),
        ScriptedStop::EndTurn
        | ScriptedStop::ToolUse
        | ScriptedStop::StopSequence
        | ScriptedStop::Refusal
        | ScriptedStop::Failed => None,
    }
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
