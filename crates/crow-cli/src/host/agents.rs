//! The agents of the product, put together for a session.

use std::sync::Arc;

use crow_agent::{
    AcpAgent, AgentChoice, Assembly, AssemblyError, Checks, definition::AgentRegistry,
};
use crow_core::model::{ModelRef, Models};
use crow_runtime::{HostError, OpenedWith};

use crate::product;

/// The agents of the product, put together for a session.
#[derive(Debug)]
pub(super) struct Agents {
    assembly: Assembly,
    /// The agent of a session that names none.
    default: String,
    limits: AgentLimits,
}

/// What was said on the command line of how agents work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentLimits {
    /// The most model calls of a turn.
    pub max_steps: Option<u32>,
    /// The most rounds of a run.
    pub max_rounds: Option<u32>,
}

/// What is configured of agents.
#[derive(Debug, Clone)]
pub(crate) struct AgentSettings {
    pub registry: AgentRegistry,
    /// The agent of a session that names none.
    pub default: String,
    /// What must pass before a task is complete.
    pub checks: Checks,
    pub limits: AgentLimits,
}

impl Agents {
    pub(super) fn new(settings: AgentSettings, models: Arc<dyn Models>) -> Self {
        let AgentSettings { registry, default, checks, limits } = settings;
        let tools = product::all_tools();
        Self { assembly: Assembly { registry, models, tools, checks }, default, limits }
    }

    /// Returns the name of the agent of a session that names none.
    pub(super) fn default_name(&self) -> &str {
        &self.default
    }

    /// Puts an agent together. Also returns what the user should be told. Where there is no default model, that is told only
    /// if an agent needs it.
    pub(super) async fn assemble(
        &self,
        with: &OpenedWith,
        default_model: Result<ModelRef, HostError>,
    ) -> Result<(AcpAgent, Vec<String>), HostError> {
        let (default_model, missing) = match default_model {
            Ok(model) => (Some(model), None),
            Err(error) => (None, Some(error)),
        };
        let choice = AgentChoice {
            default_model,
            model: with.model.clone(),
            reviewer_model: with.reviewer_model.clone(),
            max_steps: self.limits.max_steps,
            max_rounds: self.limits.max_rounds,
            mode: with.mode,
            reviewers: with.reviewers.clone(),
            thinking: with.thinking,
            system_prompt: with.system_prompt.clone(),
        };
        match (self.assembly.assemble(&with.agent, &choice).await, missing) {
            (Ok(made), _) => Ok((made.agent, made.warnings)),
            (Err(AssemblyError::NoModel { .. }), Some(missing)) => Err(missing),
            (Err(error), _) => Err(refused(&error)),
        }
    }
}

fn refused(error: &AssemblyError) -> HostError {
    let hint = match error {
        AssemblyError::Definition(_) => "`crow-agent agents list` shows the agents",
        AssemblyError::NoModel { .. }
        | AssemblyError::NoDefaultModel { .. }
        | AssemblyError::ModelName { .. } => "`crow-agent models` shows the models",
        AssemblyError::Composition(_) | AssemblyError::Template { .. } => {
            "`crow-agent config validate` looks at all files"
        }
        AssemblyError::Model { error, .. } => return error.clone().into(),
    };
    HostError::Refused { message: error.to_string(), hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use crow_agent::definition::{AgentRegistry, ToolNames};

    use super::*;

    #[test]
    fn every_tool_of_every_shipped_agent_exists() {
        let tools = product::all_tools();
        let registry = AgentRegistry::built_in(ToolNames::new(tools.names()));
        for name in registry.names(crow_agent::definition::AgentKind::Base) {
            let base = registry.base(&name).unwrap();
            assert_eq!(base.warnings, Vec::<String>::new(), "{name}");
            let (_, unknown) = tools.for_agent(&base.tools);
            // The one that starts others is made with them.
            assert!(unknown.iter().all(|tool| tool == "task"), "{name}: {unknown:?}");
        }
    }

    #[test]
    fn prompt_and_tools_of_the_builder_stay_small() {
        let tools = product::all_tools();
        let registry = AgentRegistry::built_in(ToolNames::new(tools.names()));
        let builder = registry.base("builder").unwrap();
        let (tools, _) = tools.for_agent(&builder.tools);
        let names = tools.names().map(str::to_owned).collect();
        let context = crow_agent::PromptContext::new(&builder, names);
        let prompt = registry.prompts().system(&builder.prompt, &context).unwrap();
        let size = prompt.len() + serde_json::to_string(&tools.definitions()).unwrap().len();
        assert!(size <= 11_700, "{size} bytes");
    }
}
