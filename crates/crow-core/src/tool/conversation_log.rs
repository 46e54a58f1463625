//! The log of the session's own conversation.

use std::fmt;

use async_trait::async_trait;

use crate::event::Envelope;

/// Error of reading a session's own log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log of this session cannot be read: {reason}")]
pub struct ConversationLogError {
    /// Why.
    pub reason: String,
}

/// Reads the log of a session, which also has what a compaction left out of the conversation.
#[async_trait]
pub trait ConversationLog: Send + Sync + fmt::Debug {
    /// Returns the lines of the log so far, oldest first, without those that a rewind removed.
    async fn lines(&self) -> Result<Vec<Envelope>, ConversationLogError>;
}
