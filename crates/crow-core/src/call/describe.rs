//! Messages for a model about arguments that do not fit, and the paths in them.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::{
    coerce::{only, squash},
    schema::{self, AdditionalProperties, JsonType, Schema},
};

/// Maximum number of lines in a message.
const MOST_LINES: usize = 20;
/// Maximum number of characters of a key or value in a message.
const SHOWN: usize = 60;
/// Maximum number of levels of a schema in a description.
const DEEPEST: u32 = 3;
/// Minimum Jaro-Winkler similarity of a misspelt key and a declared name.
const ALIKE: f64 = 0.8;

/// Returns a line for each field of `value` that does not fit `schema`; an empty list means that it fits.
///
/// Supports types, `enum`, `const`, required and forbidden fields, alternatives and local references; unsupported
/// keywords are ignored. A tool without an input type can use it for its `check`.
pub fn schema_misfits(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::new(schema);
    misfits(&schema, schema.root(), value, &ArgumentPath::default())
}

/// Returns true if a value fits a node of a schema.
pub(super) fn conforms<'a>(
    schema: &Schema<'a>,
    node: &'a Value,
    value: &Value,
    path: &ArgumentPath,
) -> bool {
    misfits(schema, node, value, &path.within()).is_empty()
}

/// Returns the message for arguments that are not an object.
pub(super) fn not_an_object_message(tool: &str, reason: &str, schema: &Value) -> String {
    format!("The arguments of {tool} cannot be read: {reason}.\n{}", signature(schema))
}

/// Returns the message for arguments that do not fit.
pub(super) fn misfit_message(tool: &str, schema: &Value, value: &Value, reason: &str) -> String {
    let mut lines = schema_misfits(schema, value);
    if lines.is_empty() {
        // The tool checks more than its schema states.
        lines.push(reason.to_owned());
    } else {
        lines.extend(misspelt(schema, value));
    }
    let remaining = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if remaining > 0 {
        lines.push(format!("and {remaining} more"));
    }
    format!("The arguments of {tool} do not fit:\n- {}\n{}", lines.join("\n- "), signature(schema))
}

/// Returns a value's type with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match JsonType::of_value(value) {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer | JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

/// Formats a value, shortened.
pub(super) fn show(value: &Value) -> String {
    let mut text = CharLimitWriter { text: String::new(), remaining: SHOWN };
    if write!(text, "{value}").is_err() {
        text.text.push('…');
    }
    text.text
}

/// Writer that fails after a number of characters: a value may be a whole file.
struct CharLimitWriter {
    text: String,
    remaining: usize,
}

impl fmt::Write for CharLimitWriter {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for c in piece.chars() {
            self.remaining = self.remaining.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(c);
        }
        Ok(())
    }
}

