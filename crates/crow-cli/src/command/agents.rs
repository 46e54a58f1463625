//! The commands `agents list`, `agents show` and `agents new`.

use std::fmt::Write as _;

use crow_agent::{
    PromptContext,
    definition::{AgentKind, AgentRegistry, DefinedRole, ListedAgent, is_name},
    layers::{Node, Value},
};
use crow_app::{
    ProcessEnvironment,
    config::{
        self, UnsetEffect, UnsetKey, layers, tool_names, unset_keys_of_base,
        unset_keys_of_composition,
    },
};
use crow_console::ExitCode;
use crow_core::config::ConfigError;
use crow_text::{neutralise, one_line};
use serde_json::json;
use toml_edit::{DocumentMut, Item, Table};
use unicode_width::UnicodeWidthStr as _;

use super::{
    config::{one_line_value, user_layer},
    trust::project_around,
};
use crate::{
    args::OutputForm,
    error::CliError,
    output::{output_line, visible_json},
    terminal::{print_message, write_line, write_out},
};

/// Prints the agents; in the text form those that do not load come last.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let agents = registry(environment)?;
    let listed = agents.list();
    let text = match output {
        OutputForm::Json => listed.iter().fold(String::new(), |mut text, agent| {
            let _ = writeln!(text, "{}", visible_json(&listed_json(agent)));
            text
        }),
        OutputForm::Text => listing(&listed),
    };
    write_out(text.as_bytes())
}

/// Returns the agents available in the current directory. Prints a notice if those of the project are left out, and one
/// for each misplaced file.
fn registry(environment: &ProcessEnvironment) -> Result<AgentRegistry, CliError> {
    let project = project_around(environment.current_dir()?, environment)?;
    let agents = AgentRegistry::new(layers(environment, &project.additions)?, tool_names());
    agents.misplaced().iter().for_each(|note| print_message(note));
    Ok(agents)
}

/// Returns the label of a kind and role for the user.
fn kind_label(kind: AgentKind, role: DefinedRole) -> &'static str {
    match (kind, role) {
        (AgentKind::Base, DefinedRole::Primary) => "base agent",
        (AgentKind::Base, DefinedRole::Subagent) => "base agent, subagent",
        (AgentKind::Composition, DefinedRole::Primary) => "composition",
        (AgentKind::Composition, DefinedRole::Subagent) => "composition, subagent",
    }
}

/// Returns the name of a kind for programs.
fn kind_name(kind: AgentKind) -> &'static str {
    match kind {
        AgentKind::Base => "base",
        AgentKind::Composition => "composition",
    }
}

fn listed_json(agent: &ListedAgent) -> serde_json::Value {
    let mut line = json!({
        "name": agent.name,
        "kind": kind_name(agent.kind),
        "from": agent.layer.as_str(),
        "overlaid": agent.is_overlaid,
    });
    if let Some(line) = line.as_object_mut() {
        match &agent.definition {
            Ok((role, description)) => {
                line.insert("role".to_owned(), role.as_str().into());
                line.insert("description".to_owned(), description.clone().into());
            }
            Err(error) => {
                line.insert("error".to_owned(), error.to_string().into());
            }
        }
    }
    line
}

fn listing(listed: &[ListedAgent]) -> String {
    let mut rows = vec![["NAME", "WHAT", "FROM", "DESCRIPTION"].map(str::to_owned)];
    for agent in listed {
        let Ok((role, description)) = &agent.definition else { continue };
        let what = kind_label(agent.kind, *role).to_owned();
        let from = if agent.is_overlaid {
            format!("{} (changed)", agent.layer)
        } else {
            agent.layer.to_string()
        };
        rows.push(
            [agent.name.clone(), what, from, description.clone()].map(|cell| one_line(&cell)),
        );
    }
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let padding = width.saturating_sub(cell.width());
            format!("{cell}{}", " ".repeat(padding))
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let broken = listed.iter().filter_map(|agent| Some((agent, agent.definition.as_ref().err()?)));
    for (agent, error) in broken {
        let line = format!("{} cannot be used: {error}", agent.name);
        let _ = writeln!(text, "{}", one_line(&line));
    }
    text
}

/// An agent as `agents show` prints it.
struct AgentDescription {
    kind: AgentKind,
    node: Node,
    role: DefinedRole,
    description: String,
    warnings: Vec<String>,
    /// Keys that no file sets, with their defaults.
    unset: Vec<UnsetKey>,
    /// Rendered system prompt; `None` for a composition.
    prompt: Option<String>,
}

