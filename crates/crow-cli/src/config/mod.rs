//! The configuration: its layers and the settings of `config.toml`.

mod document;
mod key;
mod load;
mod mcp;
mod project;
mod schema;
mod settings;
mod unset;

pub(crate) use document::{set_value, write};
pub(crate) use key::{ConfigKey, KeyTarget};
pub(crate) use load::{
    AgentLimits, AgentSettings, Configuration, DEFAULT_AGENT, ProjectAdditions, layers, tool_names,
};
pub(crate) use mcp::{
    ConfiguredServers, McpTable, PROJECT_FILE, ServerOrigin, ServerTable, check_servers,
    configured_servers, describe_access, servers_of_project,
};
pub(crate) use project::{capabilities, check_project, servers};
pub(crate) use schema::{agent_schema, settings_schema};
pub(crate) use settings::{SETTINGS, Settings};
pub(crate) use unset::{
    BUILT_IN, UnsetEffect, UnsetKey, find as unset_effect, unset_keys_of_base,
    unset_keys_of_composition,
};
