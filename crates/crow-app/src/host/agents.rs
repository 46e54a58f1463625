//! Assembling the agents that sessions use, with a cache.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crow_agent::{
    AgentChoice, AssembledAgent, Assembly, AssemblyError, Checks, DEFAULT_REVIEWER,
    InstructionSources, MoneyLimit, SamplingChoice,
    definition::{AgentKind, DefinedRole, ListedAgent},
};
use crow_core::{
    model::{ModelRef, Models},
    tool::TypedToolAdapter,
};
use crow_runtime::{HostError, OpenedWith};

use crate::{
    config::{AgentLimits, AgentSettings},
    product,
    skills::{SkillSet, SkillTool},
    web::WebTools,
};

/// Maximum number of assembled agents in the cache.
const MOST_MADE: usize = 32;

/// The agents that a configuration defines; assembles them for sessions.
#[derive(Debug)]
pub(super) struct Agents {
    assembly: Assembly,
    /// The agent of a session that names none.
    default: String,
    limits: AgentLimits,
    sampling: SamplingChoice,
    /// All agents, listed at the first request.
    listed: OnceLock<Vec<ListedAgent>>,
    /// Cache of assembled agents, the newest last: sessions with the same agent share its tools and prompts.
    made: Mutex<Vec<(String, AgentChoice, AssembledAgent)>>,
}

impl Agents {
    pub(super) fn new(
        settings: AgentSettings,
        models: Arc<dyn Models>,
        web: &WebTools,
        skills: Arc<SkillSet>,
        instructions: InstructionSources,
        is_attended: bool,
    ) -> Self {
        let AgentSettings { registry, default, checks, limits, sampling } = settings;
        let mut tools = product::all_tools();
        web.register(&mut tools);
        if let Some(skill) = SkillTool::new(skills) {
            tools.register(TypedToolAdapter::new(skill));
        }
        let instructions = Some(instructions);
        let assembly = Assembly { registry, models, tools, checks, instructions, is_attended };
        Self {
            assembly,
            default,
            limits,
            sampling,
            listed: OnceLock::new(),
            made: Mutex::default(),
        }
    }

    /// Returns the name of the agent of a session that names none.
    pub(super) fn default_name(&self) -> &str {
        &self.default
    }

    /// Returns the checks that must pass before a task is complete.
    pub(super) fn checks(&self) -> &Checks {
        &self.assembly.checks
    }

    /// Returns name and description of the agents that users start directly, compositions first. Blocks.
    pub(super) fn primary(&self) -> impl Iterator<Item = (&str, &str)> {
        self.listed().iter().filter_map(|agent| match &agent.definition {
            Ok((DefinedRole::Primary, description)) => {
                Some((agent.name.as_str(), description.as_str()))
            }
            Ok((DefinedRole::Subagent, _)) | Err(_) => None,
        })
    }

    /// Returns name and description of the possible reviewers: first the default reviewer and those that a
    /// composition names, then the other primary base agents. Blocks.
    pub(super) fn reviewers(&self) -> Vec<(&str, &str)> {
        let registry = &self.assembly.registry;
        let compositions = registry.names(AgentKind::Composition);
        let compositions = compositions.iter().filter_map(|name| registry.composition(name).ok());
        let named: Vec<String> = compositions.flat_map(|agent| agent.coagents).collect();
        let is_named = |name: &str| name == DEFAULT_REVIEWER || named.iter().any(|one| one == name);
        let all = || {
            self.listed().iter().filter_map(|agent| {
                let (role, description) = agent.definition.as_ref().ok()?;
                Some((agent, *role, agent.name.as_str(), description.as_str()))
            })
        };
        let first = all().filter(|(_, _, name, _)| is_named(name));
        let others = all().filter(|(agent, role, name, _)| {
            agent.kind == AgentKind::Base && *role == DefinedRole::Primary && !is_named(name)
        });
        first.chain(others).map(|(_, _, name, description)| (name, description)).collect()
    }

    /// Fails if there is no agent of that name, or its definition cannot be used.
    pub(super) fn check(&self, name: &str) -> Result<(), HostError> {
        let found = self.assembly.registry.composition(name);
        found.map(drop).map_err(|error| self.refused(&AssemblyError::Definition(error)))
    }

    fn listed(&self) -> &[ListedAgent] {
        self.listed.get_or_init(|| self.assembly.registry.list())
    }

