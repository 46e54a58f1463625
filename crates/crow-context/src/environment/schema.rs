//! JSON schemas of the state.
//!
//! Only the keywords are supported that describe the shape of plain data. A schema with any other one is refused: a
//! rule that is silently ignored would be worse than none.

use serde_json::Value;

use super::{EnvironmentError, EnvironmentState};

/// Deepest nesting of a schema.
const DEEPEST: usize = 64;
/// Keywords that only describe.
const ANNOTATIONS: [&str; 8] =
    ["$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated"];
/// Names of the types of JSON.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// A JSON schema that the state must satisfy.
///
/// Supported are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `minItems`,
/// `maxItems`, `minLength`, `maxLength`, `minimum` and `maximum`, and keywords that only describe.
#[derive(Debug, Clone, PartialEq)]
pub struct StateSchema(Value);

impl StateSchema {
    /// Makes a schema. Fails if it has a keyword that is not supported, or a malformed one.
    pub fn new(schema: Value) -> Result<Self, EnvironmentError> {
        check_schema(&schema, "", 0)?;
        Ok(Self(schema))
    }

    /// Checks a value. The error names the first violation.
    pub fn validate(&self, value: &Value) -> Result<(), EnvironmentError> {
        validate(&self.0, value, "")
    }

    pub(super) fn validate_state(&self, state: &EnvironmentState) -> Result<(), EnvironmentError> {
        let value = serde_json::to_value(state)
            .map_err(|source| EnvironmentError::WrongType { pointer: String::new(), source })?;
        self.validate(&value)
    }
}

/// Checks that each keyword is supported and well-formed.
fn check_schema(schema: &Value, at: &str, depth: usize) -> Result<(), EnvironmentError> {
    let refuse = |at: &str, message: &str| {
        Err(EnvironmentError::UnsupportedSchema {
            pointer: at.to_owned(),
            message: message.to_owned(),
        })
    };
    if depth > DEEPEST {
        return refuse(at, "it is nested too deep");
    }
    let keywords = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(keywords) => keywords,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return refuse(at, "a schema is an object or a boolean");
        }
    };
    for (keyword, rule) in keywords {
        let here = format!("{at}/{}", escape(keyword));
        match keyword.as_str() {
            "type" => {
                let is_known =
                    |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                let all_known = rule.as_array().map_or_else(
                    || is_known(rule),
                    |names| !names.is_empty() && names.iter().all(is_known),
                );
                if !all_known {
                    return refuse(&here, "unknown type");
                }
            }
            "enum" if rule.is_array() => {}
            "const" => {}
            "required" => {
                let names = rule.as_array();
                if !names.is_some_and(|names| names.iter().all(Value::is_string)) {
                    return refuse(&here, "a list of names is expected");
                }
            }
            "properties" => {
                let Some(properties) = rule.as_object() else {
                    return refuse(&here, "an object of schemas is expected");
                };
                for (name, schema) in properties {
                    check_schema(schema, &format!("{here}/{}", escape(name)), depth + 1)?;
                }
            }
            "additionalProperties" | "items" => check_schema(rule, &here, depth + 1)?,
            "minItems" | "maxItems" | "minLength" | "maxLength" if rule.is_u64() => {}
            "minimum" | "maximum" if rule.is_number() => {}
            "enum" | "minItems" | "maxItems" | "minLength" | "maxLength" | "minimum"
            | "maximum" => return refuse(&here, "its value has the wrong type"),
            other if ANNOTATIONS.contains(&other) => {}
            _ => return refuse(&here, "this keyword is not supported"),
        }
    }
    Ok(())
}

/// Checks a value against a schema that [`check_schema`] accepted.
fn validate(schema: &Value, value: &Value, at: &str) -> Result<(), EnvironmentError> {
    let violates = |message: String| {
        Err(EnvironmentError::SchemaViolation { pointer: at.to_owned(), message })
    };
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return violates("no value is allowed here".to_owned()),
    };
    // 1) Rules for any value.
    if let Some(types) = keywords.get("type") {
        let names: Vec<&str> = types
            .as_array()
            .map_or_else(|| vec![types], |names| names.iter().collect())
            .into_iter()
            .filter_map(Value::as_str)
            .collect();
        if !names.iter().any(|name| has_type(value, name)) {
            return violates(format!("expected {}", names.join(" or ")));
        }
    }
    if let Some(allowed) = keywords.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return violates("it is none of the allowed values".to_owned());
    }
    if keywords.get("const").is_some_and(|expected| expected != value) {
        return violates("it is not the expected value".to_owned());
    }
    // 2) Rules for its type.
    let bound = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
    let is_out = |count: usize, least: &str, most: &str| {
        let count = count as u64;
        bound(least).is_some_and(|least| count < least)
            || bound(most).is_some_and(|most| count > most)
    };
    match value {
        Value::Object(members) => {
            let required = keywords.get("required").and_then(Value::as_array);
            let mut names = required.into_iter().flatten().filter_map(Value::as_str);
            if let Some(missing) = names.find(|name| !members.contains_key(*name)) {
                return violates(format!("\"{missing}\" is missing"));
            }
            let properties = keywords.get("properties").and_then(Value::as_object);
            for (name, member) in members {
                let here = format!("{at}/{}", escape(name));
                let own = properties.and_then(|properties| properties.get(name));
                if let Some(schema) = own.or_else(|| keywords.get("additionalProperties")) {
                    validate(schema, member, &here)?;
                }
            }
        }
        Value::Array(items) => {
            if is_out(items.len(), "minItems", "maxItems") {
                return violates(format!("{} items are too few or too many", items.len()));
            }
            if let Some(schema) = keywords.get("items") {
                for (index, item) in items.iter().enumerate() {
                    validate(schema, item, &format!("{at}/{index}"))?;
                }
            }
        }
        Value::String(text) => {
            let count = text.chars().count();
            if is_out(count, "minLength", "maxLength") {
                return violates(format!("{count} characters are too few or too many"));
            }
        }
        Value::Number(_) => {
            let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
            let is_below = value.as_f64().zip(limit("minimum")).is_some_and(|(n, least)| n < least);
            let is_above = value.as_f64().zip(limit("maximum")).is_some_and(|(n, most)| n > most);
            if is_below || is_above {
                return violates(format!("{value} is too small or too large"));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    Ok(())
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}
