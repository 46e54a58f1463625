//! Messages as the model will see them, independent of any wire format.
//!
//! An assistant message is a list of blocks in the order in which they came; a block may retain the provider's own
//! item verbatim ([`Native`]), because only that preserves thinking signatures, encrypted reasoning and item ids.

mod block;
mod native;
mod tags;
#[cfg(test)]
mod tests;

pub use block::{
    AssistantMessage, Block, CallArguments, Image, Message, ReplyBlock, ReplyContent,
    ResultMessage, ResultsMessage, ToolCall, UserMessage, calls_of, unpaired_call,
};
pub use native::{Native, Origin};
pub use tags::{escape_tags, wrap_in_tag};
