//! Adaptation of argument schemas to what providers accept.

use serde_json::{Map, Value, json};

/// Maximum bytes of a schema.
const LARGEST: usize = 32 * 1024;
/// Maximum depth of a schema.
const DEEPEST: usize = 32;
/// Keywords that providers refuse at the top level of a schema. The server checks its arguments itself.
const NOT_AT_THE_TOP: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "$schema"];

/// Returns the schema in a form that providers accept: an object within the limits. One that is too large or too deep
/// is replaced by a schema of any object.
pub(crate) fn provider_schema(schema: &Map<String, Value>) -> Value {
    let any = || json!({"type": "object", "properties": {}});
    let full = Value::Object(schema.clone());
    if !is_shallow(&full, DEEPEST) || full.to_string().len() > LARGEST {
        return any();
    }
    let mut fitted = schema.clone();
    for key in NOT_AT_THE_TOP {
        fitted.shift_remove(key);
    }
    fitted.insert("type".to_owned(), "object".into());
    if !fitted.get("properties").is_some_and(Value::is_object) {
        fitted.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    if fitted.get("required").is_some_and(|required| !is_list_of_names(required)) {
        fitted.shift_remove("required");
    }
    let mut fitted = Value::Object(fitted);
    clean(&mut fitted);
    fitted
}

fn is_list_of_names(required: &Value) -> bool {
    required.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, depth)),
        Value::Object(fields) => fields.values().all(|field| is_shallow(field, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Sanitises all strings, because the model reads the descriptions.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            let plain = crate::text::sanitise(text);
            if plain != *text {
                *text = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(schema: &Value) -> Value {
        provider_schema(schema.as_object().unwrap())
    }

    #[test]
    fn an_ordinary_schema_is_unchanged() {
        let schema = json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "required": ["a"]});
        assert_eq!(fitted(&schema), schema);
    }

    #[test]
    fn a_schema_of_another_type_becomes_an_object() {
        let object = json!({"type": "object", "properties": {}});
        assert_eq!(fitted(&json!({})), object);
        assert_eq!(fitted(&json!({"type": "array", "oneOf": [], "required": "a"})), object);
    }

    #[test]
    fn an_oversized_schema_becomes_one_of_any_object() {
        let object = json!({"type": "object", "properties": {}});
        let deep = (0..100).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
        assert_eq!(fitted(&deep), object);
        assert_eq!(fitted(&json!({"description": "x".repeat(LARGEST)})), object);
    }

    #[test]
    fn descriptions_are_sanitised() {
        let schema = json!({"properties": {"a": {"description": "b\u{1b}[31mc\u{e0041}"}}});
        assert_eq!(fitted(&schema)["properties"]["a"]["description"], "bc");
    }
}
