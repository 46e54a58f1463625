//! Deserialisation of a node into a type with serde. Errors have the file, the line and the column.
//!
//! Errors of serde have no position. Each level of the deserializer adds the origin of its node to an error that has
//! none.

use std::{collections::btree_map, fmt, slice};

use crow_core::config::{ConfigError, reword_serde_error};
use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, Error as _, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected,
        Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::{Node, TableEntry, Value, ValueOrigin};

/// A message, and the origin once it is known.
#[derive(Debug)]
struct NodeError {
    origin: Option<ValueOrigin>,
    message: String,
}

impl Node {
    /// Deserialises it into a type.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ConfigError> {
        T::deserialize(NodeDeserializer(self)).map_err(|error| {
            let origin = error.origin.as_ref().unwrap_or(&self.origin);
            origin.error(reword_serde_error(&error.message))
        })
    }
}

impl NodeError {
    /// Adds an origin if there is none yet: the innermost one is the right one.
    fn at(self, origin: &ValueOrigin) -> Self {
        Self { origin: self.origin.or_else(|| Some(origin.clone())), ..self }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { origin: None, message: message.to_string() }
    }
}

/// A serde deserializer over a node.
#[derive(Clone, Copy)]
struct NodeDeserializer<'de>(&'de Node);

impl<'de> Deserializer<'de> for NodeDeserializer<'de> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Table(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), value: None })
            }
        };
        result.map_err(|error| error.at(&self.0.origin))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let result = match &self.0.value {
            Value::Text(text) => {
                let text: StrDeserializer<'_, NodeError> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            Value::Integer(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::List(_)
            | Value::Table(_) => Err(NodeError::invalid_type(self.0.unexpected(), &"a word")),
        };
        result.map_err(|error| error.at(&self.0.origin))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.deserialize_map(visitor)
    }

    // Only a table is a map: without this, the program has code for structs as lists too.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let result = match &self.0.value {
            Value::Table(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), value: None })
            }
            Value::Text(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::List(_) => Err(NodeError::invalid_type(self.0.unexpected(), &visitor)),
        };
        result.map_err(|error| error.at(&self.0.origin))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Text(text) => Unexpected::Str(text),
            Value::Integer(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::List(_) => Unexpected::Seq,
            Value::Table(_) => Unexpected::Map,
        }
    }
}

struct Items<'de>(slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        self.0.next().map(|node| seed.deserialize(NodeDeserializer(node))).transpose()
    }
}

struct Entries<'de> {
    entries: btree_map::Iter<'de, String, TableEntry>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        let Some((key, entry)) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.node);
        let name: StrDeserializer<'_, NodeError> = key.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|error| error.at(&entry.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        match self.value.take() {
            Some(node) => seed.deserialize(NodeDeserializer(node)),
            None => Err(NodeError::custom("a value was asked for before its key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::layers::{LayerKind, SourceFile, parse};

    #[derive(Debug, Deserialize)]
    struct Section {
        #[expect(dead_code, reason = "only read")]
        name: String,
    }

    #[test]
    fn a_list_is_not_taken_for_a_table() {
        for text in ["a = [\"x\"]", "a = \"x\""] {
            let file =
                SourceFile { layer: LayerKind::User, path: "/a.toml".into(), text: text.into() };
            let node = parse(file).unwrap();
            let error = node.read::<BTreeMap<String, Section>>().unwrap_err();
            let error = error.to_string();
            assert!(error.contains("expected") && error.contains("a.toml:1:5"), "{error}");
        }
    }
}
