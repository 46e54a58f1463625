//! A value with its origin, and the merging of values.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use crow_core::config::{ConfigError, TextPosition};

use super::LayerKind;

/// The keys that give the kind of a table.
const KINDS: [&str; 2] = ["type", "level"];

/// A value with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Origin of the value.
    pub origin: ValueOrigin,
    /// The value.
    pub value: Value,
}

/// A value of a file before it is deserialised.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(BTreeMap<String, TableEntry>),
}

/// A value of a table, with the origin of its key.
#[derive(Debug, Clone, PartialEq)]
pub struct TableEntry {
    /// Origin of the key.
    pub key: ValueOrigin,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Returns the node at a path of keys, and of indexes in lists.
    pub fn find(&self, path: &[&str]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        let next = match &self.value {
            Value::Table(entries) => &entries.get(*first)?.node,
            Value::List(items) => items.get(first.parse::<usize>().ok()?)?,
            Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) => return None,
        };
        next.find(rest)
    }

    /// Returns the origin of the value at a path, or else that of the innermost value on the way there.
    pub fn origin_of(&self, path: &[&str]) -> &ValueOrigin {
        let end = (0..=path.len()).rev().find_map(|end| self.find(path.get(..end)?));
        end.map_or(&self.origin, |node| &node.origin)
    }

    /// Returns the text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Integer(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::List(_)
            | Value::Table(_) => None,
        }
    }

    /// Returns the value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => text.as_str().into(),
            Value::Integer(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Bool(value) => (*value).into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(entries) => {
                entries.iter().map(|(key, entry)| (key.clone(), entry.node.to_json())).collect()
            }
        }
    }

    /// Returns the values that are not tables, with their dotted keys.
    pub fn leaves(&self) -> Vec<(String, &Self)> {
        let mut leaves = Vec::new();
        self.collect("", &mut leaves);
        leaves
    }

    fn collect<'a>(&'a self, path: &str, leaves: &mut Vec<(String, &'a Self)>) {
        let Value::Table(entries) = &self.value else {
            leaves.push((path.to_owned(), self));
            return;
        };
        for (key, entry) in entries {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            entry.node.collect(&path, leaves);
        }
    }

    /// Merges a node over this one, key by key. Lists and single values are replaced as a whole. So is a table that
    /// gives its kind and is of another kind than this one, because its other keys would mean something else.
    #[must_use]
    pub fn overlaid_by(mut self, over: Self) -> Self {
        if !self.is_same_kind(&over) {
            return over;
        }
        match (&mut self.value, over.value) {
            (Value::Table(entries), Value::Table(others)) => {
                for (key, entry) in others {
                    match entries.remove(&key) {
                        Some(lower) => {
                            let node = lower.node.overlaid_by(entry.node);
                            entries.insert(key, TableEntry { key: entry.key, node });
                        }
                        None => {
                            entries.insert(key, entry);
                        }
                    }
                }
                self
            }
            (_, value) => Self { origin: over.origin, value },
        }
    }

    fn is_same_kind(&self, over: &Self) -> bool {
        let kind = |node: &Self| {
            KINDS.into_iter().find_map(|key| Some((key, node.find(&[key])?.value.clone())))
        };
        match kind(over) {
            Some(over_kind) => kind(self) == Some(over_kind),
            None => true,
        }
    }
}

impl fmt::Display for Node {
    /// Writes it as TOML, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{}", toml::Value::Float(*number)),
            Value::Bool(value) => write!(f, "{value}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (number, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if number == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Table(entries) => {
                f.write_str("{")?;
                for (number, (key, entry)) in entries.iter().enumerate() {
                    let comma = if number == 0 { " " } else { ", " };
                    write!(f, "{comma}{key} = {}", entry.node)?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Layer of the file.
    pub layer: LayerKind,
    /// Path for display.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
}

/// The origin of a value: file and byte. The line is counted only when it is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueOrigin {
    file: Arc<SourceFile>,
    byte: usize,
}

impl ValueOrigin {
    pub(crate) fn new(file: &Arc<SourceFile>, byte: usize) -> Self {
        Self { file: Arc::clone(file), byte }
    }

    /// Returns the layer.
    pub fn layer(&self) -> LayerKind {
        self.file.layer
    }

    /// Returns the file.
    pub fn file(&self) -> &SourceFile {
        &self.file
    }

    /// Returns line and column in the file.
    pub fn position(&self) -> TextPosition {
        TextPosition::of_byte(&self.file.text, self.byte)
    }

    /// Makes an error about the value at this origin.
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError {
            path: self.file.path.clone(),
            position: Some(self.position()),
            message: message.into(),
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.path.display(), self.position().line)
    }
}

impl fmt::Debug for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}
