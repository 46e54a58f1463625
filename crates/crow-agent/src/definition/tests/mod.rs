mod compositions;
mod errors;
mod laws;
mod markdown;
mod registry;
mod shipped;

use std::collections::BTreeMap;

use super::*;
use crate::layers::{ConfigLayer, LayerKind, Layers};

const TOOLS: [&str; 13] = [
    "bash",
    "bash_kill",
    "bash_output",
    "edit_file",
    "glob",
    "grep",
    "list_directory",
    "read_file",
    "ask_user",
    "think",
    "todo_read",
    "todo_write",
    "write_file",
];

/// The text of a valid base agent.
const BASE: &str = "[tools]\nenabled = [\"read_file\"]\n[prompt]\nsystem = \"Work.\"\n";

fn layer(kind: LayerKind, files: &[(&str, &str)]) -> ConfigLayer {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    ConfigLayer::memory(kind, kind.as_str(), files.collect::<BTreeMap<_, _>>())
}

/// Makes a registry of the shipped agents and these files of the user.
fn registry(files: &[(&str, &str)]) -> AgentRegistry {
    let layers = vec![ConfigLayer::shipped(SHIPPED), layer(LayerKind::User, files)];
    AgentRegistry::new(Layers::new(layers), ToolNames::new(TOOLS))
}

/// Reads this text as a base agent of the user.
fn base(text: &str) -> Result<BaseDefinition, DefinitionError> {
    registry(&[("agents/base/x.toml", text)]).base("x")
}

/// Reads this text as a composition of the user.
fn composition(text: &str) -> Result<CompositionDefinition, DefinitionError> {
    registry(&[("agents/acp/X.toml", text)]).composition("X")
}
