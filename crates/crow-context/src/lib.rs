//! Token counting of conversations, their compaction before the context window of the model is full, and the
//! environment of an agent as typed state.
//!
//! Everything here is pure: messages in, decisions out. The loop that uses it makes the model calls and writes the
//! events.

pub mod accounting;
pub mod compaction;
mod counter;
pub mod environment;
#[cfg(feature = "tiktoken")]
pub mod exact;
pub mod manager;
pub mod recall;

pub use counter::{TextCounter, TokenCounter};
