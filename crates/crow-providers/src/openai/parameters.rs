//! Schemas of arguments in the form that `OpenAI` accepts.

use serde_json::{Map, Value, json};

/// Keywords that are refused at the top of a schema, which must describe a single object.
const REFUSED: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "const"];

/// Returns the schema with what the service requires: an object that names its properties.
///
/// Schemas of external tools may lack that, and one refused tool would fail the whole request.
pub(super) fn parameters(schema: &Value) -> Value {
    let mut fields: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !REFUSED.contains(&name.as_str()));
    fields.insert("type".to_owned(), json!("object"));
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_describes_an_object_with_properties() {
        let full = json!({
            "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }] } },
            "required": ["a"], "additionalProperties": false,
        });
        let empty = json!({ "type": "object", "properties": {} });
        for (schema, expected) in [
            (full.clone(), full),
            (json!({}), empty.clone()),
            (Value::Null, empty.clone()),
            (json!({ "type": "object" }), empty.clone()),
            (json!({ "properties": null, "type": ["object", "null"] }), empty.clone()),
            (json!({ "type": "object", "properties": {}, "oneOf": [{}], "not": {} }), empty),
        ] {
            let found = parameters(&schema);
            assert_eq!(found, expected, "{schema}");
        }
    }
}
