//! What a scripted model does when it is asked.

use crow_core::{
    ids::CallId,
    message::{CallArguments, ReplyBlock, ReplyContent, ToolCall},
    model::{ProviderError, StopReason},
    usage::TokenUsage,
};
use serde_json::Value;

/// What a scripted model does when it is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Play {
    /// It answers with these blocks.
    Reply {
        /// The blocks in order.
        blocks: Vec<ReplyBlock>,
        /// Why it stops; found out from the blocks if absent.
        stop: Option<StopReason>,
        /// What it says it used.
        usage: TokenUsage,
    },
    /// It says something and then never ends.
    Stall(String),
    /// It fails.
    Fail(ProviderError),
    /// It says something and breaks off; the provider asks again, and then it does this.
    Retried(String, Box<Self>),
}

impl Play {
    /// Gives another reason to stop.
    #[must_use]
    pub fn stopping(self, stop: StopReason) -> Self {
        match self {
            Self::Reply { blocks, usage, .. } => Self::Reply { blocks, stop: Some(stop), usage },
            other @ (Self::Stall(_) | Self::Fail(_) | Self::Retried(..)) => other,
        }
    }
}

/// A reply of several blocks.
pub fn reply(blocks: impl IntoIterator<Item = ReplyBlock>) -> Play {
    let usage = TokenUsage { input_tokens: 100, output_tokens: 10, ..TokenUsage::default() };
    Play::Reply { blocks: blocks.into_iter().collect(), stop: None, usage }
}

/// A text block.
pub fn text(text: &str) -> ReplyBlock {
    ReplyBlock::plain(ReplyContent::Text { text: text.to_owned() })
}

/// A thinking block.
pub fn thinking(text: &str) -> ReplyBlock {
    ReplyBlock::plain(ReplyContent::Thinking { text: text.to_owned() })
}

/// A call.
pub fn call(id: &str, name: &str, arguments: Value) -> ReplyBlock {
    call_block(id, name, CallArguments::Json(arguments))
}

/// A call whose arguments are this text, whatever it is.
pub fn malformed_call(id: &str, name: &str, arguments: &str) -> ReplyBlock {
    call_block(id, name, CallArguments::Malformed(arguments.to_owned()))
}

fn call_block(id: &str, name: &str, arguments: CallArguments) -> ReplyBlock {
    ReplyBlock::plain(ReplyContent::Call(ToolCall {
        id: CallId::new(id),
        name: name.to_owned(),
        arguments,
    }))
}
