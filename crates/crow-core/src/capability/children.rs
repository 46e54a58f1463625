//! Child agents.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    ids::{CallId, SessionId},
    usage::TokenUsage,
};

/// What a child agent is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTask {
    /// The call that asks for it.
    pub call_id: CallId,
    /// The agent's name.
    pub agent: String,
    /// A few words for the user.
    pub description: String,
    /// The whole task: the child knows nothing else.
    pub prompt: String,
}

/// What a child agent came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOutcome {
    /// The child's session.
    pub session_id: SessionId,
    /// Its last words.
    pub text: String,
    /// Files that it changed.
    pub files_modified: Vec<PathBuf>,
    /// What it used.
    pub usage: TokenUsage,
}

/// Why a child agent came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// There is no such agent.
    #[error("there is no agent named {name}; known are {}", .known.join(", "))]
    UnknownAgent {
        /// The name as given.
        name: String,
        /// The agents that may be started.
        known: Vec<String>,
    },
    /// Too deep, or too many at once.
    #[error("no further agent may be started here: {reason}")]
    Refused {
        /// Which bound was reached.
        reason: String,
    },
    /// It was cancelled.
    #[error("the agent was cancelled")]
    Cancelled,
    /// It failed.
    #[error("the agent failed: {reason}")]
    Failed {
        /// What it reported.
        reason: String,
    },
}

/// Starts child agents and waits for them.
#[async_trait]
pub trait Children: Send + Sync + fmt::Debug {
    /// Runs a child agent to its end.
    async fn run(
        &self,
        task: ChildTask,
        cancellation: CancellationToken,
    ) -> Result<ChildOutcome, ChildError>;
}
