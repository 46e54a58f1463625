//! Loading the layers of the configuration.

use crow_agent::{
    Check, Checks,
    definition::{AgentRegistry, SHIPPED, ToolNames},
    layers::{ConfigLayer, LayerKind, Layers},
};

use super::Settings;
use crate::{
    environment::Environment,
    error::CliError,
    host::{AgentLimits, AgentSettings},
    product,
    trust::Project,
};

/// Agent that is used if none is configured or named.
pub(crate) const DEFAULT_AGENT: &str = "BUILD-HITL";

/// The configuration that applies to a directory.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    /// Agents and prompts.
    pub(crate) agents: AgentRegistry,
    /// Settings of `config.toml`.
    pub(crate) settings: Settings,
}

impl Configuration {
    /// Reads the settings; agents are read when they are needed. Blocks.
    pub(crate) fn load(environment: &Environment, project: &Project) -> Result<Self, CliError> {
        let layers = layers(environment, project)?;
        let settings = Settings::read(&layers)?;
        Ok(Self { agents: AgentRegistry::new(layers, tool_names()), settings })
    }
}

impl Configuration {
    /// Returns only the built-in configuration.
    pub(crate) fn shipped() -> Self {
        Self { agents: AgentRegistry::built_in(tool_names()), settings: Settings::default() }
    }

    /// Returns the agent settings of a host.
    pub(crate) fn agents(self, limits: AgentLimits) -> AgentSettings {
        let Self { agents: registry, settings } = self;
        let checks = settings.checks.into_iter().map(|check| Check {
            timeout: check.timeout.unwrap_or(Check::DEFAULT_TIMEOUT),
            ..Check::new(check.name, check.run)
        });
        AgentSettings {
            registry,
            default: settings.agent.unwrap_or_else(|| DEFAULT_AGENT.to_owned()),
            checks: Checks::new(checks),
            limits,
        }
    }
}

/// Returns the layers: built-in, user, and project if it is trusted.
pub(crate) fn layers(environment: &Environment, project: &Project) -> Result<Layers, CliError> {
    let user = ConfigLayer::folder(LayerKind::User, environment.config_dir()?);
    let own = [ConfigLayer::shipped(SHIPPED), user];
    Ok(Layers::new(own.into_iter().chain(project.layer.clone()).collect()))
}

/// Returns the tools that agents can name.
pub(crate) fn tool_names() -> ToolNames {
    ToolNames::new(product::all_tools().names())
}
