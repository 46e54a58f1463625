//! What is decided about, and what can come of it.

use serde_json::Value;

use super::{Ask, Denial, Permit};
use crate::{
    ids::{CallId, SessionId},
    tool_types::{CallPlan, ToolCategory},
};

/// What the policy knows of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The call.
    pub call_id: &'a CallId,
    /// The session that it belongs to, by the id that users know: for an agent that another one started, that of the
    /// first one of them.
    pub session_id: &'a SessionId,
    /// That agent's name.
    pub agent: &'a str,
    /// Its arguments.
    pub input: &'a Value,
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's category.
    pub category: ToolCategory,
    /// Whether the tool wants permission by default.
    pub requires_permission: bool,
    /// What the call would do.
    pub plan: &'a CallPlan,
}

/// What the policy says to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow(Permit),
    /// The user is to be asked.
    Ask(Ask),
    /// It may not run.
    Deny(Denial),
}
