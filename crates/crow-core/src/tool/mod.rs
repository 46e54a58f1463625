//! Tools: what a model can call.
//!
//! A programmer writes a [`TypedTool`] (an input struct whose docs the model reads) or, for tools known only at run
//! time, a [`Tool`]. [`ToolRegistry`] runs a tool only against a [`Permit`](crate::permission::Permit).
//!
//! ```
//! use async_trait::async_trait;
//! use crow_core::tool::{CallPlan, ToolCategory, ToolContext, ToolRegistry, ToolResult, TypedTool, TypedToolAdapter};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! struct Weather;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Place {
//!     /// The city, such as "Oslo".
//!     city: String,
//! }
//!
//! #[async_trait]
//! impl TypedTool for Weather {
//!     type Input = Place;
//!     const NAME: &'static str = "weather";
//!     const CATEGORY: ToolCategory = ToolCategory::Network;
//!
//!     fn description(&self) -> &str {
//!         "Tells the weather of a city."
//!     }
//!
//!     async fn execute(&self, input: Place, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
//!         ToolResult::success(format!("Rain in {}.", input.city))
//!     }
//! }
//!
//! let mut tools = ToolRegistry::new();
//! tools.register(TypedToolAdapter::new(Weather));
//! assert_eq!(tools.definitions()[0].parameters["required"][0], "city");
//! ```

mod context;
mod registry;
#[cfg(test)]
mod tests;
mod traits;

pub use context::{
    AgentContext, ConversationLog, ConversationLogError, Current, CurrentModel,
    CurrentSandboxPaths, CurrentText, HeaderValues, ToolContext,
};
pub use registry::{
    SOURCED_NAME, SourceNotice, SourcedTools, ToolRegistry, ToolSource, is_sourced_pattern,
    matches_sourced,
};
pub use traits::{DelegatedTool, Tool, ToolError, TypedTool, TypedToolAdapter};

pub use crate::tool_types::*;
