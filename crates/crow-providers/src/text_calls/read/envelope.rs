//! The JSON object that names a tool and its arguments, arguments alone, and the tools that a model may call.

use crow_core::{
    call::{JsonPrefix, offered_name, read_json_prefix},
    message::CallArguments,
    model::ToolDefinition,
};
use serde_json::{Map, Value};

use super::reading::{CallFailure, PlaceContent};

/// Keys of the name, in the order of preference.
const NAME_KEYS: [&str; 6] = ["name", "tool_name", "function_name", "tool", "function", "action"];
/// Keys of the arguments.
const ARGUMENT_KEYS: [&str; 8] =
    ["arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs"];
/// Keys that may stand beside them.
const OTHER_KEYS: [&str; 4] = ["id", "type", "index", "call_id"];

/// How sure it is that an object is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvelopeContext {
    /// Marks around it say so.
    Marked,
    /// Nothing but the object says so: only the plain form with the exact name of a tool counts.
    Unmarked,
}

/// Adds the calls of a JSON value. Other values are failures if marks say that they are calls, otherwise they are
/// ignored.
pub(super) fn push_calls(
    json: &JsonPrefix<'_>,
    tools: OfferedTools<'_>,
    context: EnvelopeContext,
    parsed: &mut PlaceContent,
) {
    push_value(&json.value, tools, context, parsed);
    parsed.note(json.repairs.clone());
}

fn push_value(
    value: &Value,
    tools: OfferedTools<'_>,
    context: EnvelopeContext,
    parsed: &mut PlaceContent,
) {
    match value {
        Value::Array(items) => {
            for item in items {
                push_value(item, tools, context, parsed);
            }
        }
        Value::Object(fields) => push_object(fields, tools, context, parsed),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if context == EnvelopeContext::Marked {
                parsed.fail(CallFailure::Unreadable);
            }
        }
    }
}

