//! The JSON object that names a tool and its arguments.

use crow_core::{call::JsonPrefix, message::CallArguments};
use serde_json::{Map, Value};

use super::{
    offered::OfferedTools,
    place_content::{CallFailure, PlaceContent},
};

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