    /// Assembles an agent, or returns it from the cache. The error of `default_model` is returned only if the agent
    /// needs a default model.
    pub(super) async fn assemble(
        &self,
        with: &OpenedWith,
        default_model: Result<ModelRef, HostError>,
    ) -> Result<AssembledAgent, HostError> {
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
            budget: self.limits.budget,
            mode: with.mode,
            reviewers: with.reviewers.clone(),
            thinking: with.thinking,
            system_prompt: with.system_prompt.clone(),
            sampling: self.sampling,
        };
        if let Some(made) = self.find_assembled(&with.agent, &choice) {
            return Ok(made);
        }
        match (self.assembly.assemble(&with.agent, &choice).await, missing) {
            (Ok(made), _) => {
                let mut cache = self.made.lock().unwrap_or_else(PoisonError::into_inner);
                if cache.len() == MOST_MADE {
                    cache.remove(0);
                }
                cache.push((with.agent.clone(), choice, made.clone()));
                Ok(made)
            }
            (Err(AssemblyError::NoModel { .. }), Some(missing)) => Err(missing),
            (Err(error), _) => Err(self.refused(&error)),
        }
    }

    /// Converts an error into a refusal. If a definition is at fault, the hint lists agent files that lie in the
    /// wrong folder.
    fn refused(&self, error: &AssemblyError) -> HostError {
        let refused = refused(error);
        let (HostError::Refused { message, hint }, AssemblyError::Definition(_)) =
            (&refused, error)
        else {
            return refused;
        };
        let mut notes = self.assembly.registry.misplaced();
        notes.push(hint.clone());
        HostError::Refused { message: message.clone(), hint: notes.join("\n") }
    }

    fn find_assembled(&self, name: &str, choice: &AgentChoice) -> Option<AssembledAgent> {
        let cache = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.iter().find(|(agent, with, _)| agent == name && with == choice);
        found.map(|(_, _, agent)| agent.clone())
    }
}

fn refused(error: &AssemblyError) -> HostError {
    let hint = match error {
        AssemblyError::Definition(_) => "`crow-agent agents list` shows the agents",
        AssemblyError::NoModel { .. }
        | AssemblyError::NoDefaultModel { .. }
        | AssemblyError::ModelName { .. } => "`crow-agent models` shows the models",
        AssemblyError::Composition(_) | AssemblyError::Template { .. } => {
            "`crow-agent config validate` checks all files"
        }
        AssemblyError::NoPrice { advice, limit, .. } => {
            let advice = advice.clone().unwrap_or_default();
            let other = match limit {
                MoneyLimit::InFile(_) => "take max_money out of that file",
                MoneyLimit::Chosen => "leave money out of the budget",
            };
            let hint = format!("{advice} Or {other}.");
            return HostError::Refused {
                message: error.to_string(),
                hint: hint.trim_start().to_owned(),
            };
        }
        AssemblyError::Model { error, .. } => return error.clone().into(),
    };
    HostError::Refused { message: error.to_string(), hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use crow_agent::definition::{AgentRegistry, ToolNames};
    use crow_core::{
        network::Network,
        tool::{ToolRegistry, is_sourced_pattern},
    };
    use crow_providers::HttpClient;

    use super::*;
    use crate::{ProcessEnvironment, config::WebSearchTable, web::search_service};

    /// Returns all tools, with a search service if `has_search`.
    fn all_tools(has_search: bool) -> ToolRegistry {
        let table = WebSearchTable {
            service: has_search.then(|| "searxng".to_owned()),
            url: has_search.then(|| "http://127.0.0.1:1".to_owned()),
            model: None,
        };
        let environment = ProcessEnvironment::with([("HOME", "/nowhere")]);
        let search = search_service(&table, &environment).unwrap();
        let mut tools = product::all_tools();
        let http = Arc::new(HttpClient::default());
        WebTools::new(http, Network::default(), search).register(&mut tools);
        tools
    }

    #[test]
    fn every_tool_of_every_shipped_agent_exists() {
        let tools = all_tools(true);
        let registry = AgentRegistry::built_in(ToolNames::new(tools.names()));
        for name in registry.names(crow_agent::definition::AgentKind::Base) {
            let base = registry.base(&name).unwrap();
            assert_eq!(base.warnings, Vec::<String>::new(), "{name}");
            let (_, unknown) = tools.for_agent(&base.tools);
            // The tools for other agents are made together with them. Tools of MCP servers are known only in a
            // session.
            // There is a tool for skills where there are skills.
            let with_others = ["task", "task_cancel", "task_output", "skill"];
            let is_known =
                |tool: &String| with_others.contains(&tool.as_str()) || is_sourced_pattern(tool);
            assert!(unknown.iter().all(is_known), "{name}: {unknown:?}");
        }
    }

    #[test]
    fn prompt_and_tools_of_the_builder_stay_small() {
        let tools = all_tools(false);
        let registry = AgentRegistry::built_in(ToolNames::new(tools.names()));
        let builder = registry.base("builder").unwrap();
        let (tools, _) = tools.for_agent(&builder.tools);
        let names = tools.names().map(str::to_owned).collect();
        let context = crow_agent::PromptContext::new(&builder, names, true);
        let prompt = registry.prompts().system(&builder.prompt, &context).unwrap();
        let size = prompt.len() + serde_json::to_string(&tools.definitions()).unwrap().len();
        assert!(size <= 10_500, "{size} bytes");
    }
}
