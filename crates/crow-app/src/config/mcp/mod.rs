//! Configuration of servers of the Model Context Protocol.

mod configured;
mod expand;
mod file;
mod table;

pub use configured::{ConfiguredServers, ServerOrigin, configured_servers};
pub(crate) use file::{PROJECT_FILE, servers_of_project};
pub(crate) use table::{McpTable, ServerTable, check_servers, describe_access};
