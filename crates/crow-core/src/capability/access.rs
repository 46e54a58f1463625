//! What the calls of an agent may do at present.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;

use super::Containment;
use crate::permission::PermissionMode;

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
