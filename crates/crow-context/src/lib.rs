//! Token counting of conversations, and their compaction before the context window of the model is full.
//!
//! Everything here is pure: messages in, decisions out. The loop that uses it makes the model calls and writes the
//! events.

pub mod accounting;
pub mod compaction;
mod counter;
pub mod recall;

pub use counter::{TextCounter, TokenCounter};
