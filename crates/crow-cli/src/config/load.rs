//! The layers of the configuration, from where they are.

use crow_agent::{
    definition::{AgentRegistry, SHIPPED, ToolNames},
    layers::{Layer, LayerKind, Layers},
};

use super::Settings;
use crate::{CliError, Environment, product, trust::Project};

/// The configuration that holds for a directory.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    /// Agents and prompts.
    pub(crate) agents: AgentRegistry,
    /// What `config.toml` says.
    pub(crate) settings: Settings,
}

impl Configuration {
    /// Reads the settings, and no agent yet. Blocks.
    pub(crate) fn load(environment: &Environment, project: &Project) -> Result<Self, CliError> {
        let layers = layers(environment, project)?;
        let settings = Settings::read(&layers)?;
        Ok(Self { agents: AgentRegistry::new(layers, tool_names()), settings })
    }
}

/// Returns the layers: what is shipped, the user's, and those of a project that is trusted.
pub(crate) fn layers(environment: &Environment, project: &Project) -> Result<Layers, CliError> {
    let user = Layer::folder(LayerKind::User, environment.config_dir()?);
    let own = [Layer::shipped(SHIPPED), user];
    Ok(Layers::new(own.into_iter().chain(project.layer.clone()).collect()))
}

/// Returns the tools that agents can name.
pub(crate) fn tool_names() -> ToolNames {
    ToolNames::new(product::all_tools().names())
}
