//! The cacheable part of a request as a sequence of texts.

use serde_json::{Value, json};

use super::body::{field, list, text};
use crate::wire::WireDialect;

/// Returns the tools, system prompt and messages of a body, in the order in which vendors cache them, without cache
/// marks. Each element is JSON text with its keys in their original order.
pub fn prefix_sequence(dialect: WireDialect, body: &Value) -> Vec<String> {
    let tools = list(body, "tools").iter().map(without_mark);
    let (system, messages): (Vec<Value>, Vec<Value>) = match dialect {
        WireDialect::AnthropicMessages => (
            blocks(field(body, "system")),
            list(body, "messages").iter().map(anthropic_message).collect(),
        ),
        WireDialect::OpenAiResponses => (optional(body, "instructions"), input_items(body)),
        WireDialect::OpenAiChat => (Vec::new(), list(body, "messages").to_vec()),
        WireDialect::Gemini => {
            (optional(body, "systemInstruction"), list(body, "contents").to_vec())
        }
    };
    tools.chain(system).chain(messages).map(|element| element.to_string()).collect()
}

/// Returns the key of a conversation: its system prompt and first user message.
pub(super) fn conversation_key(dialect: WireDialect, body: &Value) -> String {
    let is_user = |message: &&Value| text(message, "role") == "user";
    let first = |name: &str| list(body, name).iter().find(is_user).cloned();
    let (system, first) = match dialect {
        WireDialect::AnthropicMessages => (
            json!(blocks(field(body, "system"))),
            first("messages").map(|message| anthropic_message(&message)),
        ),
        WireDialect::OpenAiResponses => (
            field(body, "instructions").clone(),
            first("input").or_else(|| input_items(body).into_iter().next()),
        ),
        WireDialect::OpenAiChat => {
            let is_system =
                |message: &&Value| matches!(text(message, "role"), "system" | "developer");
            let system: Vec<_> = list(body, "messages").iter().take_while(is_system).collect();
            (json!(system), first("messages"))
        }
        WireDialect::Gemini => (field(body, "systemInstruction").clone(), first("contents")),
    };
    json!([system, first]).to_string()
}

fn optional(body: &Value, name: &str) -> Vec<Value> {
    body.get(name).cloned().into_iter().collect()
}

fn input_items(body: &Value) -> Vec<Value> {
    match field(body, "input") {
        Value::String(input) => vec![json!({"role": "user", "content": input})],
        Value::Array(items) => items.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn anthropic_message(message: &Value) -> Value {
    let blocks: Vec<_> = blocks(field(message, "content"))
        .into_iter()
        .map(|block| match block.get("content") {
            Some(Value::Array(inner)) => {
                let inner: Vec<_> = inner.iter().map(without_mark).collect();
                with_field(block, "content", json!(inner))
            }
            Some(_) | None => block,
        })
        .collect();
    with_field(message.clone(), "content", json!(blocks))
}

/// Returns content as blocks without marks; a text becomes one text block.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.iter().map(without_mark).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns a tool or block without its cache mark.
pub(in super::super) fn without_mark(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("cache_control");
    }
    value
}

fn with_field(mut value: Value, name: &str, content: Value) -> Value {
    if let Some(slot) = value.get_mut(name) {
        *slot = content;
    }
    value
}
