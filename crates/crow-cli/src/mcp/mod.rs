//! Servers of the Model Context Protocol: their configuration, the tools of a session, and the `mcp` commands.

mod command;
mod configured;
mod expand;
mod file;
mod session;
mod table;

pub(crate) use command::{list, test};
pub(crate) use configured::{ConfiguredServers, ServerOrigin, configured_servers, user_servers};
pub(crate) use file::{PROJECT_FILE, servers_of_project};
pub(crate) use session::McpLaunch;
pub(crate) use table::{McpTable, ServerTable, check_servers, describe_access};
