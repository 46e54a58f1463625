//! Named control flows.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CoagentTools, ControlFlow};

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
        self.level().map_or_else(|| ControlFlow::chat(Some(CHAT_ROUNDS)), flow_of_level)
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

fn flow_of_level(level: i8) -> ControlFlow {
    ControlFlow::from_level(i64::from(level)).expect("invariant: the level of a preset exists")
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
