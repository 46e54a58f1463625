//! The agent that the product ships.

use crow_agent::{AcpAgent, AgentConfig, BUILDER_PROMPT, BUILDER_TOOLS, BaseAgent};
use crow_core::{model::ResolvedModel, turn::TurnLimits};

use crate::product;

/// The name of the agent.
pub(super) const AGENT: &str = "builder";

/// Makes the agent for a model.
pub(super) fn builder(model: ResolvedModel, max_steps: Option<u32>) -> AcpAgent {
    let limits = TurnLimits::default();
    let config = AgentConfig {
        system_prompt: BUILDER_PROMPT.to_owned(),
        limits: TurnLimits { max_steps: max_steps.unwrap_or(limits.max_steps), ..limits },
        ..AgentConfig::default()
    };
    let (tools, _) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
    AcpAgent::solo(BaseAgent::new(AGENT, config, model, tools))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_the_builder_exists() {
        let (tools, unknown) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
        assert_eq!((tools.names().count(), unknown), (BUILDER_TOOLS.len(), Vec::new()));
    }

    #[test]
    fn prompt_and_tools_of_the_builder_stay_small() {
        let (tools, _) = product::all_tools().for_agent(&BUILDER_TOOLS.map(str::to_owned));
        let tools = serde_json::to_string(&tools.definitions()).unwrap();
        let size = BUILDER_PROMPT.len() + tools.len();
        assert!(size <= 11_500, "{size} bytes");
    }
}
