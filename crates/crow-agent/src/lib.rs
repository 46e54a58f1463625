//! The built-in loops of Crow.
//!
//! [`BaseAgent`] is one model with a system prompt and tools: its [`execute_turn`](BaseAgent::execute_turn) drives the
//! turn machine. [`serve`] runs such an agent on the runtime, one turn for each input. What agents are, files say:
//! [`definition::AgentRegistry`] finds them by name in the [`layers`] of a configuration, and [`PromptRegistry`] writes
//! their prompts. The crate knows no HTTP, no protocol and no terminal.

mod base_agent;
pub mod definition;
pub mod layers;
mod prompt;
mod serve;
mod task_complete;
mod turn_result;

pub use base_agent::{AgentConfig, BaseAgent};
pub use prompt::{PromptContext, PromptRegistry, Surroundings, Template, TemplateError};
pub use serve::{serve, serve_latest};
pub use task_complete::TaskComplete;
pub use turn_result::TurnResult;
