//! Events with their origin and time.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AgentEvent;
use crate::ids::{CallId, SessionId};

/// The version of log lines and of the JSON output. It changes when an old reader would misread a new line.
pub const FORMAT_VERSION: u32 = 1;

/// The role of an agent in its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// It does the work.
    #[default]
    Primary,
    /// It reviews or repairs the work of its partner.
    Coagent,
    /// Another agent's call started it.
    Subagent,
}

/// The call that started a child session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentCall {
    /// The session of the parent.
    pub session_id: SessionId,
    /// The call, if a call started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
}

/// An event with its origin. As JSON it is one flat object; a log is one such object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// The number of a durable event, counted per root session from 1. Other events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it happened.
    pub time: Timestamp,
    /// The session.
    pub session_id: SessionId,
    /// The root session, whose id the user knows.
    pub root_id: SessionId,
    /// The agent's name.
    pub agent: String,
    /// The role of the agent.
    pub role: AgentRole,
    /// The call that started the session, for a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentCall>,
    /// The round of the run, counted from 1.
    pub round: u32,
    /// What happened.
    #[serde(flatten)]
    pub event: AgentEvent,
}

impl Envelope {
    /// Returns true if the event is of the root session, whose agent the user talks to.
    pub fn is_root(&self) -> bool {
        self.session_id == self.root_id
    }
}
