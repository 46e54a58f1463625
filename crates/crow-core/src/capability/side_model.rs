//! Requests to the model beside the conversation of a session, on behalf of a call.

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    message::Block,
    model::{ModelRef, StopReason},
};

/// A request to the model that does not become part of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct SideRequest {
    /// The system prompt.
    pub system: String,
    /// The content of the one message.
    pub content: Vec<Block>,
    /// The most tokens of the reply.
    pub max_tokens: u64,
    /// Sampling temperature; that of the agent if absent.
    pub temperature: Option<f32>,
}

/// The model's reply to a [`SideRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideReply {
    /// The text. Known secrets are redacted.
    pub text: String,
    /// The model.
    pub model: ModelRef,
    /// The reason why the model stopped.
    pub stop: StopReason,
}

/// Error of a [`SideRequest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SideRequestError {
    /// No model was called in the session yet.
    #[error("the session has no model yet")]
    NoModel,
    /// The budget of the run is used up.
    #[error("the budget of the run is used up")]
    BudgetExceeded,
    /// The model cannot be called, or failed.
    #[error("the model failed: {0}")]
    Failed(String),
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
}

/// Asks the model of an agent beside its conversation. The usage counts towards the budget of the run and is recorded.
#[async_trait]
pub trait SideModel: Send + Sync + fmt::Debug {
    /// Sends a request to the model that the agent used last.
    async fn ask(
        &self,
        request: SideRequest,
        cancellation: &CancellationToken,
    ) -> Result<SideReply, SideRequestError>;
}
