//! The proof that a call may run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GrantOffer, PermissionAnswer, PermissionMode};
use crate::ids::CallId;

/// The proof that one call with one input may run. It cannot be copied and cannot be made outside this module.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    call_id: CallId,
    input: u64,
}

impl Permit {
    pub(super) fn new(call_id: &CallId, input: &Value) -> Self {
        Self { call_id: call_id.clone(), input: hash(input) }
    }

    /// Returns true if this permit was made for that call with that input.
    pub fn covers(&self, call_id: &CallId, input: &Value) -> bool {
        self.call_id == *call_id && self.input == hash(input)
    }
}

fn hash(input: &Value) -> u64 {
    let json = serde_json::to_vec(input).expect("invariant: a JSON value can be written");
    crate::hash::fnv1a(&json)
}

/// A question to the user that must be answered before a call gets its permit.
#[derive(Debug, PartialEq, Eq)]
pub struct Ask {
    /// The reason to ask.
    pub reason: String,
    /// The offers for an "always", the narrowest first.
    pub offers: Vec<GrantOffer>,
    /// The least permissive mode in which the call would pass. None if it is asked about in every mode.
    pub least_mode: Option<PermissionMode>,
    /// The time at which the model may learn why the call would fail.
    pub disclosure: Disclosure,
    pub(super) permit: Permit,
}

/// The time at which the model may learn what a tool found while it prepared the question for its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disclosure {
    /// At once: the model may read the files anyway.
    Immediate,
    /// After a yes: without one, it must not even learn whether the files exist.
    AfterApproval,
}

impl Ask {
    /// Converts the answer into a permit or a denial.
    pub fn answered(self, answer: PermissionAnswer) -> Result<Permit, Denial> {
        match answer {
            PermissionAnswer::AllowOnce | PermissionAnswer::AllowSession { .. } => Ok(self.permit),
            PermissionAnswer::Deny { feedback } => {
                Err(Denial { source: DenialSource::User, reason: feedback.unwrap_or_default() })
            }
            PermissionAnswer::Nobody { hint } => {
                Err(Denial { source: DenialSource::Policy, reason: hint })
            }
        }
    }
}

/// Who refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenialSource {
    /// A person.
    User,
    /// A rule, a mode, or nobody being there to ask.
    Policy,
}

/// A call that may not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// Who refused it.
    pub source: DenialSource,
    /// Why, or what the user wants the model to know.
    pub reason: String,
}

impl Denial {
    /// Formats the denial for the model.
    pub fn to_model_text(&self) -> String {
        match (self.source, self.reason.as_str()) {
            (DenialSource::User, "") => {
                "The user said no to this call. Do not try it again in another way.".to_owned()
            }
            (DenialSource::User, reason) => {
                format!("The user said no to this call and says: {reason}")
            }
            (DenialSource::Policy, reason) => {
                format!(
                    "Not permitted by policy: {reason}. Go on without it, or say in your answer what you could not do."
                )
            }
        }
    }
}
