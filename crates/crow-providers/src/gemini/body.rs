//! Puts a request body together.

use bytes::Bytes;
use crow_core::model::{ModelInfo, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use super::{schema, thinking};
use crate::codec::{EncodedMessage, Frame};

/// Puts a request body together.
pub(super) fn assemble(model: &ModelInfo, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
    // A map of values always has a JSON form.
    let mut body = serde_json::to_vec(&head(model, frame)).unwrap_or_default();
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    body.reserve(size + 64);
    // Room is made for one more field: the closing brace comes back at the end.
    body.pop();
    body.extend_from_slice(b",\"contents\":[");
    let spoken = messages.iter().filter(|message| !message.json.is_empty());
    for (place, message) in spoken.enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&message.json);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Everything but the contents. It never is empty.
fn head(model: &ModelInfo, frame: Frame<'_>) -> Map<String, Value> {
    let mut head = Map::new();
    let mut put = |name: &str, value: Value| drop(head.insert(name.to_owned(), value));
    put("generationConfig", generation_config(model, frame));
    if !frame.tools.is_empty() {
        if frame.tool_choice == ToolChoice::None {
            put("toolConfig", json!({"functionCallingConfig": {"mode": "NONE"}}));
        }
        let declarations: Value = frame.tools.iter().map(declaration).collect();
        put("tools", json!([{"functionDeclarations": declarations}]));
    }
    if !frame.system.trim().is_empty() {
        put("systemInstruction", json!({"parts": [{"text": frame.system}]}));
    }
    head
}

fn generation_config(model: &ModelInfo, frame: Frame<'_>) -> Value {
    let mut config = Map::new();
    if let Some(tokens) = frame.config.max_tokens {
        config.insert("maxOutputTokens".to_owned(), json!(tokens));
    }
    if let Some(temperature) = frame.config.temperature {
        // The shortest decimal: a conversion to `f64` would show 0.7 as 0.699999988.
        let decimal = temperature.to_string().parse::<f64>().map_or(Value::Null, Value::from);
        config.insert("temperature".to_owned(), decimal);
    }
    if let Some(thinking) = thinking::config(model, frame.config) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    Value::Object(config)
}

fn declaration(tool: &ToolDefinition) -> Value {
    let mut declaration = json!({"name": tool.name, "description": tool.description});
    let parameters = schema::parameters(&tool.parameters);
    if let (Some(parameters), Some(fields)) = (parameters, declaration.as_object_mut()) {
        fields.insert("parametersJsonSchema".to_owned(), parameters);
    }
    declaration
}
