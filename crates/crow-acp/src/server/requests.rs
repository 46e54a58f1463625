//! Requests of a client to an attached session, queued in the order in which they arrive.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, SessionConfigOption},
};
use crow_runtime::OptionKind;

use super::peer::{PromptReply, RequestReply};

/// Number of times that a client cancelled a session. Cheap to clone: clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelCount(Arc<AtomicU64>);

/// Value of a [`CancelCount`] at the time of a request.
#[derive(Debug)]
pub(super) struct CancelMark {
    count: CancelCount,
    before: u64,
}

impl CancelCount {
    /// Counts a cancel. The caller interrupts current and queued work in the runtime after this.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a mark with the current count.
    pub(super) fn mark(&self) -> CancelMark {
        CancelMark { count: self.clone(), before: self.0.load(Ordering::SeqCst) }
    }
}

impl CancelMark {
    /// Returns true if the client cancelled since the mark was made.
    pub(super) fn is_cancelled(&self) -> bool {
        self.count.0.load(Ordering::SeqCst) != self.before
    }
}

/// A request to the task of an attached session.
#[derive(Debug)]
pub(super) enum AttachedRequest {
    /// Sends a prompt to the agent.
    Prompt {
        content: Vec<ContentBlock>,
        /// Resolves when the client cancels this one prompt.
        cancellation: Option<RequestCancellation>,
        /// Cancels of the session that came before the prompt; later ones cover it.
        cancel_mark: CancelMark,
        reply: PromptReply,
    },
    /// Sets an option.
    Set { option: OptionName, value: OptionValue, reply: RequestReply<Vec<SessionConfigOption>> },
    /// Sends the title and options if they were changed from elsewhere.
    Refresh,
}

/// New value of an option.
#[derive(Debug)]
pub(super) enum OptionValue {
    Named(String),
    Switched(bool),
}

/// Reference to an option, by its name or by its kind.
#[derive(Debug)]
pub(super) enum OptionName {
    Named(String),
    OfKind(OptionKind),
}

impl AttachedRequest {
    /// Answers the request with an error.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Prompt { reply, .. } => reply.refuse(error),
            Self::Set { reply, .. } => reply.send(Err(error)),
            Self::Refresh => {}
        }
    }
}
