//! What the server answers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{BodyChunk, BodyEnd, Fault, RecordedRequest, StreamGate};
use crate::wire::{ScriptedReply, VendorError};

/// Decides an answer from the request; if it panics, the answer is a 500 and the panic becomes a violation.
pub type Responder = Arc<dyn Fn(&RecordedRequest) -> ScriptStep + Send + Sync>;

/// One answer.
#[derive(Clone)]
pub enum ScriptStep {
    /// A reply in the dialect of the request.
    Reply(ScriptedReply),
    /// A reply with faults laid over it.
    Faulty {
        /// The reply.
        reply: ScriptedReply,
        /// What goes wrong.
        faults: Vec<Fault>,
    },
    /// An error answer as the vendor of the request's dialect sends it.
    Error(VendorError),
    /// Any HTTP answer with a fixed body.
    Http {
        /// The status code.
        status: u16,
        /// Headers besides length; `content-type` is JSON unless given.
        headers: Vec<(String, String)>,
        /// The body.
        body: Bytes,
    },
    /// An event stream of the given bytes.
    Raw(Vec<BodyChunk>),
    /// No byte of an answer: the server waits at the gate, if there is one, and then ends the connection.
    Silence {
        /// Where it waits before.
        gate: Option<StreamGate>,
        /// How it ends; `Clean` closes as well, since there is no body to complete.
        ending: BodyEnd,
    },
    /// Whatever the responder decides.
    Respond(Responder),
}

impl ScriptStep {
    /// A step decided from the request.
    pub fn respond(responder: impl Fn(&RecordedRequest) -> Self + Send + Sync + 'static) -> Self {
        Self::Respond(Arc::new(responder))
    }

    /// Lays one more fault over a reply; other steps have nothing to lay it over and stay as they are.
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
    /// The step that streams this reply with a fault.
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

/// The steps in order, and a responder for what comes after them.
#[derive(Debug, Clone, Default)]
pub struct Script {
    steps: VecDeque<ScriptStep>,
    rest: Option<ScriptStep>,
}

impl Script {
    /// No steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every request is answered by the responder.
    pub fn responder(
        responder: impl Fn(&RecordedRequest) -> ScriptStep + Send + Sync + 'static,
    ) -> Self {
        Self::new().then_respond(responder)
    }

    /// Every request is answered by the same step.
    pub fn repeating(step: impl Into<ScriptStep>) -> Self {
        Self { steps: VecDeque::new(), rest: Some(step.into()) }
    }

    /// Appends a step.
    #[must_use]
    pub fn then(mut self, step: impl Into<ScriptStep>) -> Self {
        self.steps.push_back(step.into());
        self
    }

    /// Answers what comes after the steps by the responder.
    #[must_use]
    pub fn then_respond(
        mut self,
        responder: impl Fn(&RecordedRequest) -> ScriptStep + Send + Sync + 'static,
    ) -> Self {
        self.rest = Some(ScriptStep::respond(responder));
        self
    }

    /// The steps not yet taken, without those of the responder.
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
