//! From what files say of agents to agents that can be run.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::Arc,
};

use crow_core::{
    control::{ControlFlow, OwnerOfTheEnd},
    model::{ModelRef, ModelRefError, Models, ModelsError, ResolvedModel, Thinking},
    tool::{ToolRegistry, TypedTool as _, TypedToolAdapter, is_sourced_pattern},
};
use crow_runtime::AgentAccess;

use crate::{
    acp_agent::{
        AcpAgent, AcpAgentParts, Coagent, CompositionError, EndTools, Subagent, Subagents,
    },
    base_agent::{AgentConfig, BaseAgent},
    checks::Checks,
    choice::{AgentChoice, DEFAULT_REVIEWER, ReviewChoice},
    definition::{
        AgentKind, AgentRegistry, BaseDefinition, CompositionDefinition, DefinitionError,
        HandoffDefinition, ModelChoice, PromptContext,
    },
    handoff::Handoff,
    prompt::TemplateError,
    submit_for_review::SubmitForReview,
    task::{Task, TaskCancel, TaskOutput},
    task_complete::TaskComplete,
};

/// What agents are made of.
#[derive(Debug, Clone)]
pub struct Assembly {
    /// What files say of them.
    pub registry: AgentRegistry,
    /// The models that they may ask.
    pub models: Arc<dyn Models>,
    /// Every tool that there is.
    pub tools: ToolRegistry,
    /// What must pass before a task is complete.
    pub checks: Checks,
}

/// An agent that can be run.
#[derive(Debug, Clone)]
pub struct AssembledAgent {
    /// The agent.
    pub agent: AcpAgent,
    /// What comes after its turns, and who looks at its work.
    pub standing: ReviewChoice,
    /// What its author or its user should know.
    pub warnings: Vec<String>,
}

/// Why an agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// Its files are wrong, or there are none.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It does not fit together.
    #[error(transparent)]
    Composition(#[from] CompositionError),
    /// A template of it cannot be used.
    #[error("{agent}: {error}")]
    Template {
        /// The agent.
        agent: String,
        /// What is wrong.
        error: TemplateError,
    },
    /// It has no model.
    #[error("{agent}: {error}")]
    Model {
        /// The agent.
        agent: String,
        /// What is wrong.
        error: ModelsError,
    },
    /// What it names as its model is none.
    #[error("{agent}: {error}")]
    ModelName {
        /// The agent.
        agent: String,
        /// What is wrong.
        error: ModelRefError,
    },
    /// Its runs are bounded in money, and what a model of it costs is not known.
    #[error(
        "{at}: max_money bounds the run, and the price of {model}, which {agent} asks, is not known"
    )]
    NoPrice {
        /// The file and the line that bound it.
        at: String,
        /// The base agent.
        agent: String,
        /// The model.
        model: ModelRef,
        /// Where the price can be given, if that is known.
        advice: Option<String>,
    },
    /// Nobody says which model it asks.
    #[error("{agent}: there is no model for it to ask")]
    NoModel {
        /// The agent.
        agent: String,
    },
    /// It names a provider without a model, and the provider has no default.
    #[error("{agent}: the provider {provider} has no default model; name one with model = \"…\"")]
    NoDefaultModel {
        /// The agent.
        agent: String,
        /// The provider.
        provider: String,
    },
}

/// Whether an agent does the work or looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentDuty {
    Worker,
    Reviewer,
}

/// An assembly under way.
struct AssemblyBuilder<'a> {
    assembly: &'a Assembly,
    choice: &'a AgentChoice,
    end_tools: EndTools,
    /// The definitions of the base agents, by name.
    bases: BTreeMap<String, BaseDefinition>,
    /// The agents that may be started by those at work here; none below a subagent.
    subagents: Option<Subagents>,
    /// How much the model of the agent thinks that does the work; none where its file says it.
    thinking: Option<Thinking>,
    warnings: Vec<String>,
}

type AssemblyResult<'a> =
    Pin<Box<dyn Future<Output = Result<AcpAgent, AssemblyError>> + Send + 'a>>;

impl Assembly {
    /// Makes the agent of that name: a composition, or a base agent that works alone.
    pub async fn assemble(
        &self,
        name: &str,
        choice: &AgentChoice,
    ) -> Result<AssembledAgent, AssemblyError> {
        let (definition, standing) = choice.over(self.registry.composition(name)?);
        let mut work = AssemblyBuilder::new(self, choice);
        if work.may_delegate(&definition) {
            work.subagents = Some(work.all_subagents(&standing).await?);
        }
        work.thinking = choice.thinking;
        let mut agent = work.composition(definition, AgentDuty::Worker).await?;
        work.write_prompts(&mut agent)?;
        if let Some(prompt) = &choice.system_prompt {
            agent.change_system_prompt(prompt);
        }
        let agent = agent.with_subagents(work.subagents.unwrap_or_default());
        Ok(AssembledAgent { agent, standing, warnings: work.warnings })
    }
}

