//! The built-in loops of Crow.
//!
//! [`BaseAgent`] is one model with a system prompt and tools: its [`execute_turn`](BaseAgent::execute_turn) drives the
//! turn machine. [`serve`] runs such an agent on the runtime, one turn for each input. What agents are, files say:
//! [`definition::AgentRegistry`] finds them by name in the [`layers`] of a configuration, and [`PromptRegistry`] writes
//! their prompts. The crate knows no HTTP, no protocol and no terminal.

mod acp_agent;
mod assembly;
mod base_agent;
mod checks;
pub mod definition;
mod fallback;
mod handoff;
pub mod layers;
mod prompt;
mod serve;
mod submit_for_review;
mod task;
mod task_complete;
mod turn_result;

pub use acp_agent::{
    AcpAgent, AcpAgentParts, AcpSession, Coagent, CompositionError, EndTools, RunInput, RunResult,
};
pub use assembly::{AgentChoice, Assembled, Assembly, AssemblyError};
pub use base_agent::{AgentConfig, BaseAgent};
pub use checks::{Check, Checks};
pub use handoff::{Bundle, HANDOFF_TOKENS, Handoff, HandoffTemplate};
pub use prompt::{PromptContext, PromptRegistry, Surroundings, Template, TemplateError};
pub use serve::{serve, serve_latest};
pub use submit_for_review::SubmitForReview;
pub use task::{Subagent, Subagents, Task, TaskCancel, TaskOutput};
pub use task_complete::TaskComplete;
pub use turn_result::TurnResult;
