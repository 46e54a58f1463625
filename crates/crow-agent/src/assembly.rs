//! Assembly of agents that can be run from their definitions.
//!
//! The builder makes the base agents of a composition first, nested compositions recursively. It writes the system
//! prompts last, because a prompt depends on the tools that its agent ends up with.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::Arc,
};

use crow_core::{
    control::{CompletionOwner, ControlFlow},
    model::{
        ModelRef, ModelRefError, Models, ModelsError, ResolvedModel, Thinking, ToolCallFormat,
    },
    tool::{ToolRegistry, TypedTool as _, TypedToolAdapter, is_sourced_pattern},
};
use crow_runtime::AgentAccess;

use crate::{
    acp_agent::{AcpAgent, AcpAgentParts, Coagent, CompositionError, Subagent, Subagents},
    base_agent::{AgentConfig, BaseAgent},
    checks::Checks,
    choice::{AgentChoice, DEFAULT_REVIEWER, ReviewChoice},
    definition::{
        AgentKind, AgentRegistry, BaseDefinition, CompositionDefinition, DefinitionError,
        HandoffDefinition, ModelChoice, PromptContext, is_optional_tool,
    },
    end_tools::{EndTools, SubmitForReview, TaskComplete},
    handoff::Handoff,
    instructions::InstructionSources,
    profile::ProfileRegistry,
    prompt::{Surroundings, TemplateError},
    task::{Task, TaskCancel, TaskOutput},
};

/// Name of the tool that asks the user.
const ASK_USER: &str = "ask_user";

/// The sources from which agents are assembled.
#[derive(Debug, Clone)]
pub struct Assembly {
    /// Definitions of the agents.
    pub registry: AgentRegistry,
    /// Available models.
    pub models: Arc<dyn Models>,
    /// All available tools.
    pub tools: ToolRegistry,
    /// Checks that must pass before a task is complete.
    pub checks: Checks,
    /// Where the instructions of files come from; `None` if the agents get none.
    pub instructions: Option<InstructionSources>,
    /// True if a person is connected who can answer. Without one the agents cannot ask, and their prompts say so.
    pub is_attended: bool,
}

/// An assembled agent, ready to run.
#[derive(Debug, Clone)]
pub struct AssembledAgent {
    /// The agent.
    pub agent: AcpAgent,
    /// Control flow and reviewers in effect, and those of the definition.
    pub review: ReviewChoice,
    /// Warnings for its author or user.
    pub warnings: Vec<String>,
}

/// A limit of runs in money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoneyLimit {
    /// `max_money` of the agent, in this file and line.
    InFile(String),
    /// The budget that the user chose.
    Chosen,
}

impl std::fmt::Display for MoneyLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InFile(at) => write!(f, "{at}: max_money"),
            Self::Chosen => f.write_str("an amount of money"),
        }
    }
}

/// A reason for which an agent cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// A definition file is invalid, or there is none.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Its parts do not fit together.
    #[error(transparent)]
    Composition(#[from] CompositionError),
    /// One of its templates is invalid.
    #[error("{agent}: {error}")]
    Template {
        /// The agent.
        agent: String,
        /// Cause.
        error: TemplateError,
    },
    /// Its model cannot be resolved.
    #[error("{agent}: {error}")]
    Model {
        /// The agent.
        agent: String,
        /// Cause.
        error: ModelsError,
    },
    /// The name of its model is invalid.
    #[error("{agent}: {error}")]
    ModelName {
        /// The agent.
        agent: String,
        /// Cause.
        error: ModelRefError,
    },
    /// Its runs have a limit in money, and the price of one of its models is unknown.
    #[error("{limit} limits the run, but the price of {model}, which {agent} uses, is unknown")]
    NoPrice {
        /// The limit.
        limit: MoneyLimit,
        /// The base agent.
        agent: String,
        /// The model.
        model: ModelRef,
        /// Advice on where to configure the price, if known.
        advice: Option<String>,
    },
    /// Neither its definition nor the user chose a model.
    #[error("{agent}: it has no model")]
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

/// The duty of an agent: to do the work or to review it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentDuty {
    Worker,
    Reviewer,
}

/// State of an assembly in progress.
struct AssemblyBuilder<'a> {
    assembly: &'a Assembly,
    choice: &'a AgentChoice,
    end_tools: EndTools,
    profiles: ProfileRegistry,
    /// The definitions of the base agents, by name.
    bases: BTreeMap<String, BaseDefinition>,
    /// Agents that the assembled agents may start; `None` for subagents.
    subagents: Option<Subagents>,
    /// Thinking level for the model of the agent that does the work; `None` for that of its definition.
    thinking: Option<Thinking>,
    warnings: Vec<String>,
}

