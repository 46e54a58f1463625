//! How far an agent goes on without its user.

use serde::{Deserialize, Serialize};

/// What a primary is told when its turn ended and the task is not done.
pub const CONTINUE: &str = "Go on with the task. Call task_complete when all of it is done.";
/// What the generator of level 2 is asked.
pub const CRITERIA_PROMPT: &str = "Write the acceptance criteria of this task: a short list of what must be true when it is done, each point such that one can look at the files or run a command and see whether it holds. Take them from the task alone, add no wishes of your own, and keep to a list that you wrote before. Say of each point whether what was done so far shows that it holds, and end by telling the agent to see to those that are not shown to hold. Answer with the message and nothing else.";
/// The message of level 1, as the seed has it.
const LEVEL_1: &str = "Continue with the task. Call task_complete when done.";

/// What happens after a turn of the primary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ControlFlow {
    /// The next word is the user's.
    #[default]
    Hitl,
    /// The primary goes on until it says that the task is done. With coagents, they look at each turn and advise.
    Loop {
        /// The most rounds; the limits of the run alone if absent.
        max_rounds: Option<u32>,
    },
    /// The primary is told this until it says that the task is done.
    Static {
        /// What it is told.
        message: String,
        /// The most rounds.
        max_rounds: Option<u32>,
    },
    /// A model writes after each turn, from the task and from what was done, what the primary is told, until that says that
    /// the task is done.
    Generated {
        /// What that model is asked.
        generator_prompt: String,
        /// The most rounds.
        max_rounds: Option<u32>,
    },
    /// A coagent looks at each turn.
    Coagent {
        /// What it may use.
        tools: CoagentTools,
        /// Whether it says that the task is done, and nobody else.
        can_terminate: bool,
        /// The most rounds.
        max_rounds: Option<u32>,
    },
}

/// What a coagent may use, of the tools that are enabled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoagentTools {
    /// Nothing: it reads what it is handed.
    None,
    /// What changes nothing.
    ReadOnly,
    /// What the primary may use.
    Full,
}

/// Who may say that the task is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerOfTheEnd {
    /// The agent that does the work.
    Primary,
    /// The agents that look at it.
    Coagent,
}

/// The tool with which an agent ends its turn on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndTool {
    /// Says that the task is done.
    TaskComplete,
    /// Hands the work to the reviewers.
    SubmitForReview,
}

/// A level that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no level {level}; levels go from -1 (hitl) to 5 (smart)")]
pub struct UnknownLevel {
    /// The level as given.
    pub level: i64,
}

impl ControlFlow {
    /// A coagent without tools gives advice; the primary says when it is done.
    pub fn advise() -> Self {
        Self::Coagent { tools: CoagentTools::None, can_terminate: false, max_rounds: None }
    }

    /// A coagent that only reads approves the work or sends it back.
    pub fn judge() -> Self {
        Self::Coagent { tools: CoagentTools::ReadOnly, can_terminate: true, max_rounds: None }
    }

    /// A coagent approves the work, repairs it, or sends it back.
    pub fn smart() -> Self {
        Self::Coagent { tools: CoagentTools::Full, can_terminate: true, max_rounds: None }
    }

    /// Two agents talk until the second one says that the task is done.
    pub fn chat(max_rounds: Option<u32>) -> Self {
        Self::Coagent { tools: CoagentTools::Full, can_terminate: true, max_rounds }
    }

    /// Makes the control flow of a level: -1 returns to the user, 5 is a pair of agents with the same rights.
    pub fn from_level(level: i64) -> Result<Self, UnknownLevel> {
        Ok(match level {
            -1 => Self::Hitl,
            0 => Self::Loop { max_rounds: None },
            1 => Self::Static { message: LEVEL_1.to_owned(), max_rounds: None },
            2 => Self::Generated { generator_prompt: CRITERIA_PROMPT.to_owned(), max_rounds: None },
            3 => Self::advise(),
            4 => Self::judge(),
            5 => Self::smart(),
            _ => return Err(UnknownLevel { level }),
        })
    }

    /// Returns who may say that the task is done. It follows from the type alone.
    pub fn owner_of_the_end(&self) -> OwnerOfTheEnd {
        match self {
            Self::Coagent { can_terminate: true, .. } => OwnerOfTheEnd::Coagent,
            Self::Hitl
            | Self::Loop { .. }
            | Self::Static { .. }
            | Self::Generated { .. }
            | Self::Coagent { can_terminate: false, .. } => OwnerOfTheEnd::Primary,
        }
    }

    /// Returns the tool with which the primary ends its turn.
    pub fn end_tool_of_primary(&self) -> EndTool {
        match self.owner_of_the_end() {
            OwnerOfTheEnd::Primary => EndTool::TaskComplete,
            OwnerOfTheEnd::Coagent => EndTool::SubmitForReview,
        }
    }

    /// Returns the tool with which a coagent ends its turn on purpose, if it has one.
    pub fn end_tool_of_coagent(&self) -> Option<EndTool> {
        match self.owner_of_the_end() {
            OwnerOfTheEnd::Primary => None,
            OwnerOfTheEnd::Coagent => Some(EndTool::TaskComplete),
        }
    }

    /// Returns what a coagent may use, if the flow has a place for one.
    pub fn coagent_tools(&self) -> Option<CoagentTools> {
        match self {
            Self::Hitl | Self::Static { .. } | Self::Generated { .. } => None,
            Self::Loop { .. } => Some(CoagentTools::ReadOnly),
            Self::Coagent { tools, .. } => Some(*tools),
        }
    }

    /// Returns the most rounds that the flow itself allows.
    pub fn max_rounds(&self) -> Option<u32> {
        match self {
            Self::Hitl => None,
            Self::Loop { max_rounds }
            | Self::Static { max_rounds, .. }
            | Self::Generated { max_rounds, .. }
            | Self::Coagent { max_rounds, .. } => *max_rounds,
        }
    }

    /// Leaves the number of rounds to the limits of the run.
    #[must_use]
    pub fn without_max_rounds(mut self) -> Self {
        match &mut self {
            Self::Hitl => {}
            Self::Loop { max_rounds }
            | Self::Static { max_rounds, .. }
            | Self::Generated { max_rounds, .. }
            | Self::Coagent { max_rounds, .. } => *max_rounds = None,
        }
        self
    }

    /// Returns its name: that of the preset, where it is one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hitl => "hitl",
            Self::Loop { .. } => "loop",
            Self::Static { .. } => "static",
            Self::Generated { .. } => "generated",
            Self::Coagent { tools, can_terminate, .. } => match (tools, can_terminate) {
                (CoagentTools::None, false) => "advise",
                (CoagentTools::ReadOnly, true) => "judge",
                (CoagentTools::Full, true) => "smart",
                (CoagentTools::None, true)
                | (CoagentTools::ReadOnly | CoagentTools::Full, false) => "coagent",
            },
        }
    }
}

impl EndTool {
    /// Returns the name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::TaskComplete => "task_complete",
            Self::SubmitForReview => "submit_for_review",
        }
    }
}
