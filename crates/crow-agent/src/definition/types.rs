//! What an agent is, as its files describe it.

use crow_core::{
    control::{Consensus, ControlFlow},
    model::ModelConfig,
    turn::{RunLimits, TurnLimits},
};

/// A base agent: one model, one system prompt, one set of tools.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseDefinition {
    /// Its name, which is that of its file.
    pub name: String,
    /// What it is for, in a line. A model reads it when it chooses a subagent.
    pub description: String,
    /// Who starts it.
    pub role: DefinedRole,
    /// The template of its system prompt.
    pub prompt: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The model it asks.
    pub model: ModelChoice,
    /// The bounds of a turn.
    pub limits: TurnLimits,
    /// What its author is to know, and what does not keep it from working.
    pub warnings: Vec<String>,
}

/// Who starts an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefinedRole {
    /// A person, in a chat, a run or an editor.
    #[default]
    Primary,
    /// Another agent, by the `task` tool.
    Subagent,
}

/// The model that an agent asks. Without one it is left to the command line and the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelChoice {
    /// The provider.
    pub provider: Option<String>,
    /// The model; the provider's default if absent.
    pub model: Option<String>,
    /// What is asked where the model cannot be, each as `provider/model`.
    pub fallbacks: Vec<String>,
    /// How it is asked.
    pub config: ModelConfig,
}

/// A composition: a primary, whoever looks at its work, and what comes after a turn. From outside it is one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositionDefinition {
    /// Its name, which is that of its file.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// Who starts it.
    pub role: DefinedRole,
    /// The base agent that does the work.
    pub primary: String,
    /// Who looks at the work: base agents or compositions. Several look at the same time.
    pub coagents: Vec<String>,
    /// How many of several must approve.
    pub consensus: Consensus,
    /// What comes after a turn.
    pub control_flow: ControlFlow,
    /// What the coagents are handed. The usual bundle if absent.
    pub handoff: Option<HandoffDefinition>,
    /// The bounds of a run.
    pub limits: RunLimits,
    /// What its author is to know, and what does not keep it from working.
    pub warnings: Vec<String>,
}

/// What a coagent is handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffDefinition {
    /// This text.
    Static(String),
    /// This template, with the variables of [`HANDOFF_VARIABLES`](crate::HANDOFF_VARIABLES).
    Template(String),
    /// What a model writes for the task.
    Generated {
        /// What that model is asked.
        generator_prompt: String,
    },
    /// The primary's last words as they are: two agents that talk.
    Verbatim,
}

impl DefinedRole {
    /// Returns the word for it in files.
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
