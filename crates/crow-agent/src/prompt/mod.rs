//! What the shipped agent is told: its system prompt, and the surroundings that open a session.

mod builder;
mod surroundings;

pub use builder::{BUILDER_PROMPT, BUILDER_TOOLS};
pub use surroundings::Surroundings;