fn push_object(
    fields: &Map<String, Value>,
    tools: OfferedTools<'_>,
    context: EnvelopeContext,
    parsed: &mut PlaceContent,
) {
    // 1) Objects around the call itself: `{"tool_calls": [...]}` and `{"type": "function", "function": {...}}`.
    if let Some(calls @ Value::Array(_)) = fields.get("tool_calls") {
        return push_value(calls, tools, context, parsed);
    }
    if let Some(Value::Object(inner)) = fields.get("function") {
        return push_object(inner, tools, context, parsed);
    }
    // 2) The name.
    let named = NAME_KEYS.iter().find_map(|key| Some((*key, fields.get(*key)?.as_str()?)));
    let Some((name_key, name)) = named else {
        return push_keyed(fields, tools, context, parsed);
    };
    let arguments = ARGUMENT_KEYS.iter().find_map(|key| Some((*key, fields.get(*key)?)));
    let is_plain = fields.iter().all(|(key, _)| {
        key == name_key
            || arguments.is_some_and(|(arguments_key, _)| arguments_key == key)
            || OTHER_KEYS.contains(&key.as_str())
    });
    let tool = match context {
        EnvelopeContext::Marked => tools.find(name),
        EnvelopeContext::Unmarked => tools.exact(name),
    };
    // 3) The description of a tool is not a call of it.
    if is_schema(fields, arguments.map(|(_, value)| value)) && name_key == "name" {
        if context == EnvelopeContext::Marked || tool.is_some() {
            parsed.fail(CallFailure::SchemaEcho(name.to_owned()));
        }
        return;
    }
    if context == EnvelopeContext::Unmarked && !(is_plain && arguments.is_some()) {
        return;
    }
    let Some(tool) = tool else {
        // Unmarked data may have a name, too, but hardly arguments.
        let is_call = context == EnvelopeContext::Marked
            || (name_key == "name"
                && arguments.is_some_and(|(key, value)| key == "arguments" && value.is_object()));
        if is_call {
            parsed.fail(CallFailure::UnknownTool(name.to_owned()));
        }
        return;
    };
    // 4) The arguments: under their key, or beside the name.
    let arguments = match arguments {
        Some((key, value)) if is_plain || !declares(&tool.parameters, key) => value.clone(),
        Some(_) | None => {
            let beside = fields.iter().filter(|(key, _)| {
                *key != name_key
                    && (declares(&tool.parameters, key) || !OTHER_KEYS.contains(&key.as_str()))
            });
            Value::Object(beside.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
    };
    parsed.push_call(name, CallArguments::Json(arguments));
}

/// Reads `{"read_file": {"path": "a"}}`.
fn push_keyed(
    fields: &Map<String, Value>,
    tools: OfferedTools<'_>,
    context: EnvelopeContext,
    parsed: &mut PlaceContent,
) {
    if context == EnvelopeContext::Unmarked {
        return;
    }
    let mut entries = fields.iter();
    match (entries.next(), entries.next()) {
        (Some((name, arguments @ Value::Object(_))), None) if tools.exact(name).is_some() => {
            parsed.push_call(name, CallArguments::Json(arguments.clone()));
        }
        (_, _) => parsed.fail(CallFailure::Unreadable),
    }
}

/// Returns true if an object describes a tool, or its arguments are the schema of arguments.
fn is_schema(fields: &Map<String, Value>, arguments: Option<&Value>) -> bool {
    let describes = |value: &Value| {
        value.get("properties").is_some_and(Value::is_object)
            && value.get("type").is_some_and(|kind| kind == "object")
    };
    arguments.is_some_and(describes)
        || (fields.contains_key("description") && fields.contains_key("parameters"))
}

fn declares(schema: &Value, key: &str) -> bool {
    schema.get("properties").is_some_and(|all| all.get(key).is_some())
}

/// Returns the tool that broken JSON names, and the text of its arguments.
pub(super) fn broken_call(text: &str) -> Option<(&str, &str)> {
    let after = |key: &str| {
        let (_, after) = text.split_once(&format!("\"{key}\""))?;
        Some(after.trim_start().strip_prefix(':')?.trim_start())
    };
    let name = after("name")?.strip_prefix('"')?.split('"').next()?;
    let arguments = ["arguments", "parameters"].into_iter().find_map(after)?;
    // The last bracket is that of the object around name and arguments.
    let arguments = arguments.trim_end();
    Some((name, arguments.strip_suffix('}').unwrap_or(arguments)))
}

/// Arguments with the text after them.
pub(super) struct ArgumentsPrefix<'a> {
    pub arguments: CallArguments,
    pub rest: &'a str,
    pub repairs: Vec<String>,
}

/// Reads the arguments at the beginning of a text. Those that are not JSON reach to the first of the marks `ends`, and
/// are malformed; without such a mark they are incomplete, and the result is `None`.
pub(super) fn read_arguments<'a>(text: &'a str, ends: &[&str]) -> Option<ArgumentsPrefix<'a>> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('{')
        && let Some(json) = read_json_prefix(trimmed).filter(|json| json.is_closed)
    {
        let arguments = CallArguments::Json(json.value);
        return Some(ArgumentsPrefix { arguments, rest: json.rest, repairs: json.repairs });
    }
    let end = ends.iter().filter_map(|end| text.find(end)).min()?;
    let arguments = CallArguments::parse(text[..end].trim());
    Some(ArgumentsPrefix { arguments, rest: &text[end..], repairs: Vec::new() })
}

/// Skips white space, then each of `tokens` that follows, in any order.
pub(super) fn skip_tokens<'a>(mut text: &'a str, tokens: &[&str]) -> &'a str {
    loop {
        let trimmed = text.trim_start();
        match tokens.iter().find_map(|token| trimmed.strip_prefix(token)) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

/// The tools of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfferedTools<'a>(pub(crate) &'a [ToolDefinition]);

impl<'a> OfferedTools<'a> {
    /// Finds the tool that a model means, under its own name or a misspelt one.
    pub(super) fn find(self, name: &str) -> Option<&'a ToolDefinition> {
        let names: Vec<&str> = self.0.iter().map(|tool| tool.name.as_str()).collect();
        let name = offered_name(&names, name)?;
        self.exact(name)
    }

    /// Finds the tool of exactly this name.
    pub(super) fn exact(self, name: &str) -> Option<&'a ToolDefinition> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

/// Returns the value of an argument that was written without quotes: text for an argument that may be text, otherwise
/// JSON if it is.
pub(super) fn raw_argument(tool: &ToolDefinition, key: &str, text: &str) -> Value {
    let kind = tool.parameters.pointer("/properties").and_then(|all| all.get(key)?.get("type"));
    let is_text = match kind {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        // Also alternatives, and keys that are not declared.
        Some(_) | None => false,
    };
    let json = (!is_text).then(|| serde_json::from_str(text.trim()).ok()).flatten();
    json.unwrap_or_else(|| Value::String(text.to_owned()))
}
