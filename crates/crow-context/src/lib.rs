//! What a model is sent: how many tokens a conversation has, and how it is compacted before the window is full.
//!
//! Everything here is pure: messages in, decisions out. The loop that uses it makes the model calls and writes the
//! events.

pub mod compaction;
mod counter;

pub use counter::TokenCounter;