impl<'a> AssemblyBuilder<'a> {
    fn new(assembly: &'a Assembly, choice: &'a AgentChoice) -> Self {
        let task_complete = TaskComplete::new(assembly.checks.clone());
        let end_tools = EndTools {
            task_complete: Arc::new(TypedToolAdapter::new(task_complete)),
            submit_for_review: Arc::new(TypedToolAdapter::new(SubmitForReview)),
        };
        let (bases, warnings) = (BTreeMap::new(), Vec::new());
        Self { assembly, choice, end_tools, bases, subagents: None, thinking: None, warnings }
    }

    /// Returns whether an agent of the composition has the tool that starts others. One that cannot be read is told of
    /// later.
    fn may_delegate(&self, definition: &CompositionDefinition) -> bool {
        let registry = &self.assembly.registry;
        let names = std::iter::once(&definition.primary).chain(&definition.coagents);
        names
            .filter_map(|name| registry.base(name).ok())
            .any(|base| base.tools.iter().any(|tool| tool == Task::NAME))
    }

    /// Makes the agents that others start. One that cannot be made is left out, and said so.
    async fn all_subagents(&mut self, standing: &ReviewChoice) -> Result<Subagents, AssemblyError> {
        let registry = &self.assembly.registry;
        let names = registry.subagent_names();
        // What is a part of one that is listed is not started by itself.
        let compositions = names.iter().filter(|(kind, _)| *kind == AgentKind::Composition);
        let compositions = compositions.filter_map(|(_, name)| registry.composition(name).ok());
        let parts: BTreeSet<String> = compositions
            .flat_map(|agent| std::iter::once(agent.primary).chain(agent.coagents))
            .collect();
        let mut subagents = Vec::new();
        for (_, name) in names.into_iter().filter(|(_, name)| !parts.contains(name)) {
            let mut work = AssemblyBuilder::new(self.assembly, self.choice);
            let made = async {
                let definition = registry.composition(&name)?;
                let mut agent = work.composition(definition, AgentDuty::Worker).await?;
                work.write_prompts(&mut agent)?;
                Ok::<_, AssemblyError>(agent)
            };
            match made.await {
                Ok(agent) => {
                    subagents.push(Subagent { agent, reach: AgentAccess::Policy });
                    self.warnings.append(&mut work.warnings);
                }
                Err(error) => {
                    self.warnings.push(format!("{name} cannot be started: {error}"));
                }
            }
        }
        let reviewer = self.reviewer(standing, &subagents).await;
        Ok(Subagents::new(subagents, "").with_unlisted(reviewer))
    }

    /// Makes the agent that looks at the work when the user asks for it. It only reads. Where it cannot be made, nobody is
    /// asked: whoever chooses it as a coagent is told why.
    async fn reviewer(&self, standing: &ReviewChoice, others: &[Subagent]) -> Option<Subagent> {
        let name = standing.reviewers.first().or(standing.own_reviewers.first());
        let name = name.map_or(DEFAULT_REVIEWER, String::as_str);
        if others.iter().any(|other| other.agent.name() == name) {
            return None;
        }
        let mut work = AssemblyBuilder::new(self.assembly, self.choice);
        let definition = self.assembly.registry.composition(name).ok()?;
        let mut agent = work.composition(definition, AgentDuty::Reviewer).await.ok()?;
        agent.only_read();
        work.write_prompts(&mut agent).ok()?;
        Some(Subagent { agent, reach: AgentAccess::ReadOnly })
    }

