//! The input and the output of a decision.

use serde_json::Value;

use super::{Ask, Denial, Permit};
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
