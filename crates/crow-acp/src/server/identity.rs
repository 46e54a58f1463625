//! Who the agent is to a client.

use crow_runtime::SessionSetup;

/// Who the agent is to a client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AcpIdentity {
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    pub title: String,
    /// Its version.
    pub version: String,
    /// How a person logs in, where there is a way.
    pub login: Option<TerminalLogin>,
    /// What sessions work with, where the client does not say.
    pub setup: SessionSetup,
}

/// How a person logs in with a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalLogin {
    /// The program, absolute.
    pub program: String,
    /// What is appended to the program.
    pub args: Vec<String>,
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: String,
}
