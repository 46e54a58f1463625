//! Sources of inputs, failures of runs, verdicts of reviewers and what the end of a run means: the values that control flows and
//! events share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::ProviderErrorKind;

/// The source of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputSource {
    /// The user's, at the start of a run.
    Prompt,
    /// The user's, while a run is under way.
    Steering,
    /// The control flow's: a fixed message.
    ControlFlow,
    /// The generator's, in a control flow that has messages written by a model.
    Generator,
    /// The reviewer's.
    Reviewer,
}

/// The kind of a failure, by who must act on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The user gives the provider credentials, or other ones.
    Credentials,
    /// The user asks for something else: the model refused.
    Refusal,
    /// Nobody, or the user chooses another model: the provider failed, is out of reach, or has no room.
    Provider,
    /// The user changes the request or the settings.
    Request,
    /// Any other failure: the error text says what to do.
    #[default]
    Other,
}

impl From<ProviderErrorKind> for FailureKind {
    fn from(kind: ProviderErrorKind) -> Self {
        match kind {
            ProviderErrorKind::Auth | ProviderErrorKind::Permission => Self::Credentials,
            ProviderErrorKind::Refusal => Self::Refusal,
            ProviderErrorKind::NotFound
            | ProviderErrorKind::InvalidRequest
            | ProviderErrorKind::ContextLength => Self::Request,
            ProviderErrorKind::RateLimited
            | ProviderErrorKind::Quota
            | ProviderErrorKind::Overloaded
            | ProviderErrorKind::Server
            | ProviderErrorKind::Network
            | ProviderErrorKind::Timeout
            | ProviderErrorKind::Truncated
            | ProviderErrorKind::Decode
            | ProviderErrorKind::Disabled => Self::Provider,
        }
    }
}

/// The failure of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error text.
    pub error: String,
    /// The kind, by who must act.
    pub kind: FailureKind,
}

impl Failure {
    /// Makes a failure of the kind [`FailureKind::Other`].
    pub fn other(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: FailureKind::Other }
    }

    /// Prefixes the error text with `action`, the action that failed.
    #[must_use]
    pub fn with_context(self, action: &str) -> Self {
        Self { error: format!("{action}: {}", self.error), ..self }
    }
}

/// The verdict of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is good.
    Approved,
    /// It is not good yet.
    Rejected,
    /// The review failed or was cancelled before its end.
    Unfinished,
}

/// What the end of a run means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The work is claimed to be done, and nothing in the log contradicts it.
    Done,
    /// The run answered, and claimed no work.
    Answered,
    /// The log contradicts the claim, or the last text is a promise, a plan, or a question without whose answer nothing
    /// could be done.
    Stopped,
}

/// How the end of a run was assessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndAssessment {
    /// What the end means.
    pub kind: EndKind,
    /// True if it ended with a question to the user, and nothing was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_question: bool,
    /// Why it counts as stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command that the agent named as evidence, which succeeded after the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What speaks against the end without contradicting it: open todo items, changes that nothing was run after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