/// Prints the merged values of an agent, and the file and position that each comes from.
pub(crate) fn show(
    name: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let agents = registry(environment)?;
    let agent = describe(name, &agents)?;
    match output {
        OutputForm::Text => write_out(description_text(name, &agent).as_bytes()),
        OutputForm::Json => write_out(&output_line(&description_json(name, &agent))?),
    }
}

fn describe(name: &str, agents: &AgentRegistry) -> Result<AgentDescription, CliError> {
    let node_of = |kind| {
        agents.node(kind, name).map_err(|error: ConfigError| CliError::config(error.to_string()))
    };
    if let Some(node) = node_of(AgentKind::Composition)? {
        let agent =
            agents.composition(name).map_err(|error| CliError::config(error.to_string()))?;
        return Ok(AgentDescription {
            kind: AgentKind::Composition,
            unset: unset_keys_of_composition(&agent, &node),
            node,
            role: agent.role,
            description: agent.description,
            warnings: agent.warnings,
            prompt: None,
        });
    }
    let base = agents.base(name);
    let (Some(node), Ok(base)) = (node_of(AgentKind::Base)?, &base) else {
        let error = agents.composition(name).map_or_else(
            |error| error.to_string(),
            |_| format!("the files of the agent {name} changed while they were read"),
        );
        return Err(CliError::config(error).hint("crow-agent agents list shows the agents"));
    };
    let prompt =
        agents.prompts().system(&base.prompt, &PromptContext::new(base, base.tools.clone(), true));
    Ok(AgentDescription {
        kind: AgentKind::Base,
        unset: unset_keys_of_base(base, &node),
        node,
        role: base.role,
        description: base.description.clone(),
        warnings: base.warnings.clone(),
        prompt: Some(prompt.map_err(|error| CliError::config(error.to_string()))?),
    })
}

fn description_text(name: &str, agent: &AgentDescription) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{name}: {}", kind_label(agent.kind, agent.role));
    if !agent.description.is_empty() {
        let _ = writeln!(text, "{}", one_line(&agent.description));
    }
    text.push('\n');
    let leaves = agent.node.leaves();
    for (key, leaf) in &leaves {
        let _ = writeln!(text, "{} = {}", one_line(key), one_line_value(leaf));
        let _ = writeln!(text, "    {}", one_line(&leaf.origin.to_string()));
    }
    for unset in &agent.unset {
        let _ = writeln!(text, "{}\n    {}", unset.shown(), unset.source());
    }
    for warning in &agent.warnings {
        let _ = writeln!(text, "\nwarning: {}", one_line(warning));
    }
    if let Some(prompt) = &agent.prompt {
        let _ =
            writeln!(text, "\nsystem prompt, {} bytes:\n\n{}", prompt.len(), neutralise(prompt));
    }
    text
}

fn description_json(name: &str, agent: &AgentDescription) -> serde_json::Value {
    let values: serde_json::Map<String, serde_json::Value> = agent
        .node
        .leaves()
        .into_iter()
        .map(|(key, leaf)| {
            let position = leaf.origin.position();
            let value = json!({
                "value": leaf.to_json(),
                "from": leaf.origin.layer().as_str(),
                "file": leaf.origin.file().path.display().to_string(),
                "line": position.line,
                "column": position.column,
            });
            (key, value)
        })
        .chain(agent.unset.iter().filter_map(|unset| {
            let UnsetEffect::BuiltIn(value) = &unset.effect else { return None };
            Some((unset.key.to_owned(), json!({"value": value, "from": "default"})))
        }))
        .collect();
    json!({
        "name": name,
        "kind": kind_name(agent.kind),
        "role": agent.role.as_str(),
        "description": agent.description,
        "values": values,
        "warnings": agent.warnings,
        "system_prompt": agent.prompt,
    })
}

/// Template of a new base agent; `NAME` is replaced by its name.
const STARTER: &str = include_str!("agents/starter.toml");

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
    let path = user_layer(environment)?.path(&format!("{}/{name}.toml", kind.folder()));
    config::write(&path, &text)?;
    write_line(&path.display().to_string())
}

/// Returns the kind of the agent `from`, and its definition, merged from all layers, as TOML under the name `name`.
fn copy(name: &str, from: &str, agents: &AgentRegistry) -> Result<(AgentKind, String), CliError> {
    // An agent that does not load is not copied.
    agents.composition(from).map_err(|error| CliError::config(error.to_string()))?;
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
    Err(CliError::config(format!("there is no agent \"{from}\"")))
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
