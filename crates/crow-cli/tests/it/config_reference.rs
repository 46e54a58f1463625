//! The reference of the configuration in the book: written from the schemas that the program prints.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{book_page::assert_document, program::Fixture};

const INTRODUCTION: &str = "\
# Configuration reference

The keys of all files, written from the schemas that `crow-agent config schema KIND` prints. [Configuration](configuration.md) explains
how the files fit together. A duration is a number of seconds, or a text such as `\"90s\"`, `\"30m\"` or `\"2h\"`.
";

/// Kind of file as the command line names it, its path, and where the book explains it.
const KINDS: [(&str, &str, &str); 5] = [
    ("config", "config.toml", "[Configuration](configuration.md)"),
    ("base", "agents/base/NAME.toml", "[Agents and compositions](agents.md)"),
    ("composition", "agents/acp/NAME.toml", "[Agents and compositions](agents.md)"),
    ("providers", "providers/NAME.toml", "[Providers and keys](providers.md)"),
    ("permissions", "permissions.json", "[The format of the rules](permission-rules.md)"),
];

#[tokio::test]
async fn the_configuration_reference_of_the_book_has_all_keys() {
    let fixture = Fixture::new();
    let mut page = INTRODUCTION.to_owned();
    for (kind, file, explained) in KINDS {
        let printed = fixture.run(&["config", "schema", kind]).await;
        let schema: Value = serde_json::from_str(&printed.exited(0).out).unwrap();
        write!(page, "\n## {file}\n\nSchema `{kind}`; {explained}.\n").unwrap();
        let is_json = kind == "permissions";
        Reference { root: &schema, is_json }.write_table("", &schema, &mut page);
    }
    assert_document("docs/book/src/configuration-reference.md", &page);
}

/// Writer of the tables of one schema.
struct Reference<'a> {
    root: &'a Value,
    /// True for a file in JSON, which has no tables with headings.
    is_json: bool,
}

impl Reference<'_> {
    /// Writes the keys of an object and then the tables below it. `path` is the object's own, empty for the file.
    fn write_table(&self, path: &str, schema: &Value, page: &mut String) {
        let schema = self.resolve(schema);
        let none = Map::new();
        let keys = schema["properties"].as_object().unwrap_or(&none);
        let (tables, values): (Vec<_>, Vec<_>) =
            keys.iter().partition(|(_, key)| self.table(key).is_some());
        if !values.is_empty() {
            page.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        }
        for (name, key) in values {
            let description = self.description(key);
            assert!(!description.is_empty(), "{path}: {name} has no description");
            let default = default(name, key, schema);
            let kind = self.kind(key);
            let cells = [format!("`{name}`"), kind, default, description];
            let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            writeln!(page, "| {} |", cells.join(" | ")).unwrap();
        }
        for (name, key) in tables {
            let (suffix, is_list, table) = self.table(key).unwrap();
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{name}{suffix}");
            let description = self.description(if suffix.is_empty() { key } else { table });
            let contains_only_tables = suffix.is_empty()
                && table["properties"]
                    .as_object()
                    .is_some_and(|keys| keys.values().all(|key| self.table(key).is_some()));
            if !contains_only_tables {
                let heading = match (self.is_json, is_list) {
                    (true, false) => format!("`{path}`"),
                    (true, true) => format!("An element of `{path}`"),
                    (false, false) => format!("`[{path}]`"),
                    (false, true) => format!("`[[{path}]]`"),
                };
                write!(page, "\n### {heading}\n").unwrap();
                if !description.is_empty() {
                    write!(page, "\n{description}\n").unwrap();
                }
            }
            self.write_table(&path, table, page);
        }
    }

    /// Returns the object that the key's value contains, with the suffix of its path and true for a list of objects.
    fn table<'a>(&'a self, key: &'a Value) -> Option<(&'static str, bool, &'a Value)> {
        let key = self.resolve(without_null(key));
        if key["properties"].is_object() && key["required"] != serde_json::json!(["file"]) {
            return Some(("", false, key));
        }
        let of_names = self.resolve(&key["additionalProperties"]);
        if of_names["properties"].is_object() {
            return Some((".NAME", false, of_names));
        }
        let item = self.resolve(&key["items"]);
        item["properties"].is_object().then_some(("", true, item))
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        }
    }

    /// Returns the description of the key, or that of its type.
    fn description(&self, key: &Value) -> String {
        let of_type = self.resolve(without_null(key));
        let text = key["description"].as_str().or_else(|| of_type["description"].as_str());
        text.unwrap_or_default().to_owned()
    }

    /// Returns the kind of a value in words.
    fn kind(&self, schema: &Value) -> String {
        let schema = without_null(schema);
        if schema["$ref"] == "#/$defs/Seconds" {
            return "duration".to_owned();
        }
        let schema = self.resolve(schema);
        if let Some(constant) = schema.get("const") {
            return format!("`{constant}`");
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
        }
        for alternatives in ["anyOf", "oneOf"] {
            if let Some(kinds) = schema[alternatives].as_array() {
                let kinds: Vec<_> = kinds.iter().map(|kind| self.kind(kind)).collect();
                return kinds.join(", ");
            }
        }
        let types = schema["type"].as_array().map_or_else(
            || vec![&schema["type"]],
            |types| types.iter().filter(|kind| *kind != "null").collect(),
        );
        let kinds = types.into_iter().map(|kind| match kind.as_str() {
            Some("array") => format!("list of {}", self.kind(&schema["items"])),
            Some("object") => self.object(schema),
            Some("string") => "text".to_owned(),
            Some("integer") => match schema["minimum"].as_u64() {
                Some(1) => "whole number from 1".to_owned(),
                _ => "whole number".to_owned(),
            },
            Some("boolean") => "`true`, `false`".to_owned(),
            Some(other) => other.to_owned(),
            None => panic!("a schema without a type: {schema}"),
        });
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// Returns an inline object as it is written in the file.
    fn object(&self, schema: &Value) -> String {
        let Some(keys) = schema["properties"].as_object() else {
            return format!("table of {}", self.kind(&schema["additionalProperties"]));
        };
        let names: Vec<_> = keys
            .keys()
            .map(|name| if self.is_json { format!("\"{name}\": …") } else { format!("{name} = …") })
            .collect();
        format!("`{{ {} }}`", names.join(", "))
    }
}

/// Returns the only alternative beside `null`, if the schema has just these two.
fn without_null(schema: &Value) -> &Value {
    match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([only, null]) if null["type"] == "null" => only,
        _ => schema,
    }
}

/// Returns the default of a key, or that it is required.
fn default(name: &str, key: &Value, table: &Value) -> String {
    if table["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name)) {
        return "required".to_owned();
    }
    match &key["default"] {
        Value::Null => String::new(),
        Value::Array(values) if values.is_empty() => String::new(),
        Value::Object(values) if values.is_empty() => String::new(),
        Value::String(text) if text.is_empty() => String::new(),
        value => format!("`{value}`"),
    }
}