type AssemblyResult<'a> =
    Pin<Box<dyn Future<Output = Result<AcpAgent, AssemblyError>> + Send + 'a>>;

impl Assembly {
    /// Makes the agent of this name: a composition, or a base agent that works alone.
    pub async fn assemble(
        &self,
        name: &str,
        choice: &AgentChoice,
    ) -> Result<AssembledAgent, AssemblyError> {
        let (definition, standing) = choice.apply_to(self.registry.composition(name)?);
        let mut builder = AssemblyBuilder::new(self, choice);
        if builder.may_delegate(&definition) {
            builder.subagents = Some(builder.all_subagents(&standing).await?);
        }
        builder.thinking = choice.thinking;
        let mut agent = builder.composition(definition, AgentDuty::Worker).await?;
        builder.write_prompts(&mut agent)?;
        if let Some(prompt) = &choice.system_prompt {
            agent.change_system_prompt(prompt);
        }
        let agent = agent.with_subagents(builder.subagents.unwrap_or_default());
        Ok(AssembledAgent { agent, review: standing, warnings: builder.warnings })
    }
}

impl<'a> AssemblyBuilder<'a> {
    fn new(assembly: &'a Assembly, choice: &'a AgentChoice) -> Self {
        let task_complete = TaskComplete::new(assembly.checks.clone());
        let end_tools = EndTools {
            task_complete: Arc::new(TypedToolAdapter::new(task_complete)),
            submit_for_review: Arc::new(TypedToolAdapter::new(SubmitForReview)),
        };
        let registry = &assembly.registry;
        let profiles =
            ProfileRegistry::new(registry.layers().clone(), registry.tool_names().clone());
        Self {
            assembly,
            choice,
            end_tools,
            profiles,
            bases: BTreeMap::new(),
            subagents: None,
            thinking: None,
            warnings: Vec::new(),
        }
    }

    /// Makes a builder for another agent. It reads no profile again that this one has read.
    fn for_other_agent(&self) -> Self {
        Self {
            assembly: self.assembly,
            choice: self.choice,
            end_tools: self.end_tools.clone(),
            profiles: self.profiles.clone(),
            bases: BTreeMap::new(),
            subagents: None,
            thinking: None,
            warnings: Vec::new(),
        }
    }

    /// Returns true if an agent of the composition has the tool that starts others. Definitions that cannot be read
    /// are skipped; the error is reported later.
    fn may_delegate(&self, definition: &CompositionDefinition) -> bool {
        let registry = &self.assembly.registry;
        let names = std::iter::once(&definition.primary).chain(&definition.coagents);
        names
            .filter_map(|name| registry.base(name).ok())
            .any(|base| base.tools.iter().any(|tool| tool == Task::NAME))
    }

    /// Makes the agents that others may start. One that cannot be made is left out with a warning.
    async fn all_subagents(&mut self, standing: &ReviewChoice) -> Result<Subagents, AssemblyError> {
        let registry = &self.assembly.registry;
        let names = registry.subagent_names();
        // An agent that is part of a listed composition is not listed by itself.
        let compositions = names.iter().filter(|(kind, _)| *kind == AgentKind::Composition);
        let compositions = compositions.filter_map(|(_, name)| registry.composition(name).ok());
        let parts: BTreeSet<String> = compositions
            .flat_map(|agent| std::iter::once(agent.primary).chain(agent.coagents))
            .collect();
        let mut subagents = Vec::new();
        for (_, name) in names.into_iter().filter(|(_, name)| !parts.contains(name)) {
            let mut builder = self.for_other_agent();
            let attempt = async {
                let definition = registry.composition(&name)?;
                let mut agent = builder.composition(definition, AgentDuty::Worker).await?;
                builder.write_prompts(&mut agent)?;
                Ok::<_, AssemblyError>(agent)
            };
            match attempt.await {
                Ok(agent) => {
                    subagents.push(Subagent { agent, access: AgentAccess::Policy });
                    self.warnings.append(&mut builder.warnings);
                }
                Err(error) => {
                    self.warnings.push(format!("{name} cannot be started: {error}"));
                }
            }
        }
        let reviewer = self.reviewer(standing, &subagents).await;
        Ok(Subagents::new(subagents, Surroundings::default()).with_unlisted(reviewer))
    }

