//! `config validate`: checking all configuration files.

use std::fmt::Write as _;

use crow_agent::definition::{AgentKind, AgentRegistry};
use crow_app::{
    ProcessEnvironment,
    config::{Settings, layers, tool_names},
    host::PromptFiles,
    product,
    trust::{self, Project},
};
use crow_console::ExitCode;
use crow_text::one_line;

use crate::{
    error::CliError,
    terminal::{print_message, write_out},
};

/// Checks every file and prints errors and warnings.
pub(crate) fn validate(environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let project = trust::project_of(environment.current_dir()?, environment)?;
    project.notice.iter().for_each(|notice| print_message(notice));
    let ConfigurationCheck { errors, warnings, count } = check(environment, &project)?;
    let mut text = String::new();
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    for line in errors.iter().map(|error| format!("error: {error}")).chain(warnings) {
        let _ = writeln!(text, "{}", one_line(&line));
    }
    if errors.is_empty() {
        let _ = writeln!(text, "{count} agents, settings, providers and rules are valid");
    }
    write_out(text.as_bytes())?;
    Ok(if errors.is_empty() { ExitCode::Done } else { ExitCode::Usage })
}

/// Result of checking the configuration files.
pub(crate) struct ConfigurationCheck {
    /// Errors: what cannot be used.
    pub(crate) errors: Vec<String>,
    /// Warnings about files that can be used.
    pub(crate) warnings: Vec<String>,
    /// Number of agents.
    count: usize,
}

/// Checks every file. Blocks.
pub(crate) fn check(
    environment: &ProcessEnvironment,
    project: &Project,
) -> Result<ConfigurationCheck, CliError> {
    let layers = layers(environment, &project.additions)?;
    let agents = AgentRegistry::new(layers.clone(), tool_names());
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let settings = Settings::read(&layers);
    if let Some(name) = settings.as_ref().ok().and_then(|settings| settings.agent.as_ref())
        && let Err(error) = agents.composition(name)
    {
        errors.push(format!("config.toml: agent: {error}"));
    }
    errors.extend(settings.err().map(|error| error.to_string()));
    // Agents; their warnings are collected only if they can be used.
    let listed = agents.list();
    let count = listed.len();
    for agent in listed {
        match agent.definition {
            Err(error) => errors.push(error.to_string()),
            Ok(_) => warnings.extend(match agent.kind {
                AgentKind::Base => agents.base(&agent.name).map(|base| base.warnings),
                AgentKind::Composition => agents.composition(&agent.name).map(|all| all.warnings),
            }),
        }
    }
    // Providers, rules and MCP servers.
    if let Err(error) = product::models(environment, &project.additions.providers) {
        errors.push(error.message);
    }
    if let Err(error) = product::rule_store(environment).and_then(|store| Ok(store.load()?)) {
        errors.push(error.message);
    }
    match crow_app::config::configured_servers(environment, &project.additions) {
        Ok(servers) => warnings.push(servers.faults),
        // The error of config.toml is already in the list.
        Err(error) if errors.contains(&error.message) => {}
        Err(error) => errors.push(error.message),
    }
    // Files that nothing reads, and prompt files.
    warnings.push(agents.misplaced());
    let (broken, unread) = agents.check_unread_prompts();
    errors.extend(broken.iter().map(ToString::to_string));
    warnings.push(unread);
    warnings.push(PromptFiles::read(&layers).warnings);
    let warnings = warnings.into_iter().flatten().collect();
    Ok(ConfigurationCheck { errors, warnings, count })
}
