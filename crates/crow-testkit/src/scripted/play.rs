//! Steps of a scripted model.

use crow_core::{
    ids::CallId,
    message::{CallArguments, ReplyBlock, ReplyContent, ToolCall},
    model::{ProviderError, StopReason, TextCallNotes},
    usage::TokenUsage,
};
use serde_json::Value;

/// Response of a scripted model to one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Play {
    /// A complete reply.
    Reply {
        /// Blocks in order.
        blocks: Vec<ReplyBlock>,
        /// Stop reason; by default that which fits the blocks.
        stop: Option<StopReason>,
        /// Reported usage.
        usage: TokenUsage,
        /// Notes about calls written as text.
        text_calls: TextCallNotes,
    },
    /// A text, after which the stream neither continues nor ends.
    Stall(String),
    /// An error.
    Fail(ProviderError),
    /// A text and an interruption that the provider retries, followed by this play.
    Retried(String, Box<Self>),
}

impl Play {
    /// Sets the stop reason of a reply; other plays are unchanged.
    #[must_use]
    pub fn stopping(self, stop: StopReason) -> Self {
        match self {
            Self::Reply { blocks, usage, text_calls, .. } => {
                Self::Reply { blocks, stop: Some(stop), usage, text_calls }
            }
            other @ (Self::Stall(_) | Self::Fail(_) | Self::Retried(..)) => other,
        }
    }

    /// Sets the notes of a reply about calls written as text; other plays are unchanged.
    #[must_use]
    pub fn with_text_calls(self, text_calls: TextCallNotes) -> Self {
        match self {
            Self::Reply { blocks, stop, usage, .. } => {
                Self::Reply { blocks, stop, usage, text_calls }
            }
            other @ (Self::Stall(_) | Self::Fail(_) | Self::Retried(..)) => other,
        }
    }
}

/// Returns a reply of these blocks, with 100 input and 10 output tokens.
pub fn reply(blocks: impl IntoIterator<Item = ReplyBlock>) -> Play {
    let usage = TokenUsage { input_tokens: 100, output_tokens: 10, ..TokenUsage::default() };
    Play::Reply {
        blocks: blocks.into_iter().collect(),
        stop: None,
        usage,
        text_calls: TextCallNotes::default(),
    }
}

/// Returns a text block.
pub fn text(text: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Text { text: text.to_owned() })
}

/// Returns a thinking block.
pub fn thinking(text: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Thinking { text: text.to_owned() })
}

/// Returns a tool call.
pub fn call(id: &str, name: &str, arguments: Value) -> ReplyBlock {
    call_block(id, name, CallArguments::Json(arguments))
}

/// Returns a tool call whose arguments are this text, marked as malformed.
pub fn malformed_call(id: &str, name: &str, arguments: &str) -> ReplyBlock {
    call_block(id, name, CallArguments::Malformed(arguments.to_owned()))
}

fn call_block(id: &str, name: &str, arguments: CallArguments) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Call(ToolCall {
        id: CallId::new(id),
        name: name.to_owned(),
        arguments,
    }))
}
