//! Attribution of updates to agents, under `_meta.crow`.

use agent_client_protocol::v1::schema::{Meta, ToolCallId};
use crow_core::{
    event::{AgentRole, Envelope},
    ids::SessionId,
};
use serde_json::{Map, Value};

/// The agent behind an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribution {
    pub(super) session: SessionId,
    pub(super) agent: String,
    pub(super) role: AgentRole,
    pub(super) round: u32,
    /// Id for the client of the call in which the agent works.
    pub(super) parent: Option<ToolCallId>,
}

impl Attribution {
    pub(super) fn new(envelope: &Envelope, parent: Option<ToolCallId>) -> Self {
        Self {
            session: envelope.session_id.clone(),
            agent: envelope.agent.clone(),
            role: envelope.role,
            round: envelope.round,
            parent,
        }
    }

    /// Returns the agent of a session that had no event yet.
    pub(super) fn unseen(session: &SessionId) -> Self {
        let (role, round) = (AgentRole::Primary, 0);
        Self { session: session.clone(), agent: String::new(), role, round, parent: None }
    }

    /// Returns the prefix of the titles of its calls where they are shown among those of the primary.
    pub(super) fn prefix(&self) -> String {
        match self.role {
            AgentRole::Primary => String::new(),
            AgentRole::Coagent | AgentRole::Subagent => format!("{} · ", self.agent),
        }
    }

    pub(super) fn meta(&self) -> Meta {
        self.meta_with(Map::new())
    }

    /// Returns the attribution with more keys under `crow`.
    pub(super) fn meta_with(&self, more: Map<String, Value>) -> Meta {
        let role = match self.role {
            AgentRole::Primary => "primary",
            AgentRole::Coagent => "coagent",
            AgentRole::Subagent => "subagent",
        };
        let mut crow = more;
        if !self.agent.is_empty() {
            crow.insert("agent".to_owned(), self.agent.as_str().into());
        }
        crow.insert("role".to_owned(), role.into());
        if self.round > 0 {
            crow.insert("round".to_owned(), self.round.into());
        }
        if let Some(parent) = &self.parent {
            crow.insert("parentToolCallId".to_owned(), parent.0.as_ref().into());
        }
        Meta::from_iter([("crow".to_owned(), Value::Object(crow))])
    }
}

/// Returns an object with one key.
pub(super) fn single_key(key: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value.into())])
}
