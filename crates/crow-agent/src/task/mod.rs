//! Subagents: the tools with which an agent gives a part of its work to another one.
//!
//! A subagent is a composition, so it may have a coagent of its own. It knows nothing but its prompt. Its answer is
//! data for the agent that started it, and never counts as words of the user.

mod collect;
mod report;
mod tool;

pub use collect::{TaskCancel, TaskOutput};
pub use tool::Task;
