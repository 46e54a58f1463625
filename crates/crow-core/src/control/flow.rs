//! Control flows: how far an agent continues without its user; and the named ones, from which users choose.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Message for a primary whose turn ended although the task is not done.
pub const CONTINUE_MESSAGE: &str =
    "Go on with the task. Call task_complete when all of it is done.";
/// Prompt for the generator of level 2.
pub const CRITERIA_PROMPT: &str = "Write the acceptance criteria of this task: a short list of what must be true when it is done, each point such that one can look at the files or run a command and see whether it holds. Take them from the task alone, add no wishes of your own, and keep to a list that you wrote before. Say of each point whether what was done so far shows that it holds, and end by telling the agent to see to those that are not shown to hold. Answer with the message and nothing else.";
/// Message of level 1, as the original specification has it.
const LEVEL_1: &str = "Continue with the task. Call task_complete when done.";

/// The rule for what happens after a turn of the primary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ControlFlow {
    /// The run returns to the user.
    #[default]
    Hitl,
    /// The primary continues until it declares the task done. If there are coagents, they review each turn and advise.
    Loop {
        /// Maximum number of rounds; only the limits of the run if absent.
        max_rounds: Option<u32>,
    },
    /// The primary gets this message after each turn, until it declares the task done.
    Static {
        /// The message.
        message: String,
        /// Maximum number of rounds.
        max_rounds: Option<u32>,
    },
    /// A model writes the message for the primary after each turn, from the task and from what was done, until the
    /// primary declares the task done.
    Generated {
        /// The prompt for that model.
        generator_prompt: String,
        /// Maximum number of rounds.
        max_rounds: Option<u32>,
    },
    /// A coagent reviews each turn.
    Coagent {
        /// The tools that it may use.
        tools: CoagentTools,
        /// True if the coagent, and only it, may declare the task done.
        can_terminate: bool,
        /// Maximum number of rounds.
        max_rounds: Option<u32>,
    },
}

/// The tools that a coagent may use, out of those that are enabled for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoagentTools {
    /// No tools: it only reads the handoff.
    None,
    /// Tools that change nothing.
    ReadOnly,
    /// The tools of the primary.
    Full,
}

/// The side that may declare the task done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionOwner {
    /// The agent that does the work.
    Primary,
    /// The agents that review it.
    Coagent,
}

/// The tool with which an agent ends its turn explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndTool {
    /// Declares the task done.
    TaskComplete,
    /// Hands the work to the reviewers.
    SubmitForReview,
}

/// Error for a level that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no level {level}; levels go from -1 (hitl) to 5 (smart)")]
pub struct UnknownLevel {
    /// The level as given.
    pub level: i64,
}

impl ControlFlow {
    /// Returns a flow in which a coagent without tools advises and the primary declares the task done.
    pub fn advise() -> Self {
        Self::Coagent { tools: CoagentTools::None, can_terminate: false, max_rounds: None }
    }

    /// Returns a flow in which a coagent that only reads approves the work or sends it back.
    pub fn judge() -> Self {
        Self::Coagent { tools: CoagentTools::ReadOnly, can_terminate: true, max_rounds: None }
    }

    /// Returns a flow in which a coagent approves the work, repairs it, or sends it back.
    pub fn smart() -> Self {
        Self::Coagent { tools: CoagentTools::Full, can_terminate: true, max_rounds: None }
    }

    /// Returns a flow in which two agents talk until the second one declares the task done.
    pub fn chat(max_rounds: Option<u32>) -> Self {
        Self::Coagent { tools: CoagentTools::Full, can_terminate: true, max_rounds }
    }

    /// Returns the control flow of a level: -1 returns to the user, 5 is a pair of agents with the same rights.
    pub fn from_level(level: i64) -> Result<Self, UnknownLevel> {
        Preset::ALL
            .into_iter()
            .find(|preset| preset.level().map(i64::from) == Some(level))
            .map(Preset::flow)
            .ok_or(UnknownLevel { level })
    }

    /// Returns the side that may declare the task done. It follows from the type alone.
    pub fn completion_owner(&self) -> CompletionOwner {
        match self {
            Self::Coagent { can_terminate: true, .. } => CompletionOwner::Coagent,
            Self::Hitl
            | Self::Loop { .. }
            | Self::Static { .. }
            | Self::Generated { .. }
            | Self::Coagent { can_terminate: false, .. } => CompletionOwner::Primary,
        }
    }

    /// Returns the tool with which the primary ends its turn.
    pub fn end_tool_of_primary(&self) -> EndTool {
        match self.completion_owner() {
            CompletionOwner::Primary => EndTool::TaskComplete,
            CompletionOwner::Coagent => EndTool::SubmitForReview,
        }
    }

    /// Returns the tool with which a coagent ends its turn explicitly, if it has one.
    pub fn end_tool_of_coagent(&self) -> Option<EndTool> {
        match self.completion_owner() {
            CompletionOwner::Primary => None,
            CompletionOwner::Coagent => Some(EndTool::TaskComplete),
        }
    }

    /// Returns the tools that a coagent may use, if the flow has coagents.
    pub fn coagent_tools(&self) -> Option<CoagentTools> {
        match self {
            Self::Hitl | Self::Static { .. } | Self::Generated { .. } => None,
            Self::Loop { .. } => Some(CoagentTools::ReadOnly),
            Self::Coagent { tools, .. } => Some(*tools),
        }
    }

    /// Returns the maximum number of rounds that the flow itself sets.
    pub fn max_rounds(&self) -> Option<u32> {
        match self {
            Self::Hitl => None,
            Self::Loop { max_rounds }
            | Self::Static { max_rounds, .. }
            | Self::Generated { max_rounds, .. }
            | Self::Coagent { max_rounds, .. } => *max_rounds,
        }
    }

