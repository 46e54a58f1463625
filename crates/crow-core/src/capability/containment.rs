//! The sandboxing of processes, as results report it, and what the calls of an agent may do at present.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::permission::PermissionMode;

/// How the system confines a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "level")]
pub enum Containment {
    /// Nothing: the process may do what its user may do.
    #[default]
    None,
    /// Only some of the layers.
    Partial {
        /// The gaps in the confinement, each as a phrase: `unix sockets of other programs can be reached`.
        gaps: Vec<String>,
    },
    /// All layers that the platform has.
    Full,
}

impl Containment {
    /// Key of this value in a result's `extra`.
    pub const EXTRA_KEY: &str = "sandbox";

    /// Returns true if there is any sandbox layer.
    pub fn has_any_layer(&self) -> bool {
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

/// A protected file or directory that a process created, changed or removed without permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedFile {
    /// Its original path.
    pub path: PathBuf,
    /// The path that it was moved to; none if it could not be moved and is still there.
    pub moved_to: Option<PathBuf>,
    /// The state of the original.
    pub original: OriginalState,
    /// The lines of the commands that ran when it was detected: one of them did it, or the user meanwhile.
    pub running_commands: Vec<String>,
}

/// The state of the original at a path where a process created or changed something protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginalState {
    /// There was none.
    Absent,
    /// It was restored.
    Restored,
    /// The change stays, but the programs that it named were removed.
    Disarmed,
    /// It could not be restored.
    Lost,
}

/// A host that a process tried to reach and was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedHost {
    /// Its name or address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The reason.
    pub reason: HostRefusal,
}

/// The reason why a host was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRefusal {
    /// The user has not allowed it.
    NotAllowed,
    /// Its name is allowed, but resolves to an address of this machine or of a local network.
    NotPublic,
}

impl RefusedHost {
    /// Returns the pattern that the user would have to allow: the host, with the port unless it is 80 or 443.
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

/// What the calls of an agent may do at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessReport {
    /// What happens to a call that no rule matches: for a read-only agent, always [`PermissionMode::ReadOnly`].
    pub mode: PermissionMode,
    /// The sandbox of commands, if one is configured.
    pub sandbox: Option<SandboxReport>,
}

/// What the sandbox lets commands do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxReport {
    /// The network that they reach.
    pub network: NetworkReach,
    /// Directories and files that they may change, apart from the workspace and their temporary directory.
    pub writable: Vec<PathBuf>,
    /// How far they are confined; `None` before the sandbox was set up.
    pub containment: Option<Containment>,
}

/// The network that commands reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkReach {
    /// Only the loopback device.
    Loopback,
    /// The loopback device, and these hosts by a proxy: patterns, separated by commas.
    Hosts(String),
    /// Everything.
    Unrestricted,
}

/// Tells what the calls of an agent may do. It can change at any time.
#[async_trait]
pub trait SessionAccess: Send + Sync + fmt::Debug {
    /// Returns what the calls may do now. Waits for nothing.
    fn report(&self) -> AccessReport;

    /// Sets up the sandbox, if that has not been done, and returns how far commands are confined. Takes some
    /// milliseconds the first time.
    async fn containment(&self) -> Containment;
}
