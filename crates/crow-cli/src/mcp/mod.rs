//! The MCP servers of a session.

mod session;

pub(crate) use session::McpLaunch;
