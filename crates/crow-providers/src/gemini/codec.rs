//! The codec of a conversation, and the body of its requests: thinking as the generation of the model has it, and the
//! part of JSON Schema that Gemini accepts.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    message::Message,
    model::{ModelConfig, ModelInfo, Thinking, ToolChoice, ToolDefinition},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{content::ContentEncoder, decoder::GeminiDecoder};
use crate::codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame, with_array};

/// Codec of the format `streamGenerateContent`.
pub(crate) struct GeminiCodec {
    contents: ContentEncoder,
    route: ConversationRoute,
}

impl GeminiCodec {
    pub(crate) fn new(route: ConversationRoute) -> Self {
        Self { contents: ContentEncoder::new(&route), route }
    }
}

impl Codec for GeminiCodec {
    fn path(&self) -> String {
        let model = self.route.model.reference.model.trim_start_matches("models/");
        format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        self.contents.encode(message)
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        with_array(&head(&self.route.model, frame), "contents", None, messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(self.route.origin.clone()))
    }
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
    /// A signed number of 32 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
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
            seed: frame.config.seed.and_then(|seed| i32::try_from(seed).ok()),
            thinking_config: thinking_config(model, frame.config),
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
    let parameters = parameters(&tool.parameters);
    if let (Some(parameters), Some(fields)) = (parameters, declaration.as_object_mut()) {
        fields.insert("parametersJsonSchema".to_owned(), parameters);
    }
    declaration
}

/// Placeholder that the service accepts as the signature of a call that the model did not make itself.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Way in which a model is configured to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeminiThinkingStyle {
    /// Cannot think.
    Never,
    /// A budget of tokens (2.5).
    Budget,
    /// A level (3 and later).
    Level,
}

/// Returns the `thinkingConfig`, if there is something to set.
fn thinking_config(model: &ModelInfo, config: &ModelConfig) -> Option<Value> {
    let name = model.reference.model.as_str();
    let is_pro = name.contains("pro");
    let setting = match (generation(name), config.thinking) {
        (GeminiThinkingStyle::Never, _) => return None,
        (GeminiThinkingStyle::Budget | GeminiThinkingStyle::Level, None) => {
            return model.abilities.thinking.then(|| json!({"includeThoughts": true}));
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Off | Thinking::Tokens(0))) => {
            // These models always think: the lowest level is set.
            return Some(json!({"thinkingLevel": if is_pro { "low" } else { "minimal" }}));
        }
        (GeminiThinkingStyle::Budget, Some(Thinking::Off | Thinking::Tokens(0))) => {
            return Some(json!({"thinkingBudget": if is_pro { 128 } else { 0 }}));
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Low)) => ("thinkingLevel", json!("low")),
        // The first of them had only two levels.
        (GeminiThinkingStyle::Level, Some(Thinking::Medium)) if name.contains("gemini-3-pro") => {
            ("thinkingLevel", json!("high"))
        }
        (GeminiThinkingStyle::Level, Some(Thinking::Medium)) => ("thinkingLevel", json!("medium")),
        (GeminiThinkingStyle::Level, Some(Thinking::High)) => ("thinkingLevel", json!("high")),
        (GeminiThinkingStyle::Budget, Some(Thinking::Low)) => ("thinkingBudget", json!(2048)),
        (GeminiThinkingStyle::Budget, Some(Thinking::Medium)) => ("thinkingBudget", json!(8192)),
        (GeminiThinkingStyle::Budget, Some(Thinking::High)) => ("thinkingBudget", json!(24_576)),
        (
            GeminiThinkingStyle::Budget | GeminiThinkingStyle::Level,
            Some(Thinking::Tokens(tokens)),
        ) => ("thinkingBudget", json!(tokens)),
    };
    Some(json!({"includeThoughts": true, setting.0: setting.1}))
}

/// Returns true if the model refuses calls without a signature.
pub(super) fn wants_signatures(model: &str) -> bool {
    generation(model) == GeminiThinkingStyle::Level
}

fn generation(model: &str) -> GeminiThinkingStyle {
    let Some((_, name)) = model.split_once("gemini-") else { return GeminiThinkingStyle::Never };
    let version = name.split('-').next().unwrap_or_default();
    match version.parse::<f32>() {
        Ok(version) if version < 2.5 => GeminiThinkingStyle::Never,
        Ok(version) if version < 3.0 => GeminiThinkingStyle::Budget,
        // Names such as `gemini-flash-latest` refer to the newest model.
        Ok(_) | Err(_) => GeminiThinkingStyle::Level,
    }
}

