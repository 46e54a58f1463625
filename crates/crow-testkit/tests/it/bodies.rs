//! Valid request bodies, from which tests derive invalid ones.

use crow_testkit::WireDialect;
use serde_json::{Value, json};

/// Returns the body of a first request with one user message.
pub(crate) fn first_request(dialect: WireDialect, says: &str) -> Value {
    match dialect {
        WireDialect::AnthropicMessages => json!({
            "model": "test-model", "max_tokens": 1000, "stream": true,
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "system": [{"type": "text", "text": "Be good."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": says}]}],
        }),
        WireDialect::OpenAiResponses => json!({
            "model": "test-model", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "instructions": "Be good.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": says}]}],
        }),
        WireDialect::OpenAiChat => json!({
            "model": "test-model", "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "look"}}],
            "messages": [
                {"role": "system", "content": "Be good."},
                {"role": "user", "content": says},
            ],
        }),
        WireDialect::Gemini => json!({
            "tools": [{"functionDeclarations": [{"name": "look"}]}],
            "systemInstruction": {"parts": [{"text": "Be good."}]},
            "contents": [{"role": "user", "parts": [{"text": says}]}],
        }),
    }
}

/// Returns the name of the array of messages.
pub(crate) fn messages_name(dialect: WireDialect) -> &'static str {
    match dialect {
        WireDialect::AnthropicMessages | WireDialect::OpenAiChat => "messages",
        WireDialect::OpenAiResponses => "input",
        WireDialect::Gemini => "contents",
    }
}

/// Returns the messages of a body.
pub(crate) fn messages(dialect: WireDialect, body: &mut Value) -> &mut Vec<Value> {
    body[messages_name(dialect)].as_array_mut().unwrap()
}

/// Returns the body with further messages.
pub(crate) fn with_messages(dialect: WireDialect, body: &Value, more: &[Value]) -> Value {
    let mut body = body.clone();
    messages(dialect, &mut body).extend(more.iter().cloned());
    body
}

/// Returns the model's turn with calls of `look`, as items or one message.
pub(crate) fn calls(dialect: WireDialect, ids: &[&str]) -> Vec<Value> {
    match dialect {
        WireDialect::AnthropicMessages => {
            let blocks: Vec<_> = ids
                .iter()
                .map(|id| json!({"type": "tool_use", "id": id, "name": "look", "input": {}}))
                .collect();
            vec![json!({"role": "assistant", "content": blocks})]
        }
        WireDialect::OpenAiResponses => ids
            .iter()
            .map(|id| {
                json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
            })
            .collect(),
        WireDialect::OpenAiChat => {
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
        WireDialect::Gemini => {
            let parts: Vec<_> = ids
                .iter()
                .map(|id| json!({"functionCall": {"id": id, "name": "look", "args": {}}}))
                .collect();
            vec![json!({"role": "model", "parts": parts})]
        }
    }
}

/// Returns the results of calls.
pub(crate) fn results(dialect: WireDialect, ids: &[&str]) -> Vec<Value> {
    match dialect {
        WireDialect::AnthropicMessages => {
            let blocks: Vec<_> = ids
                .iter()
                .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "seen"}))
                .collect();
            vec![json!({"role": "user", "content": blocks})]
        }
        WireDialect::OpenAiResponses => ids
            .iter()
            .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "seen"}))
            .collect(),
        WireDialect::OpenAiChat => ids
            .iter()
            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": "seen"}))
            .collect(),
        WireDialect::Gemini => {
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

/// Returns a text message of the model.
pub(crate) fn assistant_text(dialect: WireDialect, text: &str) -> Value {
    match dialect {
        WireDialect::AnthropicMessages => {
            json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
        }
        WireDialect::OpenAiResponses => json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        WireDialect::OpenAiChat => json!({"role": "assistant", "content": text}),
        WireDialect::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
    }
}

/// Returns a text message of the user.
pub(crate) fn user_text(dialect: WireDialect, text: &str) -> Value {
    match dialect {
        WireDialect::AnthropicMessages | WireDialect::OpenAiChat => {
            json!({"role": "user", "content": text})
        }
        WireDialect::OpenAiResponses => {
            json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
        }
        WireDialect::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
    }
}
