//! The MCP servers of a session: their start, and logins at them.

mod browser;
mod launch;
mod logins;
mod redirect;

pub use browser::SystemBrowser;
pub use launch::McpLaunch;
pub use logins::CredentialLogins;
