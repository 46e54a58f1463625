//! The agent that the product ships.

use crow_agent::{
    AgentConfig, BaseAgent, PromptContext,
    definition::{AgentRegistry, ToolNames},
};
use crow_core::{model::ResolvedModel, turn::TurnLimits};
use crow_runtime::HostError;

use crate::product;

/// The name of the agent.
pub(super) const AGENT: &str = "builder";

/// Makes the agent for a model.
pub(super) fn builder(
    model: ResolvedModel,
    max_steps: Option<u32>,
) -> Result<BaseAgent, HostError> {
    let all = product::all_tools();
    let agents = AgentRegistry::built_in(ToolNames::new(all.names()));
    let refused = |message: String| HostError::Refused { message, hint: String::new() };
    let base = agents.base(AGENT).map_err(|error| refused(error.to_string()))?;
    let (tools, _) = all.for_agent(&base.tools);
    let context = PromptContext::new(&base, base.tools.clone());
    let prompt = agents.prompts().system(&base.prompt, &context);
    let config = AgentConfig {
        system_prompt: prompt.map_err(|error| refused(error.to_string()))?,
        limits: TurnLimits { max_steps: max_steps.unwrap_or(base.limits.max_steps), ..base.limits },
        ..AgentConfig::default()
    };
    Ok(BaseAgent::new(AGENT, config, model, tools))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_and_tools_of_the_builder_exist_and_stay_small() {
        let all = product::all_tools();
        let agents = AgentRegistry::built_in(ToolNames::new(all.names()));
        let base = agents.base(AGENT).unwrap();
        let (tools, unknown) = all.for_agent(&base.tools);
        assert_eq!(unknown, Vec::<String>::new());
        let context = PromptContext::new(&base, base.tools.clone());
        let prompt = agents.prompts().system(&base.prompt, &context).unwrap();
        let size = prompt.len() + serde_json::to_string(&tools.definitions()).unwrap().len();
        assert!(size <= 11_500, "{size} bytes");
    }
}