    /// Removes the flow's own limit on rounds; those of the run apply.
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

    /// Returns its name: that of the preset, if it matches one.
    pub fn name(&self) -> &'static str {
        Preset::for_flow(self, false).map_or("coagent", Preset::as_str)
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

/// Maximum number of rounds of a chat, if none is configured.
const CHAT_ROUNDS: u32 = 10;

/// A control flow with a name, from which users choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The next word is the user's.
    Hitl,
    /// The agent goes on until it says that the task is done.
    Loop,
    /// It is told the same message after each turn.
    Static,
    /// It is told what a model wrote from the task.
    Generated,
    /// A reviewer without tools advises.
    Advise,
    /// A reviewer that only reads approves the work or sends it back.
    Judge,
    /// A reviewer that may change files approves the work, repairs it or sends it back.
    Smart,
    /// Two agents talk.
    Chat,
}

/// Error for an unknown preset name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode \"{given}\"; known are {}", Preset::ALL.map(Preset::as_str).join(", "))]
pub struct UnknownPreset {
    /// The name as given.
    pub given: String,
}

impl Preset {
    /// All presets, in the order in which they are listed to users.
    pub const ALL: [Self; 8] = [
        Self::Hitl,
        Self::Loop,
        Self::Static,
        Self::Generated,
        Self::Advise,
        Self::Judge,
        Self::Smart,
        Self::Chat,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hitl => "hitl",
            Self::Loop => "loop",
            Self::Static => "static",
            Self::Generated => "generated",
            Self::Advise => "advise",
            Self::Judge => "judge",
            Self::Smart => "smart",
            Self::Chat => "chat",
        }
    }

    /// Returns its level, see [`ControlFlow::from_level`]; a chat has none.
    pub fn level(self) -> Option<i8> {
        match self {
            Self::Hitl => Some(-1),
            Self::Loop => Some(0),
            Self::Static => Some(1),
            Self::Generated => Some(2),
            Self::Advise => Some(3),
            Self::Judge => Some(4),
            Self::Smart => Some(5),
            Self::Chat => None,
        }
    }

    /// Returns the control flow of the preset.
    pub fn flow(self) -> ControlFlow {
        match self {
            Self::Hitl => ControlFlow::Hitl,
            Self::Loop => ControlFlow::Loop { max_rounds: None },
            Self::Static => ControlFlow::Static { message: LEVEL_1.to_owned(), max_rounds: None },
            Self::Generated => ControlFlow::Generated {
                generator_prompt: CRITERIA_PROMPT.to_owned(),
                max_rounds: None,
            },
            Self::Advise => ControlFlow::advise(),
            Self::Judge => ControlFlow::judge(),
            Self::Smart => ControlFlow::smart(),
            Self::Chat => ControlFlow::chat(Some(CHAT_ROUNDS)),
        }
    }

    /// Returns the preset of a control flow, whatever its messages and limits; none if it matches no preset.
    /// `is_verbatim` says that a coagent gets the other agent's text unchanged, which makes a chat.
    pub fn for_flow(flow: &ControlFlow, is_verbatim: bool) -> Option<Self> {
        Some(match flow {
            ControlFlow::Hitl => Self::Hitl,
            ControlFlow::Loop { .. } => Self::Loop,
            ControlFlow::Static { .. } => Self::Static,
            ControlFlow::Generated { .. } => Self::Generated,
            ControlFlow::Coagent { tools, can_terminate, .. } => match (tools, can_terminate) {
                (CoagentTools::None, false) => Self::Advise,
                (CoagentTools::ReadOnly, true) => Self::Judge,
                (CoagentTools::Full, true) if is_verbatim => Self::Chat,
                (CoagentTools::Full, true) => Self::Smart,
                (CoagentTools::None, true)
                | (CoagentTools::ReadOnly | CoagentTools::Full, false) => return None,
            },
        })
    }

    /// Returns true if it needs a reviewer.
    pub fn needs_coagent(self) -> bool {
        match self {
            Self::Advise | Self::Judge | Self::Smart | Self::Chat => true,
            Self::Hitl | Self::Loop | Self::Static | Self::Generated => false,
        }
    }

    /// Describes in a line what follows a turn.
    pub fn description(self) -> &'static str {
        match self {
            Self::Hitl => "returns to you after every turn",
            Self::Loop => "goes on until it says that the task is done",
            Self::Static => {
                "gets the same message after each turn until it says that the task is done"
            }
            Self::Generated => {
                "gets a generated message after each turn: criteria, and which are met"
            }
            Self::Advise => "a reviewer without tools advises after each turn",
            Self::Judge => "a read-only reviewer says when it is done",
            Self::Smart => "a reviewer that may edit says when it is done",
            Self::Chat => "two agents talk until the second one says that it is done",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|preset| preset.as_str() == text);
        found.ok_or_else(|| UnknownPreset { given: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_recognized_by_its_flow() {
        for preset in Preset::ALL {
            let is_chat = preset == Preset::Chat;
            assert_eq!(Preset::for_flow(&preset.flow(), is_chat), Some(preset));
            assert_eq!(preset.as_str().parse(), Ok(preset));
            assert_eq!(
                preset.needs_coagent(),
                matches!(preset.flow(), ControlFlow::Coagent { .. })
            );
        }
    }

    #[test]
    fn a_flow_of_its_own_is_no_preset() {
        let flow = ControlFlow::Coagent {
            tools: CoagentTools::Full,
            can_terminate: false,
            max_rounds: None,
        };
        assert_eq!(Preset::for_flow(&flow, false), None);
        assert!("custom".parse::<Preset>().is_err());
    }
}