    /// Makes the read-only reviewer that the user may ask for. Returns `None` if it is listed anyway or cannot be
    /// made; its error is reported to users who choose it as a coagent.
    async fn reviewer(&self, standing: &ReviewChoice, others: &[Subagent]) -> Option<Subagent> {
        let name = standing.reviewers.first().or(standing.own_reviewers.first());
        let name = name.map_or(DEFAULT_REVIEWER, String::as_str);
        if others.iter().any(|other| other.agent.name() == name) {
            return None;
        }
        let mut builder = self.for_other_agent();
        let definition = self.assembly.registry.composition(name).ok()?;
        let mut agent = builder.composition(definition, AgentDuty::Reviewer).await.ok()?;
        agent.restrict_to_reading();
        builder.write_prompts(&mut agent).ok()?;
        Some(Subagent { agent, access: AgentAccess::ReadOnly })
    }

    fn composition(
        &mut self,
        definition: CompositionDefinition,
        duty: AgentDuty,
    ) -> AssemblyResult<'_> {
        Box::pin(async move {
            let registry = &self.assembly.registry;
            let handoff = handoff(registry, &definition)?;
            self.warnings.extend(definition.warnings);
            let primary = self.base(&definition.primary, duty).await?;
            let mut coagents = Vec::new();
            for name in &definition.coagents {
                let inner = self.assembly.registry.composition(name)?;
                // The registry wraps a base agent that is named directly in a composition of the same name.
                let is_base = inner.primary == *name && inner.coagents.is_empty();
                coagents.push(if is_base {
                    Coagent::Base(Box::new(self.base(name, AgentDuty::Reviewer).await?))
                } else {
                    let inner = self.composition(inner, AgentDuty::Reviewer).await?;
                    Coagent::Composition(Box::new(inner))
                });
            }
            let (mut limits, mut control_flow) = (definition.limits, definition.control_flow);
            if let Some(max_rounds) = self.choice.max_rounds.filter(|_| duty == AgentDuty::Worker) {
                limits.max_rounds = max_rounds;
                // Otherwise the limit in the control flow of the file would still apply.
                control_flow = control_flow.without_max_rounds();
            }
            if duty == AgentDuty::Worker {
                limits = limits.within(self.choice.budget);
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

    /// Rejects a limit in money that cannot be enforced because a price is unknown, before any model is asked.
    async fn check_prices(&self, agent: &AcpAgent) -> Result<(), AssemblyError> {
        let coagents = agent.coagents().iter().filter_map(|coagent| match coagent {
            Coagent::Base(base) => Some(base.as_ref()),
            // The runtime limits the agents of a nested composition, if its own file does not.
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
            let limit = match self.choice.budget.money {
                Some(_) => MoneyLimit::Chosen,
                None => MoneyLimit::InFile(at.unwrap_or_else(|| agent.name().to_owned())),
            };
            return Err(AssemblyError::NoPrice {
                limit,
                agent: base.name().to_owned(),
                model: model.info.reference.clone(),
                advice: model.warning.clone(),
            });
        }
        Ok(())
    }

    /// Warns of agents that could end a run but never will: their model cannot call tools, and so not the end tool.
    fn warn_of_mute(&mut self, agent: &AcpAgent) {
        let flow = agent.control_flow();
        let primary = (*flow != ControlFlow::Hitl
            && flow.completion_owner() == CompletionOwner::Primary)
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
                    "{name}: {model} cannot call tools, so it can never say that the task is done; tool_calls = \"text\" in the settings of the model lets it call them in text"
                ));
            }
        }
    }

