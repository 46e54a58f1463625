//! States of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum AgentState {
    /// It waits for input.
    Idle,
    /// It waits for the model, or decides what comes next.
    Processing,
    /// It waits for an answer about a call.
    WaitingForPermission,
    /// It runs this tool.
    ExecutingTool(String),
    /// It waits for the agent of this session.
    WaitingForSubagent(SessionId),
    /// It ended.
    Done,
    /// It failed.
    Error(String),
}

impl AgentState {
    /// Returns true if `next` may follow this state.
    ///
    /// Nothing follows an end. An idle agent enters [`Processing`](Self::Processing) before it asks, runs or waits.
    pub fn may_become(&self, next: &Self) -> bool {
        match self {
            Self::Done | Self::Error(_) => false,
            Self::Idle => !matches!(
                next,
                Self::WaitingForPermission | Self::ExecutingTool(_) | Self::WaitingForSubagent(_)
            ),
            Self::Processing
            | Self::WaitingForPermission
            | Self::ExecutingTool(_)
            | Self::WaitingForSubagent(_) => true,
        }
    }

    /// Returns true if this is an end state.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Done | Self::Error(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_an_end_and_an_idle_agent_processes_first() {
        let states = || {
            [
                AgentState::Idle,
                AgentState::Processing,
                AgentState::WaitingForPermission,
                AgentState::ExecutingTool("bash".into()),
                AgentState::WaitingForSubagent(SessionId::new("c")),
                AgentState::Done,
                AgentState::Error("e".into()),
            ]
        };
        let legal = [
            [true, true, false, false, false, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [true, true, true, true, true, true, true],
            [false; 7],
            [false; 7],
        ];
        for (from, row) in states().iter().zip(legal) {
            for (to, expected) in states().iter().zip(row) {
                assert_eq!(from.may_become(to), expected, "{from:?} -> {to:?}");
            }
        }
    }
}
