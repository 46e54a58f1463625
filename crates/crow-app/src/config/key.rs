//! Dotted keys of the command line: the file that a key belongs to, its path in that file, and changing its value there.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crow_agent::{
    definition::{AgentKind, AgentRegistry, is_name},
    layers::{ConfigLayer, Node, SourceFile, parse},
};
use crow_core::config::{ConfigError, SourceText, unknown_word_message};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::{SETTINGS, agent_schema, settings_schema};
use crate::{error::AppError, private_file::create_folder};

/// A dotted key: a file and a path of keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    pub target: KeyTarget,
    pub(crate) path: Vec<String>,
}

/// File that a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTarget {
    Settings,
    Agent { kind: AgentKind, name: String },
}

impl ConfigKey {
    /// Parses a key such as `agents.base.builder.model.model` or `sandbox.network`. Fails if the schema has no such
    /// key.
    pub fn parse(text: &str) -> Result<Self, AppError> {
        let parts = toml_edit::Key::parse(text)
            .map_err(|_| AppError::usage(format!("\"{text}\" is not a dotted key")))?;
        let parts: Vec<String> = parts.iter().map(|part| part.get().to_owned()).collect();
        let key = match parts.as_slice() {
            [agents, kind, name, path @ ..] if agents == "agents" => {
                let kind = match kind.as_str() {
                    "base" => AgentKind::Base,
                    "acp" => AgentKind::Composition,
                    other => {
                        return Err(AppError::usage(unknown_word_message(
                            "kind of agent",
                            other,
                            &["base", "acp"],
                        )));
                    }
                };
                if !is_name(name) {
                    return Err(AppError::usage(format!("\"{name}\" is not a valid agent name")));
                }
                Self { target: KeyTarget::Agent { kind, name: name.clone() }, path: path.to_vec() }
            }
            [agents, ..] if agents == "agents" => {
                return Err(AppError::usage(
                    "a key of an agent is agents.base.NAME.… or agents.acp.NAME.…",
                )
                .hint("crow-agent agents list shows the names"));
            }
            _ => Self { target: KeyTarget::Settings, path: parts },
        };
        key.check()?;
        Ok(key)
    }

    /// Returns the path as string slices.
    pub fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Returns true if the key belongs to a composition.
    pub(crate) fn is_of_composition(&self) -> bool {
        matches!(self.target, KeyTarget::Agent { kind: AgentKind::Composition, .. })
    }

    /// Fails if the schema of the file has no such key; below a value of any shape all keys are accepted.
    fn check(&self) -> Result<(), AppError> {
        let schema = match &self.target {
            KeyTarget::Settings => settings_schema(),
            KeyTarget::Agent { kind, .. } => agent_schema(*kind),
        };
        let mut node = &schema;
        for part in &self.path {
            let Some(properties) = properties(node, &schema) else { return Ok(()) };
            let Some(next) = properties.get(part) else {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                return Err(AppError::usage(unknown_word_message("key", part, &known)));
            };
            node = next;
        }
        Ok(())
    }
}

impl KeyTarget {
    /// Returns the file, relative to the configuration folder.
    pub fn file(&self) -> String {
        match self {
            Self::Settings => SETTINGS.to_owned(),
            Self::Agent { kind, name } => format!("{}/{name}.toml", kind.folder()),
        }
    }

    /// Returns the merged content of all layers.
    pub fn merged(&self, agents: &AgentRegistry) -> Result<Option<Node>, ConfigError> {
        match self {
            Self::Settings => agents.layers().merged(SETTINGS),
            Self::Agent { kind, name } => agents.node(*kind, name),
        }
    }

    /// Returns the content of one layer.
    pub fn content_in(
        &self,
        agents: &AgentRegistry,
        layer: &ConfigLayer,
    ) -> Result<Option<Node>, ConfigError> {
        match self {
            Self::Settings => {
                let Some(text) = layer.read(SETTINGS)? else { return Ok(None) };
                let path = layer.path(SETTINGS);
                parse(SourceFile { layer: layer.kind(), path, text }).map(Some)
            }
            Self::Agent { kind, name } => agents.node_of(*kind, name, layer),
        }
    }
}

/// Returns the properties of a table schema; follows `$ref` and the alternatives of `anyOf`. Returns `None` for other
/// schemas.
fn properties<'a>(node: &'a Value, root: &'a Value) -> Option<&'a serde_json::Map<String, Value>> {
    if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        return properties(root.pointer(reference.strip_prefix('#')?)?, root);
    }
    if let Some(choices) = node.get("anyOf").and_then(Value::as_array) {
        return choices.iter().find_map(|choice| properties(choice, root));
    }
    node.get("properties")?.as_object()
}

