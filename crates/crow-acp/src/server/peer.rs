//! The client, as a session sees it whatever version of the protocol it speaks.

use std::{fmt, future::Future, pin::Pin};

use agent_client_protocol::{
    Error,
    v1::schema::{
        ContentBlock, CreateElicitationRequest, CreateElicitationResponse, MessageMcpRequest,
        MessageMcpResponse, PromptResponse, RequestPermissionRequest, RequestPermissionResponse,
        SessionId,
    },
};

use crate::view::SessionUpdateOut;

/// Something that is waited for.
pub(super) type WaitedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The client, as a session sees it.
pub(super) trait Peer: Send + Sync + fmt::Debug {
    /// Waits until one more update of a session may be sent.
    fn room<'a>(&'a self, session: &'a SessionId) -> WaitedFuture<'a, ()>;

    /// Sends an update. What a client that is gone does not get is lost: the log has it.
    fn update(&self, update: SessionUpdateOut);

    /// Asks the user about a call. Dropping the future withdraws the question.
    fn ask(
        &self,
        request: RequestPermissionRequest,
    ) -> WaitedFuture<'static, Result<RequestPermissionResponse, Error>>;

    /// Has the user fill in a form. Dropping the future withdraws it.
    fn elicit(
        &self,
        request: CreateElicitationRequest,
    ) -> WaitedFuture<'static, Result<CreateElicitationResponse, Error>>;

    /// Asks something of a server of tools that the client serves. Dropping the future withdraws it.
    fn mcp(
        &self,
        request: MessageMcpRequest,
    ) -> WaitedFuture<'static, Result<MessageMcpResponse, Error>>;

    /// Tells how far a session is, where the protocol has words for it.
    fn progress(&self, session: &SessionId, progress: SessionProgress<'_>);
}

/// How far a session is with what it was told.
#[derive(Debug)]
pub(super) enum SessionProgress<'a> {
    /// The agent has read a prompt and works on it.
    Began { message_id: &'a str, prompt: &'a [ContentBlock] },
    /// It waits for the user.
    Waits,
    /// It goes on.
    GoesOn,
    /// It is through with a prompt.
    Ended(&'a Result<PromptResponse, Error>),
    /// It waits for a prompt.
    Ready,
}

/// When a prompt is answered.
#[derive(Debug)]
pub(super) enum PromptReply {
    /// When the agent is through with it.
    Ended(RequestReply<PromptResponse>),
    /// When the agent has read it, with the id of the message that it became.
    Inserted(RequestReply<String>),
}

impl PromptReply {
    /// Answers that nothing comes of it.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Ended(reply) => reply.give(Err(error)),
            Self::Inserted(reply) => reply.give(Err(error)),
        }
    }
}

/// The answer that a request waits for.
pub(super) struct RequestReply<T>(Box<dyn FnOnce(Result<T, Error>) + Send>);

impl<T> RequestReply<T> {
    pub(super) fn new(answer: impl FnOnce(Result<T, Error>) + Send + 'static) -> Self {
        Self(Box::new(answer))
    }

    pub(super) fn give(self, result: Result<T, Error>) {
        (self.0)(result);
    }
}

impl<T> fmt::Debug for RequestReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}
