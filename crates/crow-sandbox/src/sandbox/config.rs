//! What commands may do in their sandbox.

use std::path::PathBuf;

use crow_core::permission::SandboxPlaces;

use super::{hosts::AllowedHosts, system};

/// What the sandboxes of a runtime are made of.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Where the private temporary folders of sessions are made.
    pub folder: PathBuf,
    /// What can be reached.
    pub network: Network,
    /// Folders and files beside the workspace that may be changed. Those that do not exist are left out.
    pub writable: Vec<PathBuf>,
    /// Files and folders that cannot be read: keys, and what belongs to the agent itself.
    pub hidden: Vec<PathBuf>,
    /// Those hidden folders that are the program's own. Where one lies in the workspace and does not exist, it is made: else a
    /// command could make it, and what it writes there would be the user's settings the next time.
    pub own: Vec<PathBuf>,
    /// Protected paths, relative to a root of the workspace, that may be changed all the same: `.github`, `.git/config`.
    pub unprotected: Vec<PathBuf>,
    /// Absolute paths of further files and links of the workspace that start programs outside of the sandbox, as scripts of a
    /// trusted project's tool servers: commands cannot change, replace or remove them. Those that `unprotected` names may be
    /// changed all the same.
    pub protected_files: Vec<PathBuf>,
    /// Where the user's own settings of git are: they name hooks and programs of the workspace, too.
    pub git: UserGit,
    /// Bounds of what a command starts.
    pub limits: ProcessLimits,
}

/// Where the user's own settings of git are. They hold for every repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserGit {
    /// What `~` stands for in settings.
    pub home: Option<PathBuf>,
    /// The files, those of the system included.
    pub settings: Vec<PathBuf>,
}

/// What commands can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Their own loopback device, which the commands of a session share.
    #[default]
    Loopback,
    /// The same, and these hosts through a proxy, of which programs learn by the usual variables. It connects directly:
    /// a proxy that is set for the agent itself is not asked. Where there are no namespaces, no host is reached.
    Hosts(AllowedHosts),
    /// Everything.
    All,
}

/// Bounds of what a command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// How many processes and threads there may be at once.
    pub processes: u64,
    /// How many bytes of memory one process may write to.
    pub memory: u64,
}

/// Which files a command may change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxProfile {
    /// Those of the workspace, and those of its temporary folder.
    #[default]
    Workspace,
    /// Those of its temporary folder.
    ReadOnly,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: 4096, memory: 16 << 30 }
    }
}

impl SandboxConfig {
    /// Makes a sandbox with loopback alone, which hides nothing of the user's.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            network: Network::default(),
            writable: Vec::new(),
            hidden: Vec::new(),
            own: Vec::new(),
            unprotected: Vec::new(),
            protected_files: Vec::new(),
            git: UserGit::default(),
            limits: ProcessLimits::default(),
        }
    }

    /// Returns the places that commands have beside the workspace, for the policy: file tools, which run outside of the
    /// sandbox, keep to them.
    pub fn places(&self) -> SandboxPlaces {
        SandboxPlaces {
            writable: self.writable.clone(),
            readable: Vec::new(),
            visible: system::kept(),
            hidden: system::covered().into_iter().chain(self.hidden.iter().cloned()).collect(),
            protected: self.protected_files.clone(),
            unprotected: self.unprotected.clone(),
        }
    }
}
