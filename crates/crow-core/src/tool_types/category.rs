//! Categories of tools.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Looks at files. Such calls run side by side.
    Read,
    /// Changes files.
    Write,
    /// Runs programs.
    Execute,
    /// Talks to the network.
    Network,
    /// Touches only the session's own state: todo list, thoughts, end of the task.
    Session,
    /// Starts other agents.
    Agent,
    /// Runs on a server outside of the agent: what it reads, sends or changes is not observed.
    External,
}

impl fmt::Display for ToolCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Network => "network",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::External => "external",
        })
    }
}
