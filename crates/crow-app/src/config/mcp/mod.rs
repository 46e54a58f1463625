//! Configuration of servers of the Model Context Protocol.

mod configured;
mod table;

pub use configured::{ConfiguredServers, ServerOrigin, configured_servers};
pub(crate) use table::{
    McpTable, PROJECT_FILE, ServerTable, check_servers, describe_access, servers_of_project,
};
