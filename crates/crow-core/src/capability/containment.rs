//! What holds a process back, as results tell it.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the system holds a process back with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "level")]
pub enum Containment {
    /// Nothing: the process may do what its user may do.
    #[default]
    None,
    /// Only some of the layers.
    Partial {
        /// What is not held back, each as a phrase: `unix sockets of other programs can be reached`.
        gaps: Vec<String>,
    },
    /// All layers that the platform has.
    Full,
}

impl Containment {
    /// The key in a result's `extra` under which it is kept.
    pub const EXTRA_KEY: &str = "sandbox";

    /// Returns whether anything is held back.
    pub fn holds(&self) -> bool {
        !matches!(self, Self::None)
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Partial { .. } => f.write_str("partial"),
            Self::Full => f.write_str("full"),
        }
    }
}

/// A protected file or folder that a process made, changed or removed, although nobody had allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutAside {
    /// Where it appeared.
    pub path: PathBuf,
    /// Where it was moved to; absent if it could not be moved, so that it is still there.
    pub kept: Option<PathBuf>,
    /// What was there before.
    pub original: Original,
    /// The commands that ran when it was found, by the lines that they run: one of them did it, or the user meanwhile.
    pub during: Vec<String>,
}

/// What was where a process made or changed something that is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// Nothing.
    Absent,
    /// Something that is there again.
    PutBack,
    /// Something whose change stays, but for the programs that it named.
    Disarmed,
    /// Something that could not be put back.
    Lost,
}

/// A host that a process wanted to reach and could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedHost {
    /// Its name, or its address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why it is out of reach.
    pub reason: HostRefusal,
}

/// Why a host is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRefusal {
    /// The user has not allowed it.
    NotAllowed,
    /// Its name is allowed, but leads to an address of this machine or of a network around it.
    NotPublic,
}

impl RefusedHost {
    /// Returns what the user would have to allow: the host, and the port unless it is a usual one.
    pub fn pattern(&self) -> String {
        match self.port {
            80 | 443 => self.host.clone(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for RefusedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
