//! The input and the output of a decision: the facts of a call and the mode, then the permit, the question or the denial.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Grant, GrantOffer};
use crate::{
    ids::{CallId, SessionId},
    tool_types::{CallPlan, ToolCategory},
};

/// The facts of a call that the policy decides about.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The id of the call.
    pub call_id: &'a CallId,
    /// The session of the call, by the id that users see: for a subagent, that of the root session.
    pub session_id: &'a SessionId,
    /// The name of the agent that makes the call.
    pub agent: &'a str,
    /// Its arguments.
    pub input: &'a Value,
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's category.
    pub category: ToolCategory,
    /// True if the tool requires permission by default.
    pub requires_permission: bool,
    /// The plan: what the call would touch.
    pub plan: &'a CallPlan,
}

/// The policy's decision about a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow(Permit),
    /// The user must be asked.
    Ask(Ask),
    /// It may not run.
    Deny(Denial),
}

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

    /// Makes a question of it: the call may run only if the user says yes.
    #[must_use]
    pub fn asked_about(self, reason: String) -> Ask {
        Ask {
            reason,
            offers: Vec::new(),
            least_mode: None,
            disclosure: Disclosure::Immediate,
            is_by_mode_alone: false,
            permit: self,
        }
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
    /// True if the permission mode alone is the reason, and the call reaches no protected, hidden or outside place.
    pub(super) is_by_mode_alone: bool,
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
    /// Adds a reason to ask.
    #[must_use]
    pub fn because_of(self, reason: &str) -> Self {
        Self { reason: format!("{}; {reason}", self.reason), ..self }
    }

    /// Returns the permit, if the permission mode alone is the reason to ask, about no protected, hidden or outside place.
    pub fn permitted_by_hook(self) -> Result<Permit, Self> {
        if self.is_by_mode_alone { Ok(self.permit) } else { Err(self) }
    }

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
    /// A hook.
    Hook,
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
            (DenialSource::Hook, reason) => format!("A hook refused this call: {reason}"),
            (DenialSource::Policy, reason) => {
                format!(
                    "Not permitted by policy: {reason}. Go on without it, or say in your answer what you could not do."
                )
            }
        }
    }
}

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

/// What happens to a call that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads in the workspace pass, everything else is asked.
    #[default]
    Ask,
    /// Changes of files in the workspace pass too.
    AcceptEdits,
    /// Only reads pass, and nothing is asked about writes and commands: they are refused.
    ReadOnly,
    /// Everything passes that the sandbox lets commands do: file tools have the same places as commands.
    FullAuto,
}

impl PermissionMode {
    /// All modes, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::ReadOnly, Self::FullAuto];

    /// Returns the name in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::ReadOnly => "read-only",
            Self::FullAuto => "full-auto",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("unknown mode; known are {}", known()))
    }
}
