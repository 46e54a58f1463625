//! JSON schemas of the configuration files.

use crow_agent::definition::{AgentKind, schema};
use schemars::schema_for;
use serde_json::Value;

use super::settings::RawSettings;

pub fn agent_schema(kind: AgentKind) -> Value {
    schema(kind).to_value()
}

pub fn settings_schema() -> Value {
    schema_for!(RawSettings).to_value()
}
