//! The subset of JSON Schema that repair needs.

use std::cell::Cell;

use serde_json::{Map, Value};

/// Limit on nodes examined, after which everything counts as fitting. Schemas come from untrusted sources.
const BUDGET: u32 = 20_000;
/// Number of bytes of text that cost as much as a node.
const BYTES_PER_NODE: usize = 1024;
/// Maximum number of references followed in a row.
const MOST_HOPS: usize = 8;

/// The types of JSON values in schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl JsonType {
    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_i64() || number.is_u64() => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Null,
            Self::Boolean,
            Self::Integer,
            Self::Number,
            Self::String,
            Self::Array,
            Self::Object,
        ];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A schema of arguments, with a budget of work.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    root: &'a Value,
    budget: Cell<u32>,
}

impl<'a> Schema<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, budget: Cell::new(BUDGET) }
    }

    pub(super) fn root(&self) -> &'a Value {
        self.root
    }

    /// Takes from the budget; returns true if there was enough.
    pub(super) fn spend(&self, cost: u32) -> bool {
        let remaining = self.budget.get().checked_sub(cost);
        self.budget.set(remaining.unwrap_or(0));
        remaining.is_some()
    }

    /// Returns a node with its references resolved, or none if it is not an object or the budget is spent.
    pub(super) fn node(&self, node: &'a Value) -> Option<&'a Map<String, Value>> {
        if !self.spend(1) {
            return None;
        }
        let mut map = node.as_object()?;
        for _ in 0..MOST_HOPS {
            let Some(reference) = map.get("$ref") else { return Some(map) };
            let pointer = reference.as_str()?.strip_prefix('#')?;
            map = self.root.pointer(pointer)?.as_object()?;
        }
        None
    }
}

/// Returns the types that a node accepts; empty means any.
pub(super) fn kinds(node: &Map<String, Value>) -> Vec<JsonType> {
    match node.get("type") {
        Some(Value::String(name)) => JsonType::parse(name).into_iter().collect(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).filter_map(JsonType::parse).collect()
        }
        _ if node.contains_key("properties") => vec![JsonType::Object],
        _ if node.contains_key("items") => vec![JsonType::Array],
        _ => Vec::new(),
    }
}

/// Returns true if a value is of one of the types.
pub(super) fn admits(kinds: &[JsonType], value: &Value) -> bool {
    let kind = JsonType::of_value(value);
    kinds.is_empty()
        || kinds.contains(&kind)
        || (kind == JsonType::Integer && kinds.contains(&JsonType::Number))
}

/// Returns the values that a node enumerates, if it does.
pub(super) fn choices(node: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (node.get("const"), node.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        (None, _) => None,
    }
}

/// Returns the alternatives of a node; empty if it has none.
pub(super) fn variants(node: &Map<String, Value>) -> &[Value] {
    let list = node.get("anyOf").or_else(|| node.get("oneOf")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the schemas that must all match.
pub(super) fn parts(node: &Map<String, Value>) -> &[Value] {
    node.get("allOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the declared fields.
pub(super) fn properties(node: &Map<String, Value>) -> Option<&Map<String, Value>> {
    node.get("properties").and_then(Value::as_object)
}

/// Returns the names of the required fields.
pub(super) fn required(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A node's rule about fields that it does not declare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AdditionalProperties<'a> {
    /// There is no rule: such fields are most likely misspelt.
    Unspecified,
    /// Such fields are not allowed.
    Forbidden,
    /// Such fields are allowed if they fit this schema.
    Allowed(&'a Value),
}

/// Returns a node's rule about fields that it does not declare.
pub(super) fn additional_properties(node: &Map<String, Value>) -> AdditionalProperties<'_> {
    match node.get("additionalProperties") {
        None => AdditionalProperties::Unspecified,
        Some(Value::Bool(false)) => AdditionalProperties::Forbidden,
        Some(schema) => AdditionalProperties::Allowed(schema),
    }
}

/// Returns the cost of copying a value.
pub(super) fn weight(value: &Value) -> u32 {
    let below = match value {
        Value::Array(items) => items.iter().map(weight).fold(0, u32::saturating_add),
        Value::Object(fields) => fields.values().map(weight).fold(0, u32::saturating_add),
        Value::String(text) => u32::try_from(text.len() / BYTES_PER_NODE).unwrap_or(u32::MAX),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    below.saturating_add(1)
}
