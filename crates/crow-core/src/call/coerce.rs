//! Coercion of values to a schema, if they can mean only one thing.
//!
//! [`Coercion`] walks value and schema together: first the key names, then type, choice and fields of each value. A
//! conversion that cannot be judged locally (a variant, an item of a new array) is tried on a copy and kept only if the
//! result conforms; the budget of [`Schema`] bounds these attempts.

use serde_json::{Map, Number, Value};

use super::{
    describe::{ArgumentPath, conforms, may_match_variant, short, show},
    lenient_json::{self, JsonRepair},
    schema::{self, AdditionalProperties, JsonType, Schema},
};

/// The changes that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoercionScope {
    /// Only renaming misspelt keys.
    KeysOnly,
    /// Every coercion of a value that does not fit.
    Everything,
}

/// Returns `value` with mismatches corrected as far as possible, and a line for each change.
pub(super) fn coerce(schema: &Value, value: &Value, scope: CoercionScope) -> (Value, Vec<String>) {
    let schema = Schema::new(schema);
    let mut coercion = Coercion { schema: &schema, scope, repairs: Vec::new() };
    let mut value = value.clone();
    coercion.fit(&mut value, schema.root(), &ArgumentPath::default());
    (value, coercion.repairs)
}

struct Coercion<'s, 'a> {
    schema: &'s Schema<'a>,
    scope: CoercionScope,
    repairs: Vec<String>,
}

