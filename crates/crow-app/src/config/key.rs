//! Dotted keys of the command line: the file that a key belongs to, and its path in that file.

use crow_agent::{
    definition::{AgentKind, AgentRegistry, is_name},
    layers::{ConfigLayer, Node, SourceFile, parse},
};
use crow_core::config::{ConfigError, unknown_word_message};
use serde_json::Value;

use super::{SETTINGS, schema};
use crate::error::AppError;

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
            KeyTarget::Settings => schema::settings_schema(),
            KeyTarget::Agent { kind, .. } => schema::agent_schema(*kind),
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
}
