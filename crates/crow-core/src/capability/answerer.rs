//! Answerers of questions: about a call, and from an agent to the user.

use std::fmt;

use async_trait::async_trait;

use super::{QuestionAnswer, QuestionRequest};
use crate::{
    ids::{CallId, RequestId, SessionId},
    permission::{GrantOffer, PermissionAnswer, PermissionMode},
    tool_types::{Preview, Subject},
};

/// A question to the user whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The id of the question.
    pub id: RequestId,
    /// The session of the agent that makes the call.
    pub session_id: SessionId,
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The effect of the call, in one line.
    pub title: String,
    /// The subject: a path, a command line.
    pub subject: Subject,
    /// The reason to ask.
    pub reason: String,
    /// The offers for an "always", the narrowest first.
    pub offers: Vec<GrantOffer>,
    /// The least permissive mode in which the call would pass. None if it is asked about in every mode.
    pub least_mode: Option<PermissionMode>,
    /// The change that the call would make, if known.
    pub preview: Option<Preview>,
}

/// Answers questions. Dropping the future withdraws the question.
#[async_trait]
pub trait Answerer: Send + Sync + fmt::Debug {
    /// Asks whether a call may run.
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer;

    /// Asks an agent's question. By default there is nobody to answer.
    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }
}

/// The answerer of a runtime without a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAnswerer;

#[async_trait]
impl Answerer for NoAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }
}