impl<'a> Coercion<'_, 'a> {
    fn fit(&mut self, value: &mut Value, node: &'a Value, path: &ArgumentPath) {
        if path.is_too_deep() {
            return;
        }
        let Some(map) = self.schema.node(node) else { return };
        for part in schema::parts(map) {
            self.fit(value, part, &path.within());
        }
        // Variants before the type of the value itself: they decide which type is meant.
        self.fit_variant(value, schema::variants(map), path);
        if self.scope == CoercionScope::Everything {
            self.fit_kind(value, map, path);
            self.fit_choice(value, map, path);
        }
        match value {
            Value::Object(fields) => self.fit_fields(fields, map, path),
            Value::Array(items) => {
                if let Some(node) = map.get("items") {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.fit(item, node, &path.item(index));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Fits a value to the only variant that it can mean, else to the first that it can be coerced to.
    fn fit_variant(&mut self, value: &mut Value, variants: &'a [Value], path: &ArgumentPath) {
        if let Some(variant) =
            only(variants.iter().filter(|variant| may_match_variant(self.schema, variant, value)))
        {
            return self.fit(value, variant, &path.within());
        }
        let fits = |value: &Value| {
            variants.iter().any(|variant| conforms(self.schema, variant, value, path))
        };
        if self.scope == CoercionScope::KeysOnly || fits(value) {
            return;
        }
        for variant in variants {
            if let Some((fitted, repairs)) = self.try_fit(value, variant, &path.within()) {
                *value = fitted;
                self.repairs.extend(repairs);
                return;
            }
        }
    }

    /// Returns `value` coerced to a node, if the result conforms and the budget allows the attempt.
    fn try_fit(
        &self,
        value: &Value,
        node: &'a Value,
        path: &ArgumentPath,
    ) -> Option<(Value, Vec<String>)> {
        if !self.schema.spend(schema::weight(value)) {
            return None;
        }
        let mut attempt = Coercion { schema: self.schema, scope: self.scope, repairs: Vec::new() };
        let mut fitted = value.clone();
        attempt.fit(&mut fitted, node, path);
        conforms(self.schema, node, &fitted, path).then_some((fitted, attempt.repairs))
    }

    /// Converts a value of the wrong type.
    fn fit_kind(&mut self, value: &mut Value, map: &'a Map<String, Value>, path: &ArgumentPath) {
        let kinds = schema::kinds(map);
        if schema::admits(&kinds, value) {
            return;
        }
        let Some(fitted) = kinds.iter().find_map(|kind| self.convert(value, *kind, map, path))
        else {
            return;
        };
        self.repairs.push(format!("{path}: {} was read as {}.", show(value), reading(&fitted)));
        *value = fitted;
    }

    /// Returns `value` as the type `wanted`, if the conversion is lossless.
    fn convert(
        &self,
        value: &Value,
        wanted: JsonType,
        map: &'a Map<String, Value>,
        path: &ArgumentPath,
    ) -> Option<Value> {
        match (value, wanted) {
            (Value::String(text), JsonType::Integer | JsonType::Number) => {
                let number: Number = serde_json::from_str(text.trim()).ok()?;
                let number = Value::Number(number);
                schema::admits(&[wanted], &number).then_some(number)
            }
            (Value::Number(number), JsonType::Integer) => integral(number),
            (Value::String(text), JsonType::Boolean) => {
                let text = text.trim().to_ascii_lowercase();
                matches!(text.as_str(), "true" | "false").then(|| Value::Bool(text == "true"))
            }
            (Value::String(text), JsonType::Object) => parse(text).filter(Value::is_object),
            (Value::String(text), JsonType::Array) if text.trim_start().starts_with(['[', '{']) => {
                let parsed = parse(text)?;
                if parsed.is_array() { Some(parsed) } else { self.wrap(&parsed, map, path) }
            }
            (
                Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Object(_),
                JsonType::Array,
            ) => self.wrap(value, map, path),
            (Value::Object(_) | Value::Array(_) | Value::Number(_), JsonType::String) => {
                Some(Value::String(value.to_string()))
            }
            _ => None,
        }
    }

    /// Wraps a value in an array of one item, if the item then fits.
    fn wrap(
        &self,
        value: &Value,
        map: &'a Map<String, Value>,
        path: &ArgumentPath,
    ) -> Option<Value> {
        let fits = match map.get("items") {
            None => true,
            Some(node) => self.try_fit(value, node, &path.item(0)).is_some(),
        };
        fits.then(|| Value::Array(vec![value.clone()]))
    }

    /// Replaces a choice that differs only in spelling.
    fn fit_choice(&mut self, value: &mut Value, map: &'a Map<String, Value>, path: &ArgumentPath) {
        let Some(choices) = schema::choices(map) else { return };
        let Value::String(given) = &*value else { return };
        if choices.contains(&&*value) {
            return;
        }
        let squashed = squash(given);
        let same = choices
            .into_iter()
            .filter(|choice| choice.as_str().is_some_and(|name| squash(name) == squashed));
        if let Some(choice) = only(same) {
            self.repairs.push(format!("{path}: {} was read as {choice}.", show(value)));
            *value = choice.clone();
        }
    }

    fn fit_fields(
        &mut self,
        fields: &mut Map<String, Value>,
        map: &'a Map<String, Value>,
        path: &ArgumentPath,
    ) {
        let others = schema::additional_properties(map);
        // Keys are renamed only if other fields are not explicitly allowed: else an unknown key may be intended.
        if let (
            Some(declared),
            AdditionalProperties::Unspecified | AdditionalProperties::Forbidden,
        ) = (schema::properties(map), others)
        {
            let pairs = renames(fields, declared);
            for (from, to) in &pairs {
                self.repairs.push(format!(
                    "The argument is named {}, not {}.",
                    path.field(to),
                    short(from)
                ));
            }
            if !pairs.is_empty() {
                rename(fields, &pairs);
            }
        }
        if self.scope == CoercionScope::Everything {
            self.drop_nulls(fields, map, path);
        }
        for (key, value) in fields {
            let declared = schema::properties(map).and_then(|declared| declared.get(key));
            match (declared, others) {
                (Some(node), _) | (None, AdditionalProperties::Allowed(node)) => {
                    self.fit(value, node, &path.field(key));
                }
                (None, AdditionalProperties::Unspecified | AdditionalProperties::Forbidden) => {}
            }
        }
    }

    /// Removes optional fields that are null although the schema does not allow it.
    fn drop_nulls(
        &mut self,
        fields: &mut Map<String, Value>,
        map: &'a Map<String, Value>,
        path: &ArgumentPath,
    ) {
        let Some(declared) = schema::properties(map) else { return };
        fields.retain(|key, value| {
            let Some(node) = declared.get(key) else { return true };
            let dropped = value.is_null()
                && !schema::required(map).any(|name| name == key)
                && !conforms(self.schema, node, value, path);
            if dropped {
                self.repairs.push(format!("{}: null was left out.", path.field(key)));
            }
            !dropped
        });
    }
}

/// Parses JSON that came as text. The string around it is complete, so a text with a missing end is not accepted.
fn parse(text: &str) -> Option<Value> {
    let document = lenient_json::read(text).ok()?;
    (!document.repairs.contains(&JsonRepair::Unclosed)).then_some(document.value)
}

/// Converts a number without a fraction to an integer, if that is exact.
fn integral(number: &Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT)?;
    format!("{float:.0}").parse::<i64>().ok().map(Value::from)
}

/// Describes the new value without repeating a long one.
fn reading(fitted: &Value) -> String {
    match fitted {
        Value::Null | Value::Bool(_) | Value::Number(_) => fitted.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Groups of names that models use for each other, squashed.
const SYNONYMS: &[&[&str]] = &[
    &[
        "path",
        "filepath",
        "filename",
        "file",
        "targetfile",
        "absolutepath",
        "relativeworkspacepath",
    ],
    &["path", "directory", "dir", "dirpath", "directorypath", "folder"],
    &["oldstring", "oldstr", "oldtext"],
    &["newstring", "newstr", "newtext"],
    &["content", "contents", "filetext", "filecontent"],
    &["command", "cmd", "commandline"],
    &["pattern", "regex", "query"],
    &["url", "uri"],
    &["todos", "todolist", "items"],
];

/// Maximum number of unknown keys to examine. More of them are not misspelt names.
const MOST_UNKNOWN: usize = 32;

/// Normalizes a name so that its spellings (`camelCase`, `snake_case`, `kebab-case`, `UPPER`) are equal.
pub(super) fn squash(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns pairs of a key of `fields` and the name in `declared` that it should be, if unambiguous.
fn renames(fields: &Map<String, Value>, declared: &Map<String, Value>) -> Vec<(String, String)> {
    let unknown: Vec<_> = fields.keys().filter(|key| !declared.contains_key(*key)).collect();
    if unknown.is_empty() || unknown.len() > MOST_UNKNOWN {
        return Vec::new();
    }
    let absent: Vec<_> = declared.keys().filter(|name| !fields.contains_key(*name)).collect();
    let mut pairs = unambiguous(&unknown, &absent, |key, name| squash(key) == squash(name));
    let unknown: Vec<_> =
        unknown.into_iter().filter(|key| pairs.iter().all(|(from, _)| from != *key)).collect();
    let absent: Vec<_> =
        absent.into_iter().filter(|name| pairs.iter().all(|(_, to)| to != *name)).collect();
    pairs.extend(unambiguous(&unknown, &absent, are_synonyms));
    pairs
}

/// Renames keys and preserves their order.
fn rename(fields: &mut Map<String, Value>, pairs: &[(String, String)]) {
    let old = std::mem::take(fields);
    for (key, value) in old {
        let to = pairs.iter().find(|(from, _)| *from == key).map(|(_, to)| to.clone());
        fields.insert(to.unwrap_or(key), value);
    }
}

/// Returns the pairs of a key and a name that match each other and nothing else.
fn unambiguous(
    keys: &[&String],
    names: &[&String],
    same: impl Fn(&str, &str) -> bool,
) -> Vec<(String, String)> {
    let pairs = keys.iter().filter_map(|key| {
        let name = only(names.iter().filter(|name| same(key, name)))?;
        only(keys.iter().filter(|other| same(other, name)))?;
        Some(((*key).clone(), (*name).clone()))
    });
    pairs.collect()
}

fn are_synonyms(one: &str, other: &str) -> bool {
    let (one, other) = (squash(one), squash(other));
    SYNONYMS.iter().any(|group| group.contains(&one.as_str()) && group.contains(&other.as_str()))
}

/// Returns the only item, or none if there is not exactly one.
pub(super) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}
