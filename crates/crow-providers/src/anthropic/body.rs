//! Puts a request body together.

use bytes::Bytes;
use crow_core::model::{ModelInfo, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use super::thinking::{Sampling, sampling};
use crate::codec::{EncodedMessage, Frame};

const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Puts a request body together. The service caches tools, system and messages in this order, up to the marks.
pub(super) fn assemble(model: &ModelInfo, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
    let mut body = to_bytes(&head(model, frame));
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    body.reserve(size + 128);
    // Room is made for one more field: the closing brace comes back at the end.
    body.pop();
    body.extend_from_slice(b",\"messages\":[");
    let marked = marked(messages);
    let spoken = messages.iter().enumerate().filter(|(_, message)| !message.json.is_empty());
    for (place, (index, message)) in spoken.enumerate() {
        if place > 0 {
            body.push(b',');
        }
        let mark = message.mark_at.filter(|_| marked.contains(&Some(index)));
        match mark.and_then(|at| message.json.split_at_checked(at)) {
            Some((before, after)) => {
                body.extend_from_slice(before);
                body.extend_from_slice(MARK);
                body.extend_from_slice(after);
            }
            None => body.extend_from_slice(&message.json),
        }
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Everything but the messages. It never is empty.
fn head(model: &ModelInfo, frame: Frame<'_>) -> Map<String, Value> {
    let Sampling { max_tokens, thinking, effort, temperature } = sampling(model, frame.config);
    let mut head = Map::new();
    let mut put = |name: &str, value: Value| drop(head.insert(name.to_owned(), value));
    put("model", json!(model.reference.model));
    put("max_tokens", json!(max_tokens));
    put("stream", json!(true));
    if let Some(thinking) = thinking {
        put("thinking", thinking);
    }
    if let Some(effort) = effort {
        put("output_config", json!({"effort": effort}));
    }
    if let Some(temperature) = temperature {
        put("temperature", decimal(temperature));
    }
    if !frame.tools.is_empty() {
        if frame.tool_choice == ToolChoice::None {
            put("tool_choice", json!({"type": "none"}));
        }
        put("tools", tools(frame.tools));
    }
    if !frame.system.trim().is_empty() {
        put("system", json!([marked_block(json!({"type": "text", "text": frame.system}))]));
    }
    head
}

/// The end of the first message, which holds what never changes, and the end of the last one that can bear a mark.
fn marked(messages: &[EncodedMessage]) -> [Option<usize>; 2] {
    let bears = |message: &EncodedMessage| message.mark_at.is_some();
    [messages.iter().position(bears), messages.iter().rposition(bears)]
}

fn tools(tools: &[ToolDefinition]) -> Value {
    let last = tools.len().saturating_sub(1);
    let one = |(index, tool): (usize, &ToolDefinition)| {
        let tool = json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters,
        });
        if index == last { marked_block(tool) } else { tool }
    };
    tools.iter().enumerate().map(one).collect()
}

fn marked_block(mut block: Value) -> Value {
    if let Some(fields) = block.as_object_mut() {
        fields.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    block
}

/// The shortest decimal that means this number, where a conversion to `f64` would show 0.7 as 0.699999988.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A map of values always has a JSON form.
fn to_bytes(head: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec(head).unwrap_or_default()
}
