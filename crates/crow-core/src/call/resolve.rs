//! Resolution of a call: the tool and its arguments.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use super::{
    coerce::{CoercionScope, coerce},
    describe, lenient_json, name,
};
use crate::{
    message::{CallArguments, ToolCall},
    tool::{Tool, ToolRegistry},
};

/// A call that is ready to run.
#[derive(Clone)]
pub struct ResolvedCall {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Arguments that fit the tool.
    pub input: Value,
    /// The repairs, a line each, for the model.
    pub repairs: Vec<String>,
}

impl fmt::Debug for ResolvedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedCall")
            .field("tool", &self.tool.name())
            .field("input", &self.input)
            .field("repairs", &self.repairs)
            .finish()
    }
}

/// Error for a call that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidCall {
    /// The problem and the expected form, for the model.
    pub message: String,
}

/// Finds the tool and coerces the arguments, or describes what is wrong.
///
/// A call that was cut at the output limit must not be passed: its missing brackets would be added where it was cut.
pub fn resolve(registry: &ToolRegistry, call: &ToolCall) -> Result<ResolvedCall, InvalidCall> {
    let (tool, name_repair) =
        name::find(registry, &call.name).map_err(|message| InvalidCall { message })?;
    let mut repairs: Vec<String> = name_repair.into_iter().collect();
    let schema = tool.parameters_schema();
    let object = object_of(&call.arguments, &mut repairs).map_err(|reason| InvalidCall {
        message: describe::not_an_object_message(tool.name(), &reason, &schema),
    })?;
    let (input, input_repairs) = fit(tool.as_ref(), &schema, Value::Object(object))?;
    repairs.extend(input_repairs);
    Ok(ResolvedCall { tool: Arc::clone(tool), input, repairs })
}

/// Parses the arguments as one object.
fn object_of(
    arguments: &CallArguments,
    repairs: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let value = match arguments {
        CallArguments::Json(Value::Object(map)) => return Ok(map.clone()),
        CallArguments::Json(value) => value.clone(),
        CallArguments::Malformed(text) => read_text(text, repairs)?,
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => {
            repairs.push("The arguments were null and were read as {}.".to_owned());
            Ok(Map::new())
        }
        Value::String(text) => match read_text(&text, repairs)? {
            Value::Object(map) => {
                repairs.push(
                    "The arguments were a JSON text inside a string. Send the object itself."
                        .to_owned(),
                );
                Ok(map)
            }
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)) => {
                Err(format!("they are text that holds {}, not an object", describe::kind(&other)))
            }
        },
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Err(format!("they are {}, not an object", describe::kind(&other)))
        }
    }
}

fn read_text(text: &str, repairs: &mut Vec<String>) -> Result<Value, String> {
    let document =
        lenient_json::read(text).map_err(|error| format!("they are not JSON: {error}"))?;
    if !document.repairs.is_empty() {
        let mends: Vec<_> = document.repairs.iter().map(ToString::to_string).collect();
        repairs.push(format!("The arguments were not strict JSON; mended: {}.", mends.join(", ")));
    }
    Ok(document.value)
}

/// Coerces the arguments to what the tool accepts.
fn fit(tool: &dyn Tool, schema: &Value, input: Value) -> Result<(Value, Vec<String>), InvalidCall> {
    let Err(reason) = tool.check(&input) else {
        // Valid, but a misspelt optional key would be ignored silently.
        let (renamed, repairs) = coerce(schema, &input, CoercionScope::KeysOnly);
        let is_valid = !repairs.is_empty() && tool.check(&renamed).is_ok();
        return Ok(if is_valid { (renamed, repairs) } else { (input, Vec::new()) });
    };
    let (coerced, repairs) = coerce(schema, &input, CoercionScope::Everything);
    if tool.check(&coerced).is_ok() {
        return Ok((coerced, repairs));
    }
    Err(InvalidCall { message: describe::misfit_message(tool.name(), schema, &coerced, &reason) })
}