    async fn base(&mut self, name: &str, duty: AgentDuty) -> Result<BaseAgent, AssemblyError> {
        let mut definition = self.assembly.registry.base(name)?;
        self.warnings.append(&mut definition.warnings);
        let mut model = self.model(&definition, duty).await?;
        let profile = self.profiles.for_model(&model.info.reference);
        let profile = profile.map_err(DefinitionError::from)?;
        model.info.tool_calls = model.info.tool_calls.or(profile.tool_calls);
        // Every model can write a call into its text.
        model.info.abilities.tools |=
            model.info.tool_calls.is_some_and(|format| format != ToolCallFormat::Native);
        let fallbacks = self.fallbacks(&definition, duty).await?;
        // Tools: patterns for external sources are separate from names in the registry.
        let (sourced, own): (Vec<String>, Vec<String>) =
            definition.tools.iter().cloned().partition(|name| is_sourced_pattern(name));
        let (mut tools, mut unknown) = self.assembly.tools.for_agent(&own);
        if !self.assembly.is_attended {
            tools.retain(|tool| tool.name() != ASK_USER);
        }
        self.add_task_tools(&mut tools, &mut unknown);
        unknown.retain(|name| !is_optional_tool(name));
        if let Some(window) = model.info.context_window {
            tools.fit_to_window(window);
        }
        profile.adapt(&mut tools, &self.assembly.tools);
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            self.warnings.push(format!("{name}: unknown tools {unknown}; it works without them"));
        }
        // Limits and model settings, with the choices of the user on top.
        let mut limits = definition.limits;
        if let Some(max_steps) = self.choice.max_steps {
            limits.max_steps = max_steps;
        }
        let mut config = AgentConfig {
            system_prompt: String::new(),
            model: definition.model.config.clone(),
            limits,
            instructions: self.assembly.instructions.clone(),
            prompt_style: profile.prompt_style,
            step_thinking: None,
            tells_contradictions: profile.tells_contradictions,
        };
        let sampling = self.choice.sampling;
        config.model.temperature = sampling.temperature.or(config.model.temperature);
        config.model.seed = sampling.seed.or(config.model.seed);
        if duty == AgentDuty::Worker && model.info.abilities.thinking {
            config.model.thinking = self.thinking.or(config.model.thinking);
        }
        // A thinking level of the user or of the agent's file overrides the profile.
        if model.info.abilities.thinking && config.model.thinking.is_none() {
            config.step_thinking = profile.thinking;
        }
        let mut agent = BaseAgent::new(name, config, model, tools)
            .with_fallbacks(fallbacks)
            .with_sourced(sourced);
        if duty == AgentDuty::Worker {
            let tools = &self.assembly.tools;
            agent = agent.with_mentioned_files(tools).with_prompt_commands(tools);
        }
        if profile.shows_named_files && duty == AgentDuty::Worker {
            agent = agent.with_named_files(&self.assembly.tools);
        }
        self.bases.insert(name.to_owned(), definition);
        Ok(agent)
    }

    /// Adds the tools that start other agents, if the agent names them and there are agents to start. A subagent
    /// names them, too, for the case that it is started as the main agent.
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
        duty: AgentDuty,
    ) -> Result<ResolvedModel, AssemblyError> {
        let reference = match self.chosen(duty) {
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

    /// Returns the model that the user chose for an agent with this duty.
    fn chosen(&self, duty: AgentDuty) -> Option<&ModelRef> {
        let reviewer = self.choice.reviewer_model.as_ref().filter(|_| duty == AgentDuty::Reviewer);
        reviewer.or(self.choice.model.as_ref())
    }

    /// Returns the model of the definition, completed from the default model of the user or of the provider.
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
            (Some(provider), None) => {
                self.assembly.models.provider_default_model(provider).ok_or_else(|| {
                    AssemblyError::NoDefaultModel { agent: agent(), provider: provider.clone() }
                })
            }
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

    /// Resolves the fallback models. One that cannot be resolved now is left out with a warning. A model that the
    /// user chose has no fallbacks, because the user wants this one.
    async fn fallbacks(
        &mut self,
        definition: &BaseDefinition,
        duty: AgentDuty,
    ) -> Result<Vec<ResolvedModel>, AssemblyError> {
        let mut models = Vec::new();
        if self.chosen(duty).is_some() {
            return Ok(models);
        }
        for name in &definition.model.fallbacks {
            let agent = || definition.name.clone();
            let reference =
                name.parse().map_err(|error| AssemblyError::ModelName { agent: agent(), error })?;
            match self.assembly.models.resolve(&reference).await {
                Ok(model) => models.push(model),
                Err(error) => {
                    let warning =
                        format!("{}: the fallback {name} cannot be used: {error}", agent());
                    self.warnings.push(warning);
                }
            }
        }
        Ok(models)
    }

    /// Writes the system prompts, once the tools of each agent are known.
    fn write_prompts(&self, agent: &mut AcpAgent) -> Result<(), AssemblyError> {
        let mut result = Ok(());
        agent.for_each_base_agent(&mut |base| {
            let definition =
                self.bases.get(base.name()).expect("invariant: each base agent was read before");
            let tools = base.tools().names().map(str::to_owned).collect();
            let context = PromptContext::new(definition, tools, self.assembly.is_attended)
                .with_style(base.config().prompt_style);
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
    let template_error = |error| AssemblyError::Template { agent: definition.name.clone(), error };
    Ok(match &definition.handoff {
        None => None,
        Some(HandoffDefinition::Static(text)) => Some(Handoff::Static(text.clone())),
        Some(HandoffDefinition::Template(text)) => {
            let template = registry.prompts().parse_handoff(text).map_err(template_error)?;
            Some(Handoff::of_template(template).map_err(template_error)?)
        }
        Some(HandoffDefinition::Generated { generator_prompt }) => {
            Some(Handoff::Generated { generator_prompt: generator_prompt.clone() })
        }
        Some(HandoffDefinition::Verbatim) => Some(Handoff::Verbatim),
    })
}
