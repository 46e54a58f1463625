//! Configuration of servers of the Model Context Protocol.

mod configured;
mod edit;
mod table;

pub use configured::{ConfiguredServers, ServerOrigin, configured_servers};
pub use edit::{NewServer, RemovedServer, add_server, remove_server};
pub(crate) use table::{
    McpTable, PROJECT_FILE, ServerTable, check_servers, describe_access, servers_of_project,
};
