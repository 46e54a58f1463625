//! What is wrong with arguments, in words for a model.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::{
    argument_path::{ArgumentPath, short},
    keys::{only, squash},
    schema::{self, AdditionalProperties, JsonType, Schema},
};

/// How many wrong fields are named.
const MOST_LINES: usize = 20;
/// How much of a value is shown, in characters.
const SHOWN: usize = 60;
/// How many levels of a schema are worded.
const DEEPEST: u32 = 3;
/// How alike a misspelt key and its name are at least.
const ALIKE: f64 = 0.8;

/// Returns a line for each field of `value` that does not fit `schema`; none means that it fits.
///
/// Knows types, `enum`, `const`, required and forbidden fields, alternatives and local references, and lets pass
/// what it does not know. A tool without an input type can base its `check` on it.
pub fn schema_misfits(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::new(schema);
    misfits(&schema, schema.root(), value, &ArgumentPath::default())
}

/// Returns whether a value fits a node of a schema.
pub(super) fn conforms<'a>(
    schema: &Schema<'a>,
    node: &'a Value,
    value: &Value,
    place: &ArgumentPath,
) -> bool {
    misfits(schema, node, value, &place.within()).is_empty()
}

/// Words a call whose arguments are no object.
pub(super) fn not_an_object(tool: &str, reason: &str, schema: &Value) -> String {
    format!("The arguments of {tool} cannot be read: {reason}.\n{}", signature(schema))
}

/// Words a call whose arguments do not fit.
pub(super) fn misfitting(tool: &str, schema: &Value, value: &Value, reason: &str) -> String {
    let mut lines = schema_misfits(schema, value);
    if lines.is_empty() {
        // The tool knows more than its schema says.
        lines.push(reason.to_owned());
    } else {
        lines.extend(misspelt(schema, value));
    }
    let left = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if left > 0 {
        lines.push(format!("and {left} more"));
    }
    format!("The arguments of {tool} do not fit:\n- {}\n{}", lines.join("\n- "), signature(schema))
}

/// Names a value's kind with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match JsonType::of(value) {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer | JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

/// Shows a value, shortened.
pub(super) fn show(value: &Value) -> String {
    let mut text = CharLimitWriter { text: String::new(), left: SHOWN };
    if write!(text, "{value}").is_err() {
        text.text.push('…');
    }
    text.text
}

/// Takes so many characters and then refuses: a value may be a whole file.
struct CharLimitWriter {
    text: String,
    left: usize,
}

impl fmt::Write for CharLimitWriter {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for c in piece.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(c);
        }
        Ok(())
    }
}