/// Sets the value at a path of keys. Comments, order and layout of everything else stay unchanged.
pub fn set_value(
    source: SourceText<'_>,
    path: &[&str],
    value: toml_edit::Value,
) -> Result<String, ConfigError> {
    let wrong = |message: String| ConfigError::of_file(source.path, message);
    let mut document: DocumentMut =
        source.text.parse().map_err(|error: toml_edit::TomlError| {
            source.syntax_error(error.span(), error.message())
        })?;
    let Some((last, tables)) = path.split_last() else {
        return Err(wrong("a whole file cannot be set; name a key in it".to_owned()));
    };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    // Descends to the table of the key; missing tables are created.
    for (depth, name) in tables.iter().enumerate() {
        let item = table.entry(name).or_insert_with(|| {
            let mut new = Table::new();
            // A table that contains only tables needs no header line.
            new.set_implicit(depth + 1 < tables.len());
            Item::Table(new)
        });
        is_inline = item.is_inline_table();
        table = item
            .as_table_like_mut()
            .ok_or_else(|| wrong(format!("{name} is a value, and holds no keys")))?;
    }
    // The comments and blanks around a replaced value are kept with it.
    match table.get_mut(last) {
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        Some(item @ (Item::Table(_) | Item::ArrayOfTables(_))) if !value.is_inline_table() => {
            let what = if item.is_table() { "a table" } else { "a list of tables" };
            return Err(wrong(format!("{} is {what}; set a key in it", path.join("."))));
        }
        Some(_) | None => {
            table.insert(last, Item::Value(value));
            if is_inline {
                table.fmt();
            }
        }
    }
    Ok(document.to_string())
}

/// Creates a file or replaces it atomically. Keeps its mode; if it is a link, replaces the target and keeps the link.
/// Blocks.
pub fn write(path: &Path, text: &str) -> Result<(), AppError> {
    let failed = |error: io::Error| AppError {
        code: "storage",
        ..AppError::usage(format!("cannot write {}: {error}", path.display()))
    };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = target.parent().unwrap_or(Path::new("/"));
    create_folder(folder).map_err(failed)?;
    let mode = fs::metadata(&target).map(|found| found.permissions().mode() & 0o7777);
    let mut temporary =
        tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(failed)?;
    temporary.write_all(text.as_bytes()).map_err(failed)?;
    if let Ok(mode) = mode {
        let permissions = fs::Permissions::from_mode(mode);
        temporary.as_file().set_permissions(permissions).map_err(failed)?;
    }
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_a_file_and_a_path_in_it() {
        for (text, file, path) in [
            ("agents.base.builder.model.model", "agents/base/builder.toml", "model/model"),
            (
                "agents.acp.BUILD-LOOP.control_flow.max_iterations",
                "agents/acp/BUILD-LOOP.toml",
                "control_flow/max_iterations",
            ),
            ("agents.acp.\"a.b\"", "agents/acp/a.b.toml", ""),
            ("agents.base.x.prompt.system.file", "agents/base/x.toml", "prompt/system/file"),
            ("sandbox.network", "config.toml", "sandbox/network"),
            ("agent", "config.toml", "agent"),
        ] {
            let key = ConfigKey::parse(text).unwrap();
            assert_eq!((key.target.file().as_str(), key.path.join("/").as_str()), (file, path));
        }
    }

    #[test]
    fn a_key_that_is_not_known_is_answered_with_the_one_that_was_meant() {
        let told: Vec<_> = [
            "agents",
            "agents.bas.builder",
            "agents.base.builder.modell.model",
            "agents.base.builder.react.max_iteration",
            "agents.base.../x.model",
            "agents.acp.X.handoff.templat",
            "sandbox.netwrok",
            "sandbx",
            "a..b",
            "",
        ]
        .iter()
        .map(|text| format!("{text}\n    {}", ConfigKey::parse(text).unwrap_err()))
        .collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    fn put(text: &str, path: &[&str], value: toml_edit::Value) -> Result<String, String> {
        let source = SourceText { path: Path::new("a.toml"), text };
        super::set_value(source, path, value).map_err(|error| error.to_string())
    }

    const COMMENTED: &str = "\
# Mine.
[model] # which one
model   = \"old\"   # cheap
temperature = 0.5

# Bounds.
[react]
max_iterations = 20
";

    #[test]
    fn a_change_leaves_comments_order_and_layout() {
        let changed = put(COMMENTED, &["model", "model"], "new".into()).unwrap();
        assert_eq!(changed, COMMENTED.replace("\"old\"", "\"new\""));
        let added = put(COMMENTED, &["react", "doom_loop_threshold"], 3.into()).unwrap();
        assert_eq!(added, format!("{COMMENTED}doom_loop_threshold = 3\n"));
        let table = put(COMMENTED, &["agent", "description"], "d".into()).unwrap();
        assert_eq!(table, format!("{COMMENTED}\n[agent]\ndescription = \"d\"\n"));
        let dotted = put("model.model = \"a\" # b\n", &["model", "model"], "c".into()).unwrap();
        assert_eq!(dotted, "model.model = \"c\" # b\n");
        let inline =
            put("model = { model = \"a\" }\n", &["model", "provider"], "c".into()).unwrap();
        assert_eq!(inline, "model = { model = \"a\", provider = \"c\" }\n");
        assert_eq!(put("", &["model"], "a/b".into()).unwrap(), "model = \"a/b\"\n");
    }

    #[test]
    fn a_key_cannot_be_set_in_something_that_is_no_table() {
        assert_eq!(
            put("model = 1\n", &["model", "model"], "c".into()).unwrap_err(),
            "a.toml: model is a value, and holds no keys"
        );
        assert_eq!(
            put(COMMENTED, &["model"], "c".into()).unwrap_err(),
            "a.toml: model is a table; set a key in it"
        );
        assert!(put("[a\n", &["a"], "c".into()).is_err());
    }
}
