//! Identity of the agent towards clients.

use crow_runtime::SessionSetup;

/// Identity of the agent towards clients, and defaults of its sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcpIdentity {
    /// Machine-readable name.
    pub name: String,
    /// Display name.
    pub title: String,
    /// Version of the agent.
    pub version: String,
    /// Interactive login, if the agent has one.
    pub login: Option<TerminalLogin>,
    /// Defaults of new sessions, which clients can override or extend.
    pub setup: SessionSetup,
}

/// Login of a user in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalLogin {
    /// Absolute path of the program.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Display name of the login method.
    pub name: String,
    /// Description of the login method.
    pub description: String,
}