fn misfits<'a>(
    schema: &Schema<'a>,
    node: &'a Value,
    value: &Value,
    path: &ArgumentPath,
) -> Vec<String> {
    if path.is_too_deep() {
        return Vec::new();
    }
    let Some(map) = schema.node(node) else { return Vec::new() };
    // Type and enumeration first: below a wrong type nothing else is worth a line.
    if !schema::admits(&schema::kinds(map), value) || !is_choice(map, value) {
        return vec![mismatch(schema, node, value, path)];
    }
    let mut lines = Vec::new();
    for part in schema::parts(map) {
        lines.extend(misfits(schema, part, value, &path.within()));
    }
    // Of several variants only the one that is clearly meant is reported in detail.
    let variants = schema::variants(map);
    if !variants.is_empty()
        && !variants.iter().any(|variant| conforms(schema, variant, value, path))
    {
        match only(variants.iter().filter(|variant| may_match_variant(schema, variant, value))) {
            Some(variant) => lines.extend(misfits(schema, variant, value, &path.within())),
            None => lines.push(mismatch(schema, node, value, path)),
        }
    }
    match value {
        Value::Object(fields) => object_misfits(schema, map, fields, path, &mut lines),
        Value::Array(items) => {
            if let Some(node) = map.get("items") {
                for (index, item) in items.iter().enumerate() {
                    lines.extend(misfits(schema, node, item, &path.item(index)));
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
    path: &ArgumentPath,
    lines: &mut Vec<String>,
) {
    let declared = schema::properties(map);
    for name in schema::required(map).filter(|name| !fields.contains_key(*name)) {
        let expected = declared.and_then(|declared| declared.get(name));
        let expected =
            expected.map_or_else(|| "a value".to_owned(), |node| self::expected(schema, node, 0));
        lines.push(format!("{}: missing, wanted {expected} (required)", path.field(name)));
    }
    for (key, value) in fields {
        let path = path.field(key);
        match (declared.and_then(|declared| declared.get(key)), schema::additional_properties(map))
        {
            (Some(node), _) | (None, AdditionalProperties::Allowed(node)) => {
                lines.extend(misfits(schema, node, value, &path));
            }
            (None, AdditionalProperties::Forbidden) => lines.push(unknown(&path, key, declared)),
            (None, AdditionalProperties::Unspecified) => {}
        }
    }
}

/// Returns true if a value is among those that a node enumerates, or the node enumerates none.
fn is_choice(map: &Map<String, Value>, value: &Value) -> bool {
    schema::choices(map).is_none_or(|choices| choices.contains(&value))
}

/// Returns true if a value may be meant for a variant: its type and its tags match.
pub(super) fn may_match_variant<'a>(
    schema: &Schema<'a>,
    variant: &'a Value,
    value: &Value,
) -> bool {
    let Some(map) = schema.node(variant) else { return false };
    if !schema::admits(&schema::kinds(map), value) || !is_choice(map, value) {
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

fn mismatch<'a>(
    schema: &Schema<'a>,
    node: &'a Value,
    value: &Value,
    path: &ArgumentPath,
) -> String {
    let (shown, expected) = (show(value), expected(schema, node, 0));
    match JsonType::of_value(value) {
        kind @ (JsonType::String | JsonType::Array | JsonType::Object) => {
            format!("{path}: came {shown} ({}), wanted {expected}", kind.as_str())
        }
        JsonType::Null | JsonType::Boolean | JsonType::Integer | JsonType::Number => {
            format!("{path}: came {shown}, wanted {expected}")
        }
    }
}

/// Describes the values that a node accepts.
fn expected<'a>(schema: &Schema<'a>, node: &'a Value, depth: u32) -> String {
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
        let mut texts: Vec<_> = variants
            .iter()
            .take(MOST_LINES)
            .map(|node| expected(schema, node, depth + 1))
            .collect();
        texts.dedup();
        return texts.join(" or ");
    }
    let kinds = schema::kinds(map);
    let names: Vec<_> = kinds
        .iter()
        .map(|kind| match (kind, map.get("items")) {
            (JsonType::Array, Some(items)) => {
                format!("array of {}", expected(schema, items, depth + 1))
            }
            _ => kind.as_str().to_owned(),
        })
        .collect();
    if names.is_empty() { "any value".to_owned() } else { names.join(" or ") }
}

/// Describes the arguments that a tool accepts.
fn signature(schema: &Value) -> String {
    let schema = Schema::new(schema);
    let declared = schema.node(schema.root()).and_then(|map| Some((map, schema::properties(map)?)));
    let Some((map, declared)) = declared.filter(|(_, declared)| !declared.is_empty()) else {
        return "It takes one JSON object.".to_owned();
    };
    let fields = declared.iter().map(|(name, node)| {
        let required = schema::required(map).any(|required| required == name);
        let required = if required { ", required" } else { "" };
        format!("{name} ({}{required})", expected(&schema, node, 0))
    });
    format!("It takes one JSON object: {}.", fields.collect::<Vec<_>>().join(", "))
}

/// Returns a line for each top-level key that is neither declared nor forbidden: it may be misspelt.
fn misspelt(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::new(schema);
    let Some(map) = schema.node(schema.root()) else { return Vec::new() };
    let (Some(declared), Value::Object(fields), AdditionalProperties::Unspecified) =
        (schema::properties(map), value, schema::additional_properties(map))
    else {
        return Vec::new();
    };
    let keys = fields.keys().filter(|key| !declared.contains_key(*key)).take(MOST_LINES);
    keys.map(|key| unknown(&ArgumentPath::default().field(key), key, Some(declared))).collect()
}

fn unknown(path: &ArgumentPath, key: &str, declared: Option<&Map<String, Value>>) -> String {
    match declared.and_then(|declared| nearest(short(key), declared)) {
        Some(name) => format!("{path}: unknown, did you mean {name}?"),
        None => format!("{path}: unknown"),
    }
}

fn nearest<'a>(key: &str, declared: &'a Map<String, Value>) -> Option<&'a str> {
    let key = squash(key);
    let names = declared.keys().map(|name| (strsim::jaro_winkler(&key, &squash(name)), name));
    let (similarity, name) = names.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (similarity >= ALIKE).then_some(name.as_str())
}

/// Maximum depth of values and schemas that is examined.
const DEEPEST_PATH: u32 = 64;

/// A path into the arguments, written `edits[0].old_string`.
#[derive(Debug, Clone, Default)]
pub(super) struct ArgumentPath {
    path: String,
    depth: u32,
}

impl ArgumentPath {
    /// Returns the same path, one schema node deeper.
    pub(super) fn within(&self) -> Self {
        Self { path: self.path.clone(), depth: self.depth + 1 }
    }

    /// Returns the path of a field.
    pub(super) fn field(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{}", self.path, short(key)), depth: self.depth + 1 }
    }

    /// Returns the path of an item.
    pub(super) fn item(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), depth: self.depth + 1 }
    }

    /// Returns true if the path is too deep to examine: a schema may refer to itself.
    pub(super) fn is_too_deep(&self) -> bool {
        self.depth >= DEEPEST_PATH
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "arguments" } else { &self.path })
    }
}

/// Returns a key, shortened.
pub(super) fn short(key: &str) -> &str {
    key.char_indices().nth(SHOWN).map_or(key, |(end, _)| &key[..end])
}
