//! Permission modes: what happens to a call that no rule matches.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to a call that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads in the workspace pass, everything else is asked.
    #[default]
    Ask,
    /// Changes of files in the workspace pass too.
    AcceptEdits,
    /// Only reads pass, and nothing is asked about writes and commands: they are refused.
    ReadOnly,
    /// Everything passes that the sandbox lets commands do: file tools have the same places as commands.
    FullAuto,
}

impl PermissionMode {
    /// All modes, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::ReadOnly, Self::FullAuto];

    /// Returns the name in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::ReadOnly => "read-only",
            Self::FullAuto => "full-auto",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("unknown mode; known are {}", known()))
    }
}
