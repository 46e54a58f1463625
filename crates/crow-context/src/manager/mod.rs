//! Requests for a loop of your own: environment and conversation, within a budget of tokens.
//!
//! [`ContextManager`] holds both. [`ContextManager::build_request`] gives messages for a model that takes messages,
//! [`ContextManager::build_prompt`] one text for a model that takes a text. A conversation that outgrows its part of the
//! budget is pruned by [`PruningStrategy`]s, in one step down to three fifths of it: between two such steps, a request
//! begins with all of the one before, so that a provider's cache keeps it. For the same reason the environment is told
//! once, as a snapshot before the first input, and what changes in it is appended.
//!
//! ```
//! use crow_context::{
//!     environment::Environment,
//!     manager::ContextManager,
//! };
//! use crow_core::{ids::MessageId, message::{Block, Message, UserMessage}};
//! use serde_json::json;
//!
//! let environment = Environment::new(json!({"system": {"working_directory": "/project"}}))?;
//! let mut context = ContextManager::new(environment, 4_000, "You are a helpful agent.\n{{environment}}\n{{history}}")
//!     .with_text_counter(|text| text.len() as u64 / 4);
//! context.add_to_history(Message::User(UserMessage {
//!     id: MessageId::new("m1"),
//!     content: vec![Block::text("the tests fail")],
//! }));
//! let prompt = context.build_prompt("mend them")?;
//! assert!(prompt.starts_with("You are a helpful agent.\nworking directory: /project\n"));
//! assert!(prompt.ends_with("mend them\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context_manager;
mod pruning;
#[cfg(test)]
mod tests;
mod told_environment;

pub use context_manager::{
    ContextError, ContextManager, ContextMetrics, ContextView, PruneReport, Summarizer,
};
pub use pruning::{MaskedOutputs, OldTurns, PruneTarget, PruningStrategy, SupersededOutputs};
