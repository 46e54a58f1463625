//! Updates for a client.

use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate};

/// An update, and the session that it is sent for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionUpdateOut {
    /// Id of the session in the protocol.
    pub(crate) session_id: SessionId,
    /// Content of the update.
    pub(crate) update: SessionUpdate,
}

impl From<SessionUpdateOut> for SessionNotification {
    fn from(outgoing: SessionUpdateOut) -> Self {
        Self::new(outgoing.session_id, outgoing.update)
    }
}
