//! What events are made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::turn::TurnEnd;

/// Whose words an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputSource {
    /// The user's, at the start of a run.
    Prompt,
    /// The user's, while a run is under way.
    Steering,
    /// The control flow's: a continuation line or a generated message.
    ControlFlow,
    /// The reviewer's.
    Reviewer,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// For information.
    Info,
    /// Something may not be as expected.
    Warning,
}

/// Who reads a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeAudience {
    /// The user alone.
    User,
    /// The model, as a message of its history.
    Model,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The agent says that the task is done.
    Completed {
        /// What it says about it.
        summary: String,
        /// Whether checks bear it out.
        verified: bool,
    },
    /// The turn ended and the next word is the user's.
    NeedsInput,
    /// A limit, the budget or the loop guard ended it.
    Stopped {
        /// Which.
        reason: TurnEnd,
    },
    /// The user ended it.
    Cancelled,
    /// It failed.
    Failed {
        /// Why.
        error: String,
    },
}

/// What a reviewer says of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is good.
    Approved,
    /// It is not good yet.
    Rejected,
}
