//! Replies of models, and the events of their streams.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProviderError;
use crate::{
    message::{Origin, ReplyBlock, ToolCall, calls_of},
    usage::TokenUsage,
};

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// It reached the limit of output tokens. The last call, if any, may be cut.
    MaxTokens,
    /// It came upon a stop sequence.
    StopSequence,
    /// It refused, or a filter stopped it.
    Refusal,
    /// The provider paused a long turn; sending the same history goes on.
    Pause,
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// The blocks in the order in which they came.
    pub blocks: Vec<ReplyBlock>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The tokens that it used.
    pub usage: TokenUsage,
    /// Its origin.
    pub origin: Origin,
    /// The provider's id of the reply.
    pub response_id: Option<String>,
    /// Findings about calls that the model wrote as text.
    pub text_calls: TextCallNotes,
}

/// Notes for the model about tool calls that it wrote as text. Empty for a reply with native calls or plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextCallNotes {
    /// What was unusual about the calls that were read from the text; they are among the blocks of the reply.
    pub repair: Option<String>,
    /// The reason why something in the text that begins like a call was not run, and how to call. It stays text.
    pub unread: Option<String>,
}

impl ModelReply {
    /// Returns the tool calls in the order in which the model asked for them.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.blocks)
    }
}

/// A retry of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The error that caused it.
    pub error: ProviderError,
    /// Number of the next attempt; the first retry is 1.
    pub attempt: u32,
    /// Time until that attempt.
    pub wait: Duration,
}

/// The wait of a request for the rate limits of its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitWait {
    /// The limit that it waits for.
    pub reason: String,
    /// Remaining time, if known.
    pub wait: Option<Duration>,
}

/// One item of a reply's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text.
    TextDelta(String),
    /// More readable reasoning.
    ThinkingDelta(String),
    /// A call begins; its arguments are still to come.
    CallStarted {
        /// The name that the model calls; empty if it is not known yet.
        name: String,
    },
    /// The request waits and was not sent yet.
    Waiting(RateLimitWait),
    /// The items so far are void; the request is sent again.
    Retrying(Retry),
    /// The reply is complete. Always the last item.
    Completed(ModelReply),
}
