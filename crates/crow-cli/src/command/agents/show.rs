//! The command `agents show`.

use std::fmt::Write as _;

use crow_agent::{
    PromptContext,
    definition::{AgentKind, AgentRegistry, DefinedRole},
    layers::Node,
};
use crow_app::{
    ProcessEnvironment,
    config::{UnsetEffect, UnsetKey, unset_keys_of_base, unset_keys_of_composition},
};
use crow_console::ExitCode;
use crow_core::config::ConfigError;
use crow_text::{neutralise, one_line};
use serde_json::{Map, Value, json};

use crate::{
    args::OutputForm,
    command::{
        agents::list::{kind_label, registry},
        config::one_line_value,
    },
    error::CliError,
    terminal::write_out,
};

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
        OutputForm::Text => write_out(to_text(name, &agent).as_bytes()),
        OutputForm::Json => write_out(format!("{}\n", to_json(name, &agent)).as_bytes()),
    }
}

fn describe(name: &str, agents: &AgentRegistry) -> Result<AgentDescription, CliError> {
    let wrong = |message: String| CliError { code: "config", ..CliError::usage(message) };
    let node_of =
        |kind| agents.node(kind, name).map_err(|error: ConfigError| wrong(error.to_string()));
    if let Some(node) = node_of(AgentKind::Composition)? {
        let agent = agents.composition(name).map_err(|error| wrong(error.to_string()))?;
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
        return Err(wrong(error).hint("crow-agent agents list shows the agents"));
    };
    let prompt =
        agents.prompts().system(&base.prompt, &PromptContext::new(base, base.tools.clone()));
    Ok(AgentDescription {
        kind: AgentKind::Base,
        unset: unset_keys_of_base(base, &node),
        node,
        role: base.role,
        description: base.description.clone(),
        warnings: base.warnings.clone(),
        prompt: Some(prompt.map_err(|error| wrong(error.to_string()))?),
    })
}

fn to_text(name: &str, agent: &AgentDescription) -> String {
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

fn to_json(name: &str, agent: &AgentDescription) -> Value {
    let values: Map<String, Value> = agent
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
        "kind": match agent.kind {
            AgentKind::Base => "base",
            AgentKind::Composition => "composition",
        },
        "role": agent.role.as_str(),
        "description": agent.description,
        "values": values,
        "warnings": agent.warnings,
        "system_prompt": agent.prompt,
    })
}
