//! All layers together.

use std::{collections::BTreeMap, sync::Arc};

use crow_core::config::{ConfigError, SourceText};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{ConfigLayer, LayerKind, Node, SourceFile, TableEntry, Value, ValueOrigin};

/// The layers, the lowest first.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    layers: Vec<ConfigLayer>,
}

impl Layers {
    /// Makes layers, which can be given in any order.
    pub fn new(mut layers: Vec<ConfigLayer>) -> Self {
        layers.sort_by_key(ConfigLayer::kind);
        Self { layers }
    }

    /// Returns them, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ConfigLayer> {
        self.layers.iter()
    }

    /// Returns the layer of a kind.
    pub fn of_kind(&self, kind: LayerKind) -> Option<&ConfigLayer> {
        self.iter().find(|layer| layer.kind() == kind)
    }

    /// Replaces the content of a file of a layer, as if it had been written.
    #[must_use]
    pub fn with_file(mut self, kind: LayerKind, name: &str, text: &str) -> Self {
        let layers = self
            .layers
            .into_iter()
            .map(|layer| if layer.kind() == kind { layer.with_file(name, text) } else { layer });
        self.layers = layers.collect();
        self
    }

    /// Returns the sorted names of the files in a folder of any layer that have this ending, without the ending.
    pub fn names(&self, folder: &str, ending: &str) -> Vec<String> {
        let mut names: Vec<_> = self.iter().flat_map(|layer| layer.names(folder, ending)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads a file of the highest layer that has it. Returns the layer, too.
    pub fn topmost(&self, name: &str) -> Result<Option<(&ConfigLayer, String)>, ConfigError> {
        for layer in self.iter().rev() {
            if let Some(text) = layer.read(name)? {
                return Ok(Some((layer, text)));
            }
        }
        Ok(None)
    }

    /// Reads a TOML file of every layer that has it and merges them. Returns `None` if no layer has it.
    pub fn merged(&self, name: &str) -> Result<Option<Node>, ConfigError> {
        let mut merged: Option<Node> = None;
        for layer in self.iter() {
            let Some(text) = layer.read(name)? else { continue };
            let node = parse(SourceFile { layer: layer.kind(), path: layer.path(name), text })?;
            merged = Some(match merged {
                Some(lower) => lower.overlaid_by(node),
                None => node,
            });
        }
        Ok(merged)
    }
}

/// Parses TOML into nodes with their origins.
pub fn parse(file: SourceFile) -> Result<Node, ConfigError> {
    let file = Arc::new(file);
    let table = DeTable::parse(&file.text).map_err(|error| {
        let source = SourceText { path: &file.path, text: &file.text };
        source.syntax_error(error.span(), error.message())
    })?;
    Ok(Node { origin: ValueOrigin::new(&file, 0), value: read_table(&file, table.get_ref())? })
}

fn read_table(file: &Arc<SourceFile>, table: &DeTable<'_>) -> Result<Value, ConfigError> {
    let mut entries = BTreeMap::new();
    for (key, value) in table {
        let at = ValueOrigin::new(file, key.span().start);
        let node = read_value(file, value)?;
        entries.insert(key.get_ref().to_string(), TableEntry { key: at, node });
    }
    Ok(Value::Table(entries))
}

fn read_value(file: &Arc<SourceFile>, value: &Spanned<DeValue<'_>>) -> Result<Node, ConfigError> {
    let origin = ValueOrigin::new(file, value.span().start);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(parsed.map_err(|_| origin.error("this number is too large"))?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse::<f64>();
            Value::Float(parsed.map_err(|_| origin.error("this is not a number"))?)
        }
        DeValue::Datetime(_) => {
            return Err(origin.error("no key takes a date; put it in quotes if it is a text"));
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|item| read_value(file, item));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => read_table(file, table)?,
    };
    Ok(Node { origin, value })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(layer: LayerKind, text: impl Into<String>) -> SourceFile {
        SourceFile { layer, path: PathBuf::from("a.toml"), text: text.into() }
    }

    #[test]
    fn excessive_nesting_is_rejected() {
        for text in [
            format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000)),
            format!("{}a = 1", "a.".repeat(10_000)),
            format!("[{}a]", "a.".repeat(10_000)),
            format!("a = {}1{}", "{a = ".repeat(10_000), "}".repeat(10_000)),
        ] {
            let error = parse(file(LayerKind::User, text)).unwrap_err();
            assert!(error.message.contains("recurs"), "{error}");
        }
    }

    #[test]
    fn a_higher_layer_replaces_single_values_and_lists_and_leaves_the_rest() {
        let below = "[model]\nprovider = \"a\"\nmodel = \"b\"\n[tools]\nenabled = [\"x\", \"y\"]\n";
        let over = "model.model = \"c\"\ntools.enabled = [\"z\"]\n";
        let below = parse(file(LayerKind::BuiltIn, below)).unwrap();
        let merged = below.overlaid_by(parse(file(LayerKind::User, over)).unwrap());
        let lines: Vec<_> = merged
            .leaves()
            .into_iter()
            .map(|(key, node)| format!("{key} = {node} # {}", node.origin.layer()))
            .collect();
        assert_eq!(
            lines,
            [
                "model.model = \"c\" # user",
                "model.provider = \"a\" # built-in",
                "tools.enabled = [\"z\"] # user"
            ]
        );
    }

    #[test]
    fn a_table_of_another_kind_takes_nothing_from_the_one_below() {
        let below = "[flow]\ntype = \"chat\"\nmax_turns = 10\n";
        for (over, expected) in [
            ("flow.type = \"judge\"", "flow.type = \"judge\""),
            ("flow.level = 3", "flow.level = 3"),
            ("flow.type = \"chat\"", "flow.max_turns = 10; flow.type = \"chat\""),
            ("flow.max_turns = 3", "flow.max_turns = 3; flow.type = \"chat\""),
        ] {
            let below = parse(file(LayerKind::BuiltIn, below)).unwrap();
            let merged = below.overlaid_by(parse(file(LayerKind::User, over)).unwrap());
            let lines = merged.leaves().into_iter().map(|(key, node)| format!("{key} = {node}"));
            assert_eq!(lines.collect::<Vec<_>>().join("; "), expected);
        }
    }
}
