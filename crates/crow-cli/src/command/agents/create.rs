//! The command `agents new`.

use crow_agent::{
    definition::{AgentKind, AgentRegistry, is_name},
    layers::{ConfigLayer, LayerKind, Node, Value},
};
use crow_app::{ProcessEnvironment, config};
use crow_console::ExitCode;
use crow_text::one_line;
use toml_edit::{DocumentMut, Item, Table};

use crate::{command::agents::list::registry, error::CliError, terminal::write_out};

/// Template of a new base agent; `NAME` is replaced by its name.
const STARTER: &str = include_str!("starter.toml");

/// Writes the file of a new agent to the user's configuration and prints its path. Fails if the name is taken.
pub(crate) fn create(
    name: &str,
    from: Option<&str>,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if !is_name(name) {
        let message = format!("\"{name}\" is not a valid agent name");
        return Err(CliError::usage(message).hint(
            "use up to 64 ASCII letters, digits, \"-\", \"_\" and \".\", not starting with \"-\" or \".\"",
        ));
    }
    let agents = registry(environment)?;
    for kind in [AgentKind::Composition, AgentKind::Base] {
        if agents.names(kind).iter().any(|known| known == name) {
            return Err(CliError::usage(format!("an agent {name} already exists")).hint(format!(
                "crow-agent agents show {name} shows where; `config set` changes it"
            )));
        }
    }
    let (kind, text) = match from {
        None => (AgentKind::Base, STARTER.replace("NAME", name)),
        Some(from) => copy(name, from, &agents)?,
    };
    let user = ConfigLayer::folder(LayerKind::User, environment.config_dir()?);
    let path = user.path(&format!("{}/{name}.toml", kind.folder()));
    config::write(&path, &text)?;
    write_out(format!("{}\n", one_line(&path.display().to_string())).as_bytes())
}

/// Returns the kind of the agent `from`, and its definition, merged from all layers, as TOML under the name `name`.
fn copy(name: &str, from: &str, agents: &AgentRegistry) -> Result<(AgentKind, String), CliError> {
    let wrong = |message: String| CliError { code: "config", ..CliError::usage(message) };
    // An agent that does not load is not copied.
    agents.composition(from).map_err(|error| wrong(error.to_string()))?;
    for kind in [AgentKind::Composition, AgentKind::Base] {
        let Some(node) = agents.node(kind, from)? else { continue };
        let mut document = DocumentMut::new();
        if let Value::Table(tables) = &node.value {
            // In the order of the manual, not alphabetically.
            for key in [
                "agent",
                "composition",
                "control_flow",
                "handoff",
                "model",
                "tools",
                "react",
                "prompt",
                "limits",
            ] {
                if let Some(entry) = tables.get(key) {
                    document.insert(key, to_table(&entry.node));
                }
            }
        }
        let value: toml_edit::Value = name.into();
        let agent = document.entry("agent").or_insert_with(toml_edit::table);
        if let Some(agent) = agent.as_table_like_mut() {
            agent.insert("name", Item::Value(value));
        }
        return Ok((kind, format!("# Made from {from}.\n{document}")));
    }
    Err(wrong(format!("there is no agent \"{from}\"")))
}

fn to_table(node: &Node) -> Item {
    let Value::Table(entries) = &node.value else { return Item::Value(to_value(node)) };
    let mut table = Table::new();
    for (key, entry) in entries {
        table.insert(key, Item::Value(to_value(&entry.node)));
    }
    Item::Table(table)
}

fn to_value(node: &Node) -> toml_edit::Value {
    match &node.value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(value) => (*value).into(),
        Value::List(items) => items.iter().map(to_value).collect(),
        Value::Table(entries) => {
            entries.iter().map(|(key, entry)| (key.as_str(), to_value(&entry.node))).collect()
        }
    }
}
