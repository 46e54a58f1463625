//! Tools: what a model can do.
//!
//! A programmer writes a [`TypedTool`] (an input struct whose docs the model reads) or, for tools known only at run
//! time, a [`Tool`]. [`ToolRegistry`] runs a tool only against a [`Permit`](crate::permission::Permit).

mod context;
mod plan;
mod registry;
mod result;
#[cfg(test)]
mod tests;
mod traits;
mod typed;

pub use context::{AgentContext, Progress, ToolContext};
pub use plan::{Access, CallPlan, Effects, PathEffect, Preview, Subject};
pub use registry::ToolRegistry;
pub use result::{FileDiff, Patch, ToolMetadata, ToolResult, ToolStatus};
pub use traits::{Tool, ToolCategory, ToolError};
pub use typed::{Typed, TypedTool};
