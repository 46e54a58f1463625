//! What a user says to a question about a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Grant;

/// The answer to a question about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PermissionAnswer {
    /// Yes, this once.
    AllowOnce,
    /// Yes, and calls of these kinds pass for the rest of the session.
    AllowSession {
        /// What passes from here on. One of the request's offers.
        grants: Vec<Grant>,
    },
    /// No, with a word for the model, if any.
    Deny {
        /// What the model is told.
        feedback: Option<String>,
    },
    /// No answerer is connected: the policy decides, and is named as the decider.
    Nobody {
        /// How the user can permit such calls.
        hint: String,
    },
}

impl PermissionAnswer {
    /// Returns the name of the variant, as in the log of a session, without its texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowSession { .. } => "allow_session",
            Self::Deny { .. } => "deny",
            Self::Nobody { .. } => "nobody",
        }
    }
}
