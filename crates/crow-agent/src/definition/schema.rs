//! The JSON Schema of the files of agents.

use schemars::{Schema, schema_for};

use super::{
    AgentKind,
    raw::{RawBase, RawComposition},
};

/// Returns the schema of the files of a kind of agent.
pub fn schema(kind: AgentKind) -> Schema {
    match kind {
        AgentKind::Base => schema_for!(RawBase),
        AgentKind::Composition => schema_for!(RawComposition),
    }
}
