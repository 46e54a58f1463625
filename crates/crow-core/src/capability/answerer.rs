//! Who answers questions: about a call, and of an agent to the user.

use std::fmt;

use async_trait::async_trait;

use super::{QuestionAnswer, QuestionRequest};
use crate::{
    ids::{CallId, RequestId, SessionId},
    permission::{GrantOffer, PermissionAnswer, PermissionMode},
    tool_types::{Preview, Subject},
};

/// A question to the user: may this call run?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The question.
    pub id: RequestId,
    /// The session of the agent that wants to make the call.
    pub session_id: SessionId,
    /// The agent.
    pub agent: String,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What the call would do, in one line.
    pub title: String,
    /// What it is about: a path, a command line.
    pub subject: Subject,
    /// Why it is asked.
    pub reason: String,
    /// What an "always" could mean, the narrowest first.
    pub offers: Vec<GrantOffer>,
    /// The mode in which the call would pass, the one that permits less first. None if it is asked about in every mode.
    pub passes_in: Option<PermissionMode>,
    /// What would change, where it is known.
    pub preview: Option<Preview>,
}

/// Answers questions. Dropping the future withdraws the question.
#[async_trait]
pub trait Answerer: Send + Sync + fmt::Debug {
    /// Asks whether a call may run.
    async fn ask(&self, request: PermissionRequest) -> PermissionAnswer;

    /// Asks what an agent wants to know. Nobody knows, unless an implementation says otherwise.
    async fn ask_user(&self, _request: QuestionRequest) -> QuestionAnswer {
        QuestionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }
}

/// Answers for a runtime without anybody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAnswerer;

#[async_trait]
impl Answerer for NoAnswerer {
    async fn ask(&self, _request: PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::Nobody { hint: "no answerer is configured".to_owned() }
    }
}
