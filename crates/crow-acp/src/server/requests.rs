//! What a client asks of a session that is attached, in the order in which it asks.

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

/// Counts how often a client cancelled what a session does. Cheap to clone: clones are one count.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelCount(Arc<AtomicU64>);

/// A moment among the cancels of a session.
#[derive(Debug)]
pub(super) struct CancelMark {
    count: CancelCount,
    before: u64,
}

impl CancelCount {
    /// Counts a cancel. What is under way and what waits in the runtime is interrupted after this.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Marks this moment.
    pub(super) fn mark(&self) -> CancelMark {
        CancelMark { count: self.clone(), before: self.0.load(Ordering::SeqCst) }
    }
}

impl CancelMark {
    /// Returns whether the client cancelled since.
    pub(super) fn is_cancelled(&self) -> bool {
        self.count.0.load(Ordering::SeqCst) != self.before
    }
}

/// What a client asks of a session.
#[derive(Debug)]
pub(super) enum AttachedRequest {
    /// To say something to the agent.
    Prompt {
        content: Vec<ContentBlock>,
        /// Tells that the client gave up this one prompt.
        withdrawn: Option<RequestCancellation>,
        /// Which cancels of the session came before it.
        received: CancelMark,
        reply: PromptReply,
    },
    /// To set an option.
    Set { option: OptionName, value: OptionValue, reply: RequestReply<Vec<SessionConfigOption>> },
    /// To say how title and options were changed from elsewhere.
    Refresh,
}

/// What an option is set to.
#[derive(Debug)]
pub(super) enum OptionValue {
    Named(String),
    Switched(bool),
}

/// Which option.
#[derive(Debug)]
pub(super) enum OptionName {
    Named(String),
    OfKind(OptionKind),
}

impl AttachedRequest {
    /// Answers that it cannot be done.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Prompt { reply, .. } => reply.refuse(error),
            Self::Set { reply, .. } => reply.give(Err(error)),
            Self::Refresh => {}
        }
    }
}
