//! Loading the layers of the configuration.

use std::{collections::BTreeMap, path::PathBuf};

use crow_agent::{
    Check, Checks, SamplingChoice,
    definition::{AgentRegistry, SHIPPED, ToolNames},
    layers::{ConfigLayer, LayerKind, Layers},
};

use crow_core::{permission::RuleSet, turn::BudgetLimits};
use crow_providers::ProviderConfig;

use super::ServerTable;
use super::Settings;
use crate::{environment::ProcessEnvironment, error::AppError, product};

/// Agent that is used if none is configured or named.
pub const DEFAULT_AGENT: &str = "BUILD-HITL";

/// Additions of a trusted project to the user's configuration.
#[derive(Debug, Clone, Default)]
pub struct ProjectAdditions {
    /// Root of the project, from which its servers start; `None` if there is no trusted project.
    pub(crate) root: Option<PathBuf>,
    /// Rules that only deny or ask.
    pub rules: RuleSet,
    pub providers: Vec<ProviderConfig>,
    /// Agents, prompts and settings.
    pub(crate) layer: Option<ConfigLayer>,
    /// MCP servers of its `.mcp.json`.
    pub(crate) mcp_servers: BTreeMap<String, ServerTable>,
    /// Command lines of the user's own servers that must not be started, because they run files of an untrusted
    /// project.
    pub(crate) blocked_commands: Vec<Vec<String>>,
}

/// Bounds of agents from the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AgentLimits {
    /// Maximum number of model calls in a turn.
    pub max_steps: Option<u32>,
    /// Maximum number of rounds in a run.
    pub max_rounds: Option<u32>,
    /// Budget of a run. Of it and the agent's own limits, the lower ones apply.
    pub budget: BudgetLimits,
}

/// Configuration of agents.
#[derive(Debug, Clone)]
pub(crate) struct AgentSettings {
    pub registry: AgentRegistry,
    /// The agent of a session that names none.
    pub default: String,
    /// Commands that must succeed before a task is complete.
    pub checks: Checks,
    pub limits: AgentLimits,
    pub sampling: SamplingChoice,
}

/// The configuration that applies to a directory.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Agents and prompts.
    pub agents: AgentRegistry,
    /// Settings of `config.toml`.
    pub settings: Settings,
}

impl Configuration {
    /// Reads the settings; agents are read when they are needed. Blocks.
    pub fn load(
        environment: &ProcessEnvironment,
        project: &ProjectAdditions,
    ) -> Result<Self, AppError> {
        let layers = layers(environment, project)?;
        let settings = Settings::read(&layers)?;
        Ok(Self { agents: AgentRegistry::new(layers, tool_names()), settings })
    }

    /// Adds the check that the user accepted for a project, unless the settings name checks.
    #[must_use]
    pub fn with_project_check(mut self, command: Option<String>) -> Self {
        if self.settings.checks.is_empty()
            && let Some(command) = command
        {
            self.settings.add_check(command);
        }
        self
    }

    /// Returns only the built-in configuration.
    pub fn shipped() -> Self {
        Self { agents: AgentRegistry::built_in(tool_names()), settings: Settings::default() }
    }

    /// Returns the agent settings of a host.
    pub(crate) fn agents(self, limits: AgentLimits, sampling: SamplingChoice) -> AgentSettings {
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
            sampling,
        }
    }
}

/// Returns the layers: built-in, user, and project if it is trusted.
pub fn layers(
    environment: &ProcessEnvironment,
    project: &ProjectAdditions,
) -> Result<Layers, AppError> {
    let user = ConfigLayer::folder(LayerKind::User, environment.config_dir()?);
    let own = [ConfigLayer::shipped(SHIPPED), user];
    Ok(Layers::new(own.into_iter().chain(project.layer.clone()).collect()))
}

/// Returns the tools that agents can name.
pub fn tool_names() -> ToolNames {
    ToolNames::new(product::all_tools().names())
}
