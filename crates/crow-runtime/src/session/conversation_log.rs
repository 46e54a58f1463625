//! The log of an agent's own session, as its tools read it.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    event::Envelope,
    ids::SessionId,
    tool::{ConversationLog, ConversationLogError},
};
use tokio::task::spawn_blocking;

use super::{SessionError, SessionStore};

/// Reads the log of a session from its store.
#[derive(Debug)]
pub(crate) struct StoredConversation {
    store: Arc<dyn SessionStore>,
    id: SessionId,
}

impl StoredConversation {
    pub(crate) fn new(store: Arc<dyn SessionStore>, id: SessionId) -> Self {
        Self { store, id }
    }
}

#[async_trait]
impl ConversationLog for StoredConversation {
    async fn lines(&self) -> Result<Vec<Envelope>, ConversationLogError> {
        let (store, id) = (Arc::clone(&self.store), self.id.clone());
        let read = move || -> Result<Vec<Envelope>, SessionError> {
            let mut stored = store.read(&id)?;
            let history =
                stored.fold().map_err(|source| SessionError::Inconsistent { id, source })?;
            let is_kept = |line: &Envelope| line.seq.is_none_or(|seq| !history.is_rewound(seq));
            stored.events.retain(is_kept);
            Ok(stored.events)
        };
        let refused = |reason: String| ConversationLogError { reason };
        let lines = spawn_blocking(read).await.map_err(|error| refused(error.to_string()))?;
        lines.map_err(|error| refused(error.to_string()))
    }
}
