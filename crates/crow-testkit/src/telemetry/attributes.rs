//! The rules of attributes.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};

use super::conventions::{ValueType, attribute_rule};

/// Checks names, types and values of attributes.
pub(super) fn check_attributes(
    owner: &str,
    attributes: &[KeyValue],
    allows_content: bool,
    out: &mut Vec<String>,
) {
    if value(attributes, "server.address").is_some() && value(attributes, "server.port").is_none() {
        out.push(format!("{owner}: server.address without server.port"));
    }
    for (index, attribute) in attributes.iter().enumerate() {
        let key = attribute.key.as_str();
        if attributes[..index].iter().any(|other| other.key == key) {
            out.push(format!("{owner}: {key} twice"));
        }
        let Some(rule) = attribute_rule(key) else {
            out.push(format!("{owner}: {key} is no attribute of the conventions"));
            continue;
        };
        let Some(value) = attribute.value.as_ref().and_then(|value| value.value.as_ref()) else {
            out.push(format!("{owner}: {key} has no value"));
            continue;
        };
        if type_of(value) != Some(rule.value_type) {
            out.push(format!("{owner}: {key} is {value:?}, not {:?}", rule.value_type));
        }
        if rule.is_content && !allows_content {
            out.push(format!("{owner}: {key} is content"));
        }
        match value {
            Value::StringValue(text) if text.is_empty() => {
                out.push(format!("{owner}: {key} is empty"));
            }
            Value::StringValue(text)
                if !rule.values.is_empty() && !rule.values.contains(&text.as_str()) =>
            {
                out.push(format!("{owner}: {key} is {text}, none of {:?}", rule.values));
            }
            Value::IntValue(number) if *number < 0 => {
                out.push(format!("{owner}: {key} is {number}"));
            }
            Value::DoubleValue(number) if !number.is_finite() || *number < 0.0 => {
                out.push(format!("{owner}: {key} is {number}"));
            }
            _ => {}
        }
    }
}

/// Returns the value of an attribute.
pub(super) fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    attribute.value.as_ref()?.value.as_ref()
}

/// Returns the type of a value; `None` if no attribute may have it.
pub(super) fn type_of(value: &Value) -> Option<ValueType> {
    let is_text = |value: &AnyValue| matches!(value.value, Some(Value::StringValue(_)));
    match value {
        Value::StringValue(_) => Some(ValueType::Text),
        Value::IntValue(_) => Some(ValueType::Integer),
        Value::DoubleValue(_) => Some(ValueType::Float),
        Value::BoolValue(_) => Some(ValueType::Flag),
        Value::ArrayValue(list) if list.values.iter().all(is_text) => Some(ValueType::Texts),
        _ => None,
    }
}