    fn composition(
        &mut self,
        definition: CompositionDefinition,
        part: AgentDuty,
    ) -> AssemblyResult<'_> {
        Box::pin(async move {
            let registry = &self.assembly.registry;
            let handoff = handoff(registry, &definition)?;
            self.warnings.extend(definition.warnings);
            let primary = self.base(&definition.primary, part).await?;
            let mut coagents = Vec::new();
            for name in &definition.coagents {
                let inner = self.assembly.registry.composition(name)?;
                // A base agent by its own name is no composition of its own.
                let is_base = inner.primary == *name && inner.coagents.is_empty();
                coagents.push(if is_base {
                    Coagent::Base(Box::new(self.base(name, AgentDuty::Reviewer).await?))
                } else {
                    let inner = self.composition(inner, AgentDuty::Reviewer).await?;
                    Coagent::Composition(Box::new(inner))
                });
            }
            let (mut limits, mut control_flow) = (definition.limits, definition.control_flow);
            if let Some(most) = self.choice.max_rounds.filter(|_| part == AgentDuty::Worker) {
                limits.max_rounds = most;
                // What the file says of the flow would still bound it.
                control_flow = control_flow.without_max_rounds();
            }
            let agent = AcpAgent::new(AcpAgentParts {
                name: definition.name,
                description: definition.description,
                primary,
                coagents,
                control_flow,
                consensus: definition.consensus,
                handoff,
                limits,
                end_tools: self.end_tools.clone(),
            })?;
            if limits.max_money.is_some() {
                self.check_prices(&agent).await?;
            }
            self.warn_of_mute(&agent);
            Ok(agent)
        })
    }

    /// Refuses a bound on money where it cannot be kept: that is known before anything is asked.
    async fn check_prices(&self, agent: &AcpAgent) -> Result<(), AssemblyError> {
        let coagents = agent.coagents().iter().filter_map(|coagent| match coagent {
            Coagent::Base(base) => Some(base.as_ref()),
            // Its own agents are bounded by the runtime, if not by its own file.
            Coagent::Composition(_) => None,
        });
        for base in std::iter::once(agent.primary()).chain(coagents) {
            let model = base.model();
            if self.assembly.models.price(&model.info.reference).await.is_some() {
                continue;
            }
            let node = self.assembly.registry.node(AgentKind::Composition, agent.name());
            let node = node.map_err(DefinitionError::from)?;
            let at = node.map(|node| node.origin_of(&["limits", "max_money"]).to_string());
            return Err(AssemblyError::NoPrice {
                at: at.unwrap_or_else(|| agent.name().to_owned()),
                agent: base.name().to_owned(),
                model: model.info.reference.clone(),
                advice: model.warning.clone(),
            });
        }
        Ok(())
    }

    /// Says which agents could end a run and never will: their model cannot call the tool with which it is done.
    fn warn_of_mute(&mut self, agent: &AcpAgent) {
        let flow = agent.control_flow();
        let primary = (*flow != ControlFlow::Hitl
            && flow.owner_of_the_end() == OwnerOfTheEnd::Primary)
            .then(|| (agent.primary().name(), agent.primary().model()));
        let coagents = agent.coagents().iter().filter_map(|coagent| match coagent {
            Coagent::Base(base) if flow.end_tool_of_coagent().is_some() => {
                Some((base.name(), base.model()))
            }
            Coagent::Base(_) | Coagent::Composition(_) => None,
        });
        for (name, model) in primary.into_iter().chain(coagents) {
            if !model.info.abilities.tools {
                let model = &model.info.reference;
                self.warnings.push(format!(
                    "{name}: {model} cannot call tools, so it can never say that the task is done"
                ));
            }
        }
    }

    async fn base(&mut self, name: &str, part: AgentDuty) -> Result<BaseAgent, AssemblyError> {
        let mut definition = self.assembly.registry.base(name)?;
        self.warnings.append(&mut definition.warnings);
        let model = self.model(&definition, part).await?;
        let fallbacks = self.fallbacks(&definition, part).await?;
        let (sourced, own): (Vec<String>, Vec<String>) =
            definition.tools.iter().cloned().partition(|name| is_sourced_pattern(name));
        let (mut tools, mut unknown) = self.assembly.tools.for_agent(&own);
        self.add_task_tools(&mut tools, &mut unknown);
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.warnings.push(format!("{name}: there are no tools {unknown}; it works without"));
        }
        let mut limits = definition.limits;
        if let Some(most) = self.choice.max_steps {
            limits.max_steps = most;
        }
        let mut config = AgentConfig {
            system_prompt: String::new(),
            model: definition.model.config.clone(),
            limits,
        };
        if part == AgentDuty::Worker && model.info.abilities.thinking {
            config.model.thinking = self.thinking.or(config.model.thinking);
        }
        let agent = BaseAgent::new(name, config, model, tools)
            .with_fallbacks(fallbacks)
            .with_sourced(sourced);
        self.bases.insert(name.to_owned(), definition);
        Ok(agent)
    }

    /// Adds the tools that start others, as far as the agent names them and there is anybody to start. A subagent has them in
    /// its file for the day on which somebody starts it as the first one.
    fn add_task_tools(&self, tools: &mut ToolRegistry, names: &mut Vec<String>) {
        let mut takes = |name: &str| {
            let before = names.len();
            names.retain(|other| other != name);
            names.len() < before && self.subagents.is_some()
        };
        let (task, output, cancel) =
            (takes(Task::NAME), takes(TaskOutput::NAME), takes(TaskCancel::NAME));
        if let Some(subagents) = self.subagents.as_ref().filter(|_| task) {
            let task = Task::new(subagents.clone());
            tools.register(TypedToolAdapter::new(if output { task } else { task.in_foreground() }));
        }
        if output {
            tools.register(TypedToolAdapter::new(TaskOutput));
        }
        if cancel {
            tools.register(TypedToolAdapter::new(TaskCancel));
        }
    }

    async fn model(
        &mut self,
        definition: &BaseDefinition,
        part: AgentDuty,
    ) -> Result<ResolvedModel, AssemblyError> {
        let reference = match self.chosen(part) {
            Some(model) => model.clone(),
            None => self.own_model(definition)?,
        };
        let resolved = self
            .assembly
            .models
            .resolve(&reference)
            .await
            .map_err(|error| AssemblyError::Model { agent: definition.name.clone(), error })?;
        Ok(resolved)
    }

    /// Returns the model that the user chose for such an agent.
    fn chosen(&self, part: AgentDuty) -> Option<&ModelRef> {
        let reviewer = self.choice.reviewer_model.as_ref().filter(|_| part == AgentDuty::Reviewer);
        reviewer.or(self.choice.model.as_ref())
    }

    fn own_model(&self, definition: &BaseDefinition) -> Result<ModelRef, AssemblyError> {
        let agent = || definition.name.clone();
        let default = || {
            let default = self.choice.default_model.as_ref();
            default.ok_or_else(|| AssemblyError::NoModel { agent: agent() })
        };
        let ModelChoice { provider, model, .. } = &definition.model;
        match (provider, model) {
            (Some(provider), Some(model)) => {
                Ok(ModelRef { provider: provider.clone(), model: model.clone() })
            }
            (Some(provider), None) => self.assembly.models.default_of(provider).ok_or_else(|| {
                AssemblyError::NoDefaultModel { agent: agent(), provider: provider.clone() }
            }),
            (None, Some(model)) if model.contains('/') => {
                model.parse().map_err(|error| AssemblyError::ModelName { agent: agent(), error })
            }
            (None, Some(model)) => {
                let provider = default()?.provider.clone();
                Ok(ModelRef { provider, model: model.clone() })
            }
            (None, None) => default().cloned(),
        }
    }

    /// Finds the models to fall back on. One that cannot be asked now is left out, and said so. A model that the user
    /// chose has none: it is meant.
    async fn fallbacks(
        &mut self,
        definition: &BaseDefinition,
        part: AgentDuty,
    ) -> Result<Vec<ResolvedModel>, AssemblyError> {
        let mut models = Vec::new();
        if self.chosen(part).is_some() {
            return Ok(models);
        }
        for name in &definition.model.fallbacks {
            let agent = || definition.name.clone();
            let reference =
                name.parse().map_err(|error| AssemblyError::ModelName { agent: agent(), error })?;
            match self.assembly.models.resolve(&reference).await {
                Ok(model) => models.push(model),
                Err(error) => {
                    let warning = format!("{}: no falling back on {name}: {error}", agent());
                    self.warnings.push(warning);
                }
            }
        }
        Ok(models)
    }

    /// Writes the system prompts, now that it is known which tools each agent has.
    fn write_prompts(&self, agent: &mut AcpAgent) -> Result<(), AssemblyError> {
        let mut result = Ok(());
        agent.each_base(&mut |base| {
            let Some(definition) = self.bases.get(base.name()) else { return };
            let tools = base.tools().names().map(str::to_owned).collect();
            let context = PromptContext::new(definition, tools);
            match self.assembly.registry.prompts().system(&definition.prompt, &context) {
                Ok(prompt) => base.set_system_prompt(prompt),
                Err(error) => {
                    result = Err(AssemblyError::Template { agent: base.name().to_owned(), error });
                }
            }
        });
        result
    }
}

fn handoff(
    registry: &AgentRegistry,
    definition: &CompositionDefinition,
) -> Result<Option<Handoff>, AssemblyError> {
    let wrong = |error| AssemblyError::Template { agent: definition.name.clone(), error };
    Ok(match &definition.handoff {
        None => None,
        Some(HandoffDefinition::Static(text)) => Some(Handoff::Static(text.clone())),
        Some(HandoffDefinition::Template(text)) => {
            let template = registry.prompts().parse_handoff(text).map_err(wrong)?;
            Some(Handoff::of_template(template).map_err(wrong)?)
        }
        Some(HandoffDefinition::Generated { generator_prompt }) => {
            Some(Handoff::Generated { generator_prompt: generator_prompt.clone() })
        }
        Some(HandoffDefinition::Verbatim) => Some(Handoff::Verbatim),
    })
}
