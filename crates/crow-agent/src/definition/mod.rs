//! Definitions of agents, as their files describe them: base agents, compositions, and the registry that finds them
//! by name.

mod base;
mod composition;
mod markdown;
mod raw;
mod registry;
#[cfg(test)]
mod tests;
mod text;
mod types;

pub use base::ToolNames;
pub(crate) use base::is_optional_tool;
pub use markdown::is_markdown_key;
pub(crate) use raw::RawThinking;
pub use raw::{Seconds, schema};
pub use registry::{AgentKind, AgentRegistry, DefinitionError, ListedAgent, SHIPPED, is_name};
pub use types::{
    BaseDefinition, CompositionDefinition, DefinedRole, HandoffDefinition, ModelChoice,
    PromptContext,
};
