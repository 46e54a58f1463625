//! Reduction of JSON Schema to the part that Gemini accepts.

use serde_json::{Map, Value, json};

/// Keywords that `parametersJsonSchema` accepts according to its documentation.
const KNOWN: &[&str] = &[
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
            other if KNOWN.contains(&other) => drop(reduced.insert(name.clone(), value.clone())),
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
    use super::*;

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
