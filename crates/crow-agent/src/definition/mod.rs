//! Definitions of agents, as their files describe them: base agents, compositions, and the registry that finds them
//! by name.

mod base;
mod composition;
mod error;
mod markdown;
mod prompt_context;
mod raw;
mod registry;
mod schema;
mod seconds;
mod shipped;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod types;

pub use error::DefinitionError;
pub use prompt_context::PromptContext;
pub use registry::{AgentKind, AgentRegistry, ListedAgent, is_name};
pub use schema::schema;
pub use seconds::Seconds;
pub use shipped::SHIPPED;
pub use tools::ToolNames;
pub use types::{
    BaseDefinition, CompositionDefinition, DefinedRole, HandoffDefinition, ModelChoice,
};
