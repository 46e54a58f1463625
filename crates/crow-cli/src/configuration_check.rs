//! The check of all files of the configuration, for `config validate` and `doctor`.

use crow_agent::{
    ProfileRegistry,
    definition::{AgentKind, AgentRegistry},
};
use crow_app::{
    ProcessEnvironment,
    config::{Settings, configured_servers, layers, tool_names},
    product,
    prompt_files::PromptFiles,
    trust::Project,
};

use crate::error::CliError;

/// Result of checking the configuration files.
pub(crate) struct ConfigurationCheck {
    /// Errors: what cannot be used.
    pub(crate) errors: Vec<String>,
    /// Warnings about files that can be used.
    pub(crate) warnings: Vec<String>,
    /// Number of agents.
    pub(crate) count: usize,
}

/// Checks every file. Blocks.
pub(crate) fn check_configuration(
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
    // Profiles of models, providers, rules and MCP servers.
    let profiles = ProfileRegistry::new(layers.clone(), tool_names()).list().into_iter();
    errors.extend(profiles.filter_map(|listed| Some(listed.profile.err()?.to_string())));
    if let Err(error) = product::models(environment, &project.additions.providers) {
        errors.push(error.message);
    }
    if let Err(error) = product::rule_store(environment).and_then(|store| Ok(store.load()?)) {
        errors.push(error.message);
    }
    match configured_servers(environment, &project.additions) {
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
    warnings.push(PromptFiles::read(&layers, environment).warnings);
    let warnings = warnings.into_iter().flatten().collect();
    Ok(ConfigurationCheck { errors, warnings, count })
}