/// Keywords that `parametersJsonSchema` accepts according to its documentation.
const SCHEMA_KEYWORDS: &[&str] = &[
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "required",
    "title",
    "type",
];

/// Returns the schema of a tool's arguments; none if it has no arguments.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.filter(|properties| !properties.is_empty())?;
    Some(reduce(schema))
}

fn reduce(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut reduced = Map::new();
    for (name, value) in fields {
        match name.as_str() {
            // The keys here are names of arguments, not keywords.
            "properties" | "$defs" => drop(reduced.insert(name.clone(), reduce_each(value))),
            "anyOf" | "oneOf" | "prefixItems" => {
                let list = value.as_array().map(|list| list.iter().map(reduce).collect());
                reduced.insert(name.clone(), list.unwrap_or_default());
            }
            "items" | "additionalProperties" => drop(reduced.insert(name.clone(), reduce(value))),
            "const" => drop(reduced.insert("enum".to_owned(), json!([value]))),
            other if SCHEMA_KEYWORDS.contains(&other) => {
                drop(reduced.insert(name.clone(), value.clone()));
            }
            _ => {}
        }
    }
    Value::Object(reduced)
}

fn reduce_each(schemas: &Value) -> Value {
    let Value::Object(schemas) = schemas else { return schemas.clone() };
    schemas.iter().map(|(name, schema)| (name.clone(), reduce(schema))).collect()
}

#[cfg(test)]
mod tests {
    use crow_core::model::{Abilities, ModelRef, ToolCallFormat};

    use super::*;

    fn config_of(model: &str, thinking: Option<Thinking>) -> Option<Value> {
        let info = ModelInfo {
            reference: ModelRef { provider: "gemini".to_owned(), model: model.to_owned() },
            context_window: None,
            max_output_tokens: None,
            abilities: Abilities { tools: true, vision: true, thinking: true },
            tool_calls: Some(ToolCallFormat::Native),
        };
        thinking_config(&info, &ModelConfig { thinking, ..ModelConfig::default() })
    }

    #[test]
    fn each_generation_gets_its_own_fields() {
        for (model, thinking, expected) in [
            ("gemini-2.0-flash", Some(Thinking::High), Value::Null),
            ("gemma-3", None, Value::Null),
            ("gemini-2.5-flash", None, json!({"includeThoughts": true})),
            ("gemini-2.5-flash", Some(Thinking::Off), json!({"thinkingBudget": 0})),
            ("gemini-2.5-pro", Some(Thinking::Off), json!({"thinkingBudget": 128})),
            (
                "gemini-2.5-pro",
                Some(Thinking::Tokens(500)),
                json!({"includeThoughts": true, "thinkingBudget": 500}),
            ),
            (
                "gemini-3-pro-preview",
                Some(Thinking::Medium),
                json!({"includeThoughts": true, "thinkingLevel": "high"}),
            ),
            (
                "models/gemini-3.8-flash",
                Some(Thinking::Medium),
                json!({"includeThoughts": true, "thinkingLevel": "medium"}),
            ),
            ("gemini-flash-latest", Some(Thinking::Off), json!({"thinkingLevel": "minimal"})),
        ] {
            assert_eq!(
                config_of(model, thinking).unwrap_or_default(),
                expected,
                "{model} {thinking:?}"
            );
        }
    }

    #[test]
    fn unknown_keywords_are_removed_but_not_properties_with_their_names() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "default": {"type": "string", "default": "x", "pattern": "^x"},
                "kind": {"const": "a"},
                "list": {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}},
                "either": {"anyOf": [{"type": "null", "examples": [1]}, {"$ref": "#/$defs/D"}]},
            },
            "required": ["default"],
            "additionalProperties": false,
            "$defs": {"D": {"type": "object", "unevaluatedProperties": false}},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "default": {"type": "string"},
                "kind": {"enum": ["a"]},
                "list": {"type": "array", "items": {"type": "integer"}},
                "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/D"}]},
            },
            "required": ["default"],
            "additionalProperties": false,
            "$defs": {"D": {"type": "object"}},
        });
        assert_eq!(parameters(&schema), Some(expected));
    }

    #[test]
    fn a_tool_without_arguments_has_no_schema() {
        assert_eq!(parameters(&json!({"type": "object", "properties": {}})), None);
        assert_eq!(parameters(&json!({"type": "object"})), None);
    }
}
