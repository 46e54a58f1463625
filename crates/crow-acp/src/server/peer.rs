//! Interface to a client that is independent of the protocol version.

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

/// A boxed future.
pub(super) type WaitedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A client, as the task of a session uses it.
pub(super) trait Peer: Send + Sync + fmt::Debug {
    /// Waits until one more update of a session may be sent.
    fn wait_for_room<'a>(&'a self, session: &'a SessionId) -> WaitedFuture<'a, ()>;

    /// Sends an update. It is lost if the client is gone or does not read; the log has the event.
    fn update(&self, update: SessionUpdateOut);

    /// Asks the user about a call. Dropping the future withdraws the question.
    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> WaitedFuture<'static, Result<RequestPermissionResponse, Error>>;

    /// Asks the user to fill in a form. Dropping the future withdraws it.
    fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
    ) -> WaitedFuture<'static, Result<CreateElicitationResponse, Error>>;

    /// Sends a request to an MCP server that the client serves. Dropping the future withdraws it.
    fn send_mcp_request(
        &self,
        request: MessageMcpRequest,
    ) -> WaitedFuture<'static, Result<MessageMcpResponse, Error>>;

    /// Reports the state of a session, if the protocol version has messages for it.
    fn report_progress(&self, session: &SessionId, progress: SessionProgress<'_>);
}

/// State of a session, as reported to the client.
#[derive(Debug)]
pub(super) enum SessionProgress<'a> {
    /// The agent has read a prompt and works on it.
    Started { message_id: &'a str, prompt: &'a [ContentBlock] },
    /// The session waits for the user's answer to a question.
    Asking,
    /// The session works: it continues after a question, or was busy when it was attached.
    Running,
    /// The session has finished a prompt.
    Ended(&'a Result<PromptResponse, Error>),
    /// The session is idle.
    Idle,
}

/// Reply to a prompt, by the time at which the protocol version answers it.
#[derive(Debug)]
pub(super) enum PromptReply {
    /// When the run has ended (version 1).
    Ended(RequestReply<PromptResponse>),
    /// When the agent has read the prompt (version 2), with the id of its message.
    Inserted(RequestReply<String>),
}

impl PromptReply {
    /// Answers the prompt with an error.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Ended(reply) => reply.send(Err(error)),
            Self::Inserted(reply) => reply.send(Err(error)),
        }
    }
}

/// Callback that sends the response to a request.
pub(super) struct RequestReply<T>(Box<dyn FnOnce(Result<T, Error>) + Send>);

impl<T> RequestReply<T> {
    pub(super) fn new(answer: impl FnOnce(Result<T, Error>) + Send + 'static) -> Self {
        Self(Box::new(answer))
    }

    pub(super) fn send(self, result: Result<T, Error>) {
        (self.0)(result);
    }
}

impl<T> fmt::Debug for RequestReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}
