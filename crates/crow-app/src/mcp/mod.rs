//! The MCP servers of a session.

mod session;

pub use session::McpLaunch;
