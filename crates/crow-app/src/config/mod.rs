//! The configuration: its layers and the settings of `config.toml`.

mod key;
mod load;
mod mcp;
mod settings;
mod unset;

pub use key::{ConfigKey, KeyTarget, set_value, write};
pub(crate) use load::AgentSettings;
pub use load::{AgentLimits, Configuration, DEFAULT_AGENT, ProjectAdditions, layers, tool_names};
pub use mcp::{
    ConfiguredServers, NewServer, RemovedServer, ServerOrigin, add_server, configured_servers,
    remove_server,
};
pub(crate) use mcp::{
    McpTable, PROJECT_FILE, ServerTable, check_servers, describe_access, servers_of_project,
};
pub(crate) use settings::{HooksTable, TelemetryTable, WebSearchTable};
pub use settings::{
    LocatedText, SETTINGS, Settings, TerminalSettings, agent_schema, settings_schema,
};
pub use unset::{
    BUILT_IN, UnsetEffect, UnsetKey, find as unset_effect, unset_keys_of_base,
    unset_keys_of_composition,
};
