//! What control flows decide by and events tell: whose an input is, why a run failed, what a reviewer says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::ProviderErrorKind;

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

/// Who must act after a run failed.
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
    /// Whoever reads the error: it is none of the others.
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

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened.
    pub error: String,
    /// Who must act.
    pub kind: FailureKind,
}

impl Failure {
    /// Makes a failure of which nobody in particular is to do something.
    pub fn other(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: FailureKind::Other }
    }

    /// Says what was tried when it happened.
    #[must_use]
    pub fn after(self, what: &str) -> Self {
        Self { error: format!("{what}: {}", self.error), ..self }
    }
}

/// What a reviewer says of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is good.
    Approved,
    /// It is not good yet.
    Rejected,
    /// It was not looked at to the end: the review failed or was cancelled.
    Unfinished,
}