fn misfits<'a>(
    schema: &Schema<'a>,
    node: &'a Value,
    value: &Value,
    place: &ArgumentPath,
) -> Vec<String> {
    if place.is_too_deep() {
        return Vec::new();
    }
    let Some(map) = schema.node(node) else { return Vec::new() };
    if !schema::admits(&schema::kinds(map), value) || !chosen(map, value) {
        return vec![wrong(schema, node, value, place)];
    }
    let mut lines = Vec::new();
    for part in schema::parts(map) {
        lines.extend(misfits(schema, part, value, &place.within()));
    }
    let variants = schema::variants(map);
    if !variants.is_empty()
        && !variants.iter().any(|variant| conforms(schema, variant, value, place))
    {
        match only(variants.iter().filter(|variant| may_be(schema, variant, value))) {
            Some(meant) => lines.extend(misfits(schema, meant, value, &place.within())),
            None => lines.push(wrong(schema, node, value, place)),
        }
    }
    match value {
        Value::Object(fields) => object_misfits(schema, map, fields, place, &mut lines),
        Value::Array(items) => {
            if let Some(node) = map.get("items") {
                for (index, item) in items.iter().enumerate() {
                    lines.extend(misfits(schema, node, item, &place.item(index)));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    lines
}

fn object_misfits<'a>(
    schema: &Schema<'a>,
    map: &'a Map<String, Value>,
    fields: &Map<String, Value>,
    place: &ArgumentPath,
    lines: &mut Vec<String>,
) {
    let declared = schema::properties(map);
    for name in schema::required(map).filter(|name| !fields.contains_key(*name)) {
        let wanted = declared.and_then(|declared| declared.get(name));
        let wanted =
            wanted.map_or_else(|| "a value".to_owned(), |node| self::wanted(schema, node, 0));
        lines.push(format!("{}: missing, wanted {wanted} (required)", place.field(name)));
    }
    for (key, value) in fields {
        let place = place.field(key);
        match (declared.and_then(|declared| declared.get(key)), schema::others(map)) {
            (Some(node), _) | (None, AdditionalProperties::Welcome(node)) => {
                lines.extend(misfits(schema, node, value, &place));
            }
            (None, AdditionalProperties::Forbidden) => lines.push(unknown(&place, key, declared)),
            (None, AdditionalProperties::Unspoken) => {}
        }
    }
}

/// Returns whether a value is among those that a node names, if it names any.
fn chosen(map: &Map<String, Value>, value: &Value) -> bool {
    schema::choices(map).is_none_or(|choices| choices.contains(&value))
}

/// Returns whether a variant is meant by a value: its kind and its tags are right.
pub(super) fn may_be<'a>(schema: &Schema<'a>, variant: &'a Value, value: &Value) -> bool {
    let Some(map) = schema.node(variant) else { return false };
    if !schema::admits(&schema::kinds(map), value) || !chosen(map, value) {
        return false;
    }
    let (Value::Object(fields), Some(declared)) = (value, schema::properties(map)) else {
        return true;
    };
    declared.iter().all(|(name, node)| match (node.get("const"), fields.get(name)) {
        (Some(tag), Some(given)) => tag == given,
        (Some(_), None) => false,
        (None, _) => true,
    })
}

fn wrong<'a>(schema: &Schema<'a>, node: &'a Value, value: &Value, place: &ArgumentPath) -> String {
    let (shown, wanted) = (show(value), wanted(schema, node, 0));
    match JsonType::of(value) {
        kind @ (JsonType::String | JsonType::Array | JsonType::Object) => {
            format!("{place}: came {shown} ({}), wanted {wanted}", kind.as_str())
        }
        JsonType::Null | JsonType::Boolean | JsonType::Integer | JsonType::Number => {
            format!("{place}: came {shown}, wanted {wanted}")
        }
    }
}

/// Says what a node takes.
fn wanted<'a>(schema: &Schema<'a>, node: &'a Value, depth: u32) -> String {
    let Some(map) = schema.node(node).filter(|_| depth < DEEPEST) else {
        return "any value".to_owned();
    };
    if let Some(choices) = schema::choices(map) {
        let choices: Vec<_> = choices.into_iter().take(MOST_LINES).map(show).collect();
        return match choices.as_slice() {
            [only] => only.clone(),
            several => format!("one of {}", several.join(", ")),
        };
    }
    let variants = schema::variants(map);
    if !variants.is_empty() {
        let mut texts: Vec<_> =
            variants.iter().take(MOST_LINES).map(|node| wanted(schema, node, depth + 1)).collect();
        texts.dedup();
        return texts.join(" or ");
    }
    let kinds = schema::kinds(map);
    let names: Vec<_> = kinds
        .iter()
        .map(|kind| match (kind, map.get("items")) {
            (JsonType::Array, Some(items)) => {
                format!("array of {}", wanted(schema, items, depth + 1))
            }
            _ => kind.as_str().to_owned(),
        })
        .collect();
    if names.is_empty() { "any value".to_owned() } else { names.join(" or ") }
}

/// Lists what a tool takes.
fn signature(schema: &Value) -> String {
    let schema = Schema::new(schema);
    let declared = schema.node(schema.root()).and_then(|map| Some((map, schema::properties(map)?)));
    let Some((map, declared)) = declared.filter(|(_, declared)| !declared.is_empty()) else {
        return "It takes one JSON object.".to_owned();
    };
    let fields = declared.iter().map(|(name, node)| {
        let required = schema::required(map).any(|required| required == name);
        let required = if required { ", required" } else { "" };
        format!("{name} ({}{required})", wanted(&schema, node, 0))
    });
    format!("It takes one JSON object: {}.", fields.collect::<Vec<_>>().join(", "))
}

/// Returns a line for each top-level key that is not declared and not forbidden: it may be a misspelt one.
fn misspelt(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::new(schema);
    let Some(map) = schema.node(schema.root()) else { return Vec::new() };
    let (Some(declared), Value::Object(fields), AdditionalProperties::Unspoken) =
        (schema::properties(map), value, schema::others(map))
    else {
        return Vec::new();
    };
    let keys = fields.keys().filter(|key| !declared.contains_key(*key)).take(MOST_LINES);
    keys.map(|key| unknown(&ArgumentPath::default().field(key), key, Some(declared))).collect()
}

fn unknown(place: &ArgumentPath, key: &str, declared: Option<&Map<String, Value>>) -> String {
    match declared.and_then(|declared| nearest(short(key), declared)) {
        Some(name) => format!("{place}: unknown, did you mean {name}?"),
        None => format!("{place}: unknown"),
    }
}

fn nearest<'a>(key: &str, declared: &'a Map<String, Value>) -> Option<&'a str> {
    let key = squash(key);
    let names = declared.keys().map(|name| (strsim::jaro_winkler(&key, &squash(name)), name));
    let (alike, name) = names.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (alike >= ALIKE).then_some(name.as_str())
}
