//! The script of a server's responses.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{BodyChunk, BodyEnd, Fault, RecordedRequest, StreamGate};
use crate::wire::{ScriptedReply, VendorError};

/// Chooses a step for a request. If it panics, the response is a 500 and the panic becomes a violation.
pub type Responder = Arc<dyn Fn(&RecordedRequest) -> ScriptStep + Send + Sync>;

/// One response.
#[derive(Clone)]
pub enum ScriptStep {
    /// A reply in the dialect of the request.
    Reply(ScriptedReply),
    /// A reply with faults.
    Faulty {
        /// Reply before the faults are applied.
        reply: ScriptedReply,
        /// Faults in the stream of the reply.
        faults: Vec<Fault>,
    },
    /// An error response of the vendor of the request's dialect.
    Error(VendorError),
    /// Any HTTP response with a fixed body.
    Http {
        /// HTTP status code.
        status: u16,
        /// Headers except `content-length`; `content-type` is JSON by default.
        headers: Vec<(String, String)>,
        /// Body of the response.
        body: Bytes,
    },
    /// An event stream of these chunks.
    Raw(Vec<BodyChunk>),
    /// No response: the server waits at the gate, if any, and then ends the connection.
    Silence {
        /// Gate before the end.
        gate: Option<StreamGate>,
        /// End of the connection; `Clean` closes as well, since there is no body to complete.
        ending: BodyEnd,
    },
    /// The step that the responder chooses.
    Respond(Responder),
}

impl ScriptStep {
    /// Creates a step that is chosen from the request.
    pub fn respond(responder: impl Fn(&RecordedRequest) -> Self + Send + Sync + 'static) -> Self {
        Self::Respond(Arc::new(responder))
    }

    /// Adds a fault to a reply; other steps are unchanged.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        match self {
            Self::Reply(reply) => Self::Faulty { reply, faults: vec![fault] },
            Self::Faulty { reply, mut faults } => {
                faults.push(fault);
                Self::Faulty { reply, faults }
            }
            Self::Error(_)
            | Self::Http { .. }
            | Self::Raw(_)
            | Self::Silence { .. }
            | Self::Respond(_) => self,
        }
    }
}

impl From<ScriptedReply> for ScriptStep {
    fn from(reply: ScriptedReply) -> Self {
        Self::Reply(reply)
    }
}

impl ScriptedReply {
    /// Returns a step that streams this reply with a fault.
    pub fn with(self, fault: Fault) -> ScriptStep {
        ScriptStep::Reply(self).with(fault)
    }
}

impl fmt::Debug for ScriptStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(reply) => formatter.debug_tuple("Reply").field(reply).finish(),
            Self::Faulty { reply, faults } => {
                formatter.debug_tuple("Faulty").field(reply).field(faults).finish()
            }
            Self::Error(error) => formatter.debug_tuple("Error").field(error).finish(),
            Self::Http { status, .. } => formatter.debug_tuple("Http").field(status).finish(),
            Self::Raw(chunks) => formatter.debug_tuple("Raw").field(chunks).finish(),
            Self::Silence { ending, .. } => formatter.debug_tuple("Silence").field(ending).finish(),
            Self::Respond(_) => formatter.write_str("Respond"),
        }
    }
}

/// Steps in order, and a step for all requests after them.
#[derive(Debug, Clone, Default)]
pub struct Script {
    steps: VecDeque<ScriptStep>,
    rest: Option<ScriptStep>,
}

impl Script {
    /// Creates a script without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a script in which the responder answers each request.
    pub fn responder(
        responder: impl Fn(&RecordedRequest) -> ScriptStep + Send + Sync + 'static,
    ) -> Self {
        Self::new().then_respond(responder)
    }

    /// Creates a script in which the same step answers each request.
    pub fn repeating(step: impl Into<ScriptStep>) -> Self {
        Self { steps: VecDeque::new(), rest: Some(step.into()) }
    }

    /// Appends a step.
    #[must_use]
    pub fn then(mut self, step: impl Into<ScriptStep>) -> Self {
        self.steps.push_back(step.into());
        self
    }

    /// Lets the responder answer the requests after the steps.
    #[must_use]
    pub fn then_respond(
        mut self,
        responder: impl Fn(&RecordedRequest) -> ScriptStep + Send + Sync + 'static,
    ) -> Self {
        self.rest = Some(ScriptStep::respond(responder));
        self
    }

    /// Returns the number of steps that were not taken, without those of a responder.
    pub fn remaining(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn next_step(&mut self) -> Option<ScriptStep> {
        self.steps.pop_front().or_else(|| self.rest.clone())
    }
}

impl<S: Into<ScriptStep>> From<Vec<S>> for Script {
    fn from(steps: Vec<S>) -> Self {
        Self { steps: steps.into_iter().map(Into::into).collect(), rest: None }
    }
}

impl<S: Into<ScriptStep>, const N: usize> From<[S; N]> for Script {
    fn from(steps: [S; N]) -> Self {
        Self { steps: steps.into_iter().map(Into::into).collect(), rest: None }
    }
}
