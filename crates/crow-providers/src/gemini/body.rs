//! Assembly of the request body.

use bytes::Bytes;
use crow_core::model::{ModelInfo, ToolChoice, ToolDefinition};
use serde::Serialize;
use serde_json::{Value, json};

use super::{schema, thinking};
use crate::codec::{EncodedMessage, Frame};

/// Assembles a request body.
pub(super) fn assemble(model: &ModelInfo, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
    // Serialising strings and JSON values cannot fail.
    let mut body =
        serde_json::to_vec(&head(model, frame)).expect("invariant: a head is plain JSON");
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    body.reserve(size + 64);
    // Reopens the object for one more field; its closing brace follows at the end.
    body.pop();
    body.extend_from_slice(b",\"contents\":[");
    let nonempty = messages.iter().filter(|message| !message.json.is_empty());
    for (position, message) in nonempty.enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&message.json);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Request fields other than the contents.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequestHead<'a> {
    generation_config: GenerationConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Value>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [TextPart<'a>; 1],
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

fn head<'a>(model: &ModelInfo, frame: Frame<'a>) -> GeminiRequestHead<'a> {
    let has_tools = !frame.tools.is_empty();
    let calling = match frame.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({"mode": "NONE"})),
        ToolChoice::Any => Some(json!({"mode": "ANY"})),
        ToolChoice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
    };
    let system = SystemInstruction { parts: [TextPart { text: frame.system }] };
    GeminiRequestHead {
        generation_config: GenerationConfig {
            max_output_tokens: frame.config.max_tokens,
            temperature: frame.config.temperature,
            thinking_config: thinking::config(model, frame.config),
        },
        tool_config: calling
            .filter(|_| has_tools)
            .map(|calling| json!({"functionCallingConfig": calling})),
        tools: has_tools.then(|| {
            let declarations: Value = frame.tools.iter().map(declaration).collect();
            json!([{"functionDeclarations": declarations}])
        }),
        system_instruction: (!frame.system.trim().is_empty()).then_some(system),
    }
}

fn declaration(tool: &ToolDefinition) -> Value {
    let mut declaration = json!({"name": tool.name, "description": tool.description});
    let parameters = schema::parameters(&tool.parameters);
    if let (Some(parameters), Some(fields)) = (parameters, declaration.as_object_mut()) {
        fields.insert("parametersJsonSchema".to_owned(), parameters);
    }
    declaration
}
