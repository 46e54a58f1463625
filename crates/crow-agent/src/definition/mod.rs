//! What agents are, as their files describe them: base agents, compositions, and where each value stands.

mod error;
mod types;
mod variables;

pub use error::DefinitionError;
pub use types::{
    BaseDefinition, CompositionDefinition, DefinedRole, HandoffDefinition, ModelChoice,
};
pub use variables::{HANDOFF_VARIABLES, SYSTEM_VARIABLES};
