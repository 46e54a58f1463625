//! Makes values fit a schema where they can mean only one thing.

use serde_json::{Map, Number, Value};

use super::{
    argument_path::{ArgumentPath, short},
    describe::{conforms, may_be, show},
    keys::{self, only},
    lenient_json::{self, JsonRepair},
    schema::{self, AdditionalProperties, JsonType, Schema},
};

/// What may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoercionScope {
    /// Only misspelt keys.
    KeysOnly,
    /// Whatever does not fit.
    Everything,
}

/// Returns `value` with what does not fit made fit as far as it goes, and a line for each change.
pub(super) fn coerce(schema: &Value, value: &Value, extent: CoercionScope) -> (Value, Vec<String>) {
    let schema = Schema::new(schema);
    let mut coercion = Coercion { schema: &schema, extent, repairs: Vec::new() };
    let mut value = value.clone();
    coercion.fit(&mut value, schema.root(), &ArgumentPath::default());
    (value, coercion.repairs)
}

struct Coercion<'s, 'a> {
    schema: &'s Schema<'a>,
    extent: CoercionScope,
    repairs: Vec<String>,
}

impl<'a> Coercion<'_, 'a> {
    fn fit(&mut self, value: &mut Value, node: &'a Value, place: &ArgumentPath) {
        if place.is_too_deep() {
            return;
        }
        let Some(map) = self.schema.node(node) else { return };
        for part in schema::parts(map) {
            self.fit(value, part, &place.within());
        }
        self.fit_variant(value, schema::variants(map), place);
        if self.extent == CoercionScope::Everything {
            self.fit_kind(value, map, place);
            self.fit_choice(value, map, place);
        }
        match value {
            Value::Object(fields) => self.fit_fields(fields, map, place),
            Value::Array(items) => {
                if let Some(node) = map.get("items") {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.fit(item, node, &place.item(index));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Fits a value to the one variant that it must mean, else to the first that it can be made fit.
    fn fit_variant(&mut self, value: &mut Value, variants: &'a [Value], place: &ArgumentPath) {
        if let Some(meant) =
            only(variants.iter().filter(|variant| may_be(self.schema, variant, value)))
        {
            return self.fit(value, meant, &place.within());
        }
        let fits = |value: &Value| {
            variants.iter().any(|variant| conforms(self.schema, variant, value, place))
        };
        if self.extent == CoercionScope::KeysOnly || fits(value) {
            return;
        }
        for variant in variants {
            if let Some((fitted, repairs)) = self.try_fit(value, variant, &place.within()) {
                *value = fitted;
                self.repairs.extend(repairs);
                return;
            }
        }
    }

    /// Returns a fitting value made of `value`.
    fn try_fit(
        &self,
        value: &Value,
        node: &'a Value,
        place: &ArgumentPath,
    ) -> Option<(Value, Vec<String>)> {
        if !self.schema.spend(schema::weight(value)) {
            return None;
        }
        let mut attempt =
            Coercion { schema: self.schema, extent: self.extent, repairs: Vec::new() };
        let mut fitted = value.clone();
        attempt.fit(&mut fitted, node, place);
        conforms(self.schema, node, &fitted, place).then_some((fitted, attempt.repairs))
    }

    fn fit_kind(&mut self, value: &mut Value, map: &'a Map<String, Value>, place: &ArgumentPath) {
        let kinds = schema::kinds(map);
        if schema::admits(&kinds, value) {
            return;
        }
        let Some(fitted) = kinds.iter().find_map(|kind| self.convert(value, *kind, map, place))
        else {
            return;
        };
        self.repairs.push(format!("{place}: {} was read as {}.", show(value), reading(&fitted)));
        *value = fitted;
    }

    fn convert(
        &self,
        value: &Value,
        wanted: JsonType,
        map: &'a Map<String, Value>,
        place: &ArgumentPath,
    ) -> Option<Value> {
        match (value, wanted) {
            (Value::String(text), JsonType::Integer | JsonType::Number) => {
                let number: Number = serde_json::from_str(text.trim()).ok()?;
                let number = Value::Number(number);
                schema::admits(&[wanted], &number).then_some(number)
            }
            (Value::Number(number), JsonType::Integer) => whole(number),
            (Value::String(text), JsonType::Boolean) => {
                let text = text.trim().to_ascii_lowercase();
                matches!(text.as_str(), "true" | "false").then(|| Value::Bool(text == "true"))
            }
            (Value::String(text), JsonType::Object) => parse(text).filter(Value::is_object),
            (Value::String(text), JsonType::Array) if text.trim_start().starts_with(['[', '{']) => {
                let parsed = parse(text)?;
                if parsed.is_array() { Some(parsed) } else { self.wrap(&parsed, map, place) }
            }
            (
                Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Object(_),
                JsonType::Array,
            ) => self.wrap(value, map, place),
            (Value::Object(_) | Value::Array(_) | Value::Number(_), JsonType::String) => {
                Some(Value::String(value.to_string()))
            }
            _ => None,
        }
    }

    /// Makes an array of one, if its item then fits.
    fn wrap(
        &self,
        value: &Value,
        map: &'a Map<String, Value>,
        place: &ArgumentPath,
    ) -> Option<Value> {
        let fits = match map.get("items") {
            None => true,
            Some(node) => self.try_fit(value, node, &place.item(0)).is_some(),
        };
        fits.then(|| Value::Array(vec![value.clone()]))
    }

    /// Replaces a misspelt choice.
    fn fit_choice(&mut self, value: &mut Value, map: &'a Map<String, Value>, place: &ArgumentPath) {
        let Some(choices) = schema::choices(map) else { return };
        let Value::String(given) = &*value else { return };
        if choices.contains(&&*value) {
            return;
        }
        let squashed = keys::squash(given);
        let same = choices
            .into_iter()
            .filter(|choice| choice.as_str().is_some_and(|name| keys::squash(name) == squashed));
        if let Some(choice) = only(same) {
            self.repairs.push(format!("{place}: {} was read as {choice}.", show(value)));
            *value = choice.clone();
        }
    }

    fn fit_fields(
        &mut self,
        fields: &mut Map<String, Value>,
        map: &'a Map<String, Value>,
        place: &ArgumentPath,
    ) {
        let others = schema::others(map);
        if let (Some(declared), AdditionalProperties::Unspoken | AdditionalProperties::Forbidden) =
            (schema::properties(map), others)
        {
            let pairs = keys::renames(fields, declared);
            for (from, to) in &pairs {
                self.repairs.push(format!(
                    "The argument is named {}, not {}.",
                    place.field(to),
                    short(from)
                ));
            }
            if !pairs.is_empty() {
                keys::rename(fields, &pairs);
            }
        }
        if self.extent == CoercionScope::Everything {
            self.drop_nulls(fields, map, place);
        }
        for (key, value) in fields {
            let declared = schema::properties(map).and_then(|declared| declared.get(key));
            match (declared, others) {
                (Some(node), _) | (None, AdditionalProperties::Welcome(node)) => {
                    self.fit(value, node, &place.field(key));
                }
                (None, AdditionalProperties::Unspoken | AdditionalProperties::Forbidden) => {}
            }
        }
    }

    /// Leaves out optional fields that are null although they cannot be.
    fn drop_nulls(
        &mut self,
        fields: &mut Map<String, Value>,
        map: &'a Map<String, Value>,
        place: &ArgumentPath,
    ) {
        let Some(declared) = schema::properties(map) else { return };
        fields.retain(|key, value| {
            let Some(node) = declared.get(key) else { return true };
            let dropped = value.is_null()
                && !schema::required(map).any(|name| name == key)
                && !conforms(self.schema, node, value, place);
            if dropped {
                self.repairs.push(format!("{}: null was left out.", place.field(key)));
            }
            !dropped
        });
    }
}

/// Reads JSON that came as text. The string around it is whole, so a text without its end is no JSON.
fn parse(text: &str) -> Option<Value> {
    let document = lenient_json::read(text).ok()?;
    (!document.mends.contains(&JsonRepair::Unclosed)).then_some(document.value)
}

/// A number without a fraction as an integer, where it is exact.
fn whole(number: &Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT)?;
    format!("{float:.0}").parse::<i64>().ok().map(Value::from)
}

/// Says what a value was read as without repeating a long one.
fn reading(fitted: &Value) -> String {
    match fitted {
        Value::Null | Value::Bool(_) | Value::Number(_) => fitted.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
