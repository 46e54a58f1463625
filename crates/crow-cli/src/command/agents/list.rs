//! The command `agents list`.

use std::fmt::Write as _;

use crow_agent::definition::{AgentKind, AgentRegistry, DefinedRole, ListedAgent};
use crow_app::{
    ProcessEnvironment,
    config::{layers, tool_names},
    trust,
};
use crow_console::ExitCode;
use crow_text::one_line;
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    args::OutputForm,
    error::CliError,
    terminal::{print_message, write_out},
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
            let _ = writeln!(text, "{}", to_json(agent));
            text
        }),
        OutputForm::Text => to_text(&listed),
    };
    write_out(text.as_bytes())
}

/// Returns the agents available in the current directory. Prints a notice if those of the project are left out, and one
/// for each misplaced file.
pub(super) fn registry(environment: &ProcessEnvironment) -> Result<AgentRegistry, CliError> {
    let project = trust::project_of(environment.current_dir()?, environment)?;
    project.notice.iter().for_each(|notice| print_message(notice));
    let agents = AgentRegistry::new(layers(environment, &project.additions)?, tool_names());
    agents.misplaced().iter().for_each(|note| print_message(note));
    Ok(agents)
}

/// Returns the label of a kind and role for the user.
pub(super) fn kind_label(kind: AgentKind, role: DefinedRole) -> &'static str {
    match (kind, role) {
        (AgentKind::Base, DefinedRole::Primary) => "base agent",
        (AgentKind::Base, DefinedRole::Subagent) => "base agent, subagent",
        (AgentKind::Composition, DefinedRole::Primary) => "composition",
        (AgentKind::Composition, DefinedRole::Subagent) => "composition, subagent",
    }
}

fn to_json(agent: &ListedAgent) -> serde_json::Value {
    let mut line = json!({
        "name": agent.name,
        "kind": match agent.kind {
            AgentKind::Base => "base",
            AgentKind::Composition => "composition",
        },
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

fn to_text(listed: &[ListedAgent]) -> String {
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
