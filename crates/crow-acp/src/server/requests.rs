//! What a client asks of a session that is attached, in the order in which it asks.

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, SessionConfigOption},
};
use crow_runtime::OptionKind;

use super::peer::{PromptReply, Reply};

/// What a client asks of a session.
#[derive(Debug)]
pub(super) enum Request {
    /// To say something to the agent.
    Prompt {
        content: Vec<ContentBlock>,
        /// Tells that the client gave up this one prompt.
        withdrawn: Option<RequestCancellation>,
        reply: PromptReply,
    },
    /// To set an option.
    Set { option: OptionName, value: OptionValue, reply: Reply<Vec<SessionConfigOption>> },
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

impl Request {
    /// Answers that it cannot be done.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Prompt { reply, .. } => reply.refuse(error),
            Self::Set { reply, .. } => reply.give(Err(error)),
            Self::Refresh => {}
        }
    }
}
