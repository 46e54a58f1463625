//! Definitions of agents, as read from their files, and what the templates of their prompts can use of them.

use crow_core::{
    control::{Consensus, ControlFlow},
    model::ModelConfig,
    turn::{RunLimits, TurnLimits},
};
use serde::Serialize;

use crate::prompt::PromptStyle;

/// A base agent: one model, one system prompt, one set of tools.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseDefinition {
    /// Name, which is that of its file.
    pub name: String,
    /// Description in one line. A model reads it when it chooses a subagent.
    pub description: String,
    /// Role: started by people or by other agents.
    pub role: DefinedRole,
    /// The template of its system prompt.
    pub prompt: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The model that it asks.
    pub model: ModelChoice,
    /// Limits of a turn.
    pub limits: TurnLimits,
    /// Warnings for its author; the agent works in spite of them.
    pub warnings: Vec<String>,
}

/// The role of an agent, which says by whom it is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefinedRole {
    /// A person, in a chat, a run or an editor.
    #[default]
    Primary,
    /// Another agent, by the `task` tool.
    Subagent,
}

/// The model that an agent asks. Without one, the command line and the configuration decide.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelChoice {
    /// The provider.
    pub provider: Option<String>,
    /// The model; the provider's default if absent.
    pub model: Option<String>,
    /// Models to ask if the model cannot answer, each as `provider/model`.
    pub fallbacks: Vec<String>,
    /// Settings of the requests to the model.
    pub config: ModelConfig,
}

/// A composition: a primary, its reviewers, and the control flow between them. From outside it is one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositionDefinition {
    /// Name, which is that of its file.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Role: started by people or by other agents.
    pub role: DefinedRole,
    /// The base agent that does the work.
    pub primary: String,
    /// Reviewers: base agents or compositions. Several run at the same time.
    pub coagents: Vec<String>,
    /// Rule for how many of several coagents must approve.
    pub consensus: Consensus,
    /// Control flow after a turn.
    pub control_flow: ControlFlow,
    /// Message that the coagents get; the default of the control flow if absent.
    pub handoff: Option<HandoffDefinition>,
    /// Limits of a run.
    pub limits: RunLimits,
    /// Warnings for its author; the composition works in spite of them.
    pub warnings: Vec<String>,
}

/// The message that a coagent gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffDefinition {
    /// A fixed text.
    Static(String),
    /// A template with the variables of [`HANDOFF_VARIABLES`](crate::HANDOFF_VARIABLES).
    Template(String),
    /// A text that a model writes for the task.
    Generated {
        /// Prompt for this model.
        generator_prompt: String,
    },
    /// The primary's last text, unchanged: the agents have a conversation.
    Verbatim,
}

impl DefinedRole {
    /// Returns the word for the role in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
        }
    }
}

impl ModelChoice {
    /// Returns the model as `provider/model`, as far as it is chosen.
    pub fn reference(&self) -> Option<String> {
        match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
            (Some(provider), None) => Some(provider.clone()),
            (None, Some(model)) => Some(model.clone()),
            (None, None) => None,
        }
    }
}

impl CompositionDefinition {
    /// Makes the composition of a base agent that works alone and returns to the user after every turn.
    pub fn solo(base: &BaseDefinition) -> Self {
        Self {
            name: base.name.clone(),
            description: base.description.clone(),
            role: base.role,
            primary: base.name.clone(),
            coagents: Vec::new(),
            consensus: Consensus::default(),
            control_flow: ControlFlow::Hitl,
            handoff: None,
            limits: RunLimits::default(),
            warnings: Vec::new(),
        }
    }
}

/// Variables that the template of a system prompt can use. They contain no date, no directory and no id: the prompt
/// is the same in every request of every session, so that providers can cache it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptContext {
    /// The agent's name.
    pub agent_name: String,
    /// `primary` or `subagent`.
    pub role: String,
    /// Description of the agent in one line.
    pub description: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// True if it has a tool that changes files.
    pub can_edit: bool,
    /// The tool with which it ends its turn on purpose; empty if it has none.
    pub end_tool: String,
    /// True if a person is connected who can answer questions.
    pub attended: bool,
    /// True for models that get a short prompt, see [`PromptStyle`](crate::PromptStyle).
    pub brief: bool,
}

impl PromptContext {
    /// Makes the variables for an agent that has these tools, with or without a person who can answer.
    pub fn new(definition: &BaseDefinition, tools: Vec<String>, attended: bool) -> Self {
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        let end_tool = ["task_complete", "submit_for_review"].into_iter().find(|name| has(name));
        Self {
            agent_name: definition.name.clone(),
            role: definition.role.as_str().to_owned(),
            description: definition.description.clone(),
            can_edit: ["apply_patch", "edit_file", "write_file"].into_iter().any(has),
            end_tool: end_tool.unwrap_or_default().to_owned(),
            attended,
            brief: false,
            tools,
        }
    }

    /// Sets the style of the prompt, which is otherwise the full one.
    #[must_use]
    pub fn with_style(self, style: PromptStyle) -> Self {
        Self { brief: style == PromptStyle::Brief, ..self }
    }
}
