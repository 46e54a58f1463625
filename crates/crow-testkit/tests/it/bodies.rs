//! Right request bodies, from which tests make wrong ones.

use crow_testkit::Dialect;
use serde_json::{Value, json};

/// A first request with one user message.
pub(crate) fn first(dialect: Dialect, says: &str) -> Value {
    match dialect {
        Dialect::AnthropicMessages => json!({
            "model": "test-model", "max_tokens": 1000, "stream": true,
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "system": [{"type": "text", "text": "Be good."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": says}]}],
        }),
        Dialect::OpenAiResponses => json!({
            "model": "test-model", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "instructions": "Be good.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": says}]}],
        }),
        Dialect::OpenAiChat => json!({
            "model": "test-model", "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "messages": [
                {"role": "system", "content": "Be good."},
                {"role": "user", "content": says},
            ],
        }),
        Dialect::Gemini => json!({
            "tools": [{"functionDeclarations": [{"name": "look"}]}],
            "systemInstruction": {"parts": [{"text": "Be good."}]},
            "contents": [{"role": "user", "parts": [{"text": says}]}],
        }),
    }
}

/// The name of the array of messages.
pub(crate) fn messages_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages | Dialect::OpenAiChat => "messages",
        Dialect::OpenAiResponses => "input",
        Dialect::Gemini => "contents",
    }
}

/// The messages of a body.
pub(crate) fn messages(dialect: Dialect, body: &mut Value) -> &mut Vec<Value> {
    body[messages_name(dialect)].as_array_mut().unwrap()
}

/// The body with more messages.
pub(crate) fn followed(dialect: Dialect, body: &Value, more: &[Value]) -> Value {
    let mut body = body.clone();
    messages(dialect, &mut body).extend(more.iter().cloned());
    body
}

/// The model's turn with calls of `look`, as items or one message.
pub(crate) fn calls(dialect: Dialect, ids: &[&str]) -> Vec<Value> {
    match dialect {
        Dialect::AnthropicMessages => {
            let blocks: Vec<_> = ids
                .iter()
                .map(|id| json!({"type": "tool_use", "id": id, "name": "look", "input": {}}))
                .collect();
            vec![json!({"role": "assistant", "content": blocks})]
        }
        Dialect::OpenAiResponses => ids
            .iter()
            .map(|id| {
                json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
            })
            .collect(),
        Dialect::OpenAiChat => {
            let calls: Vec<_> = ids
                .iter()
                .map(|id| {
                    json!({
                        "id": id, "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    })
                })
                .collect();
            vec![json!({"role": "assistant", "content": null, "tool_calls": calls})]
        }
        Dialect::Gemini => {
            let parts: Vec<_> = ids
                .iter()
                .map(|id| json!({"functionCall": {"id": id, "name": "look", "args": {}}}))
                .collect();
            vec![json!({"role": "model", "parts": parts})]
        }
    }
}

/// The results of calls.
pub(crate) fn results(dialect: Dialect, ids: &[&str]) -> Vec<Value> {
    match dialect {
        Dialect::AnthropicMessages => {
            let blocks: Vec<_> = ids
                .iter()
                .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "seen"}))
                .collect();
            vec![json!({"role": "user", "content": blocks})]
        }
        Dialect::OpenAiResponses => ids
            .iter()
            .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "seen"}))
            .collect(),
        Dialect::OpenAiChat => ids
            .iter()
            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": "seen"}))
            .collect(),
        Dialect::Gemini => {
            let parts: Vec<_> = ids
                .iter()
                .map(|id| {
                    json!({"functionResponse": {
                        "id": id, "name": "look", "response": {"output": "seen"},
                    }})
                })
                .collect();
            vec![json!({"role": "user", "parts": parts})]
        }
    }
}

/// What the model said.
pub(crate) fn said(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::AnthropicMessages => {
            json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
        }
        Dialect::OpenAiResponses => json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Dialect::OpenAiChat => json!({"role": "assistant", "content": text}),
        Dialect::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
    }
}

/// What the user says next.
pub(crate) fn asked(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::AnthropicMessages | Dialect::OpenAiChat => {
            json!({"role": "user", "content": text})
        }
        Dialect::OpenAiResponses => {
            json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
        }
        Dialect::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
    }
}
