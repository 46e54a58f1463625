//! Configuration of sandboxes: what commands may read, change and reach.

use std::path::PathBuf;

use crow_core::{network::Network, permission::SandboxPaths};

use super::{link_search::LinkedPaths, system};

/// Configuration of the sandboxes of a runtime.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Folder in which the private temporary folders of sessions are created.
    pub folder: PathBuf,
    /// Reachable network.
    pub network: Network,
    /// Folders and files outside of the workspace that may be changed. Missing ones are ignored.
    pub writable: Vec<PathBuf>,
    /// Files and folders that cannot be read: keys, and the agent's own data.
    pub hidden: Vec<PathBuf>,
    /// Hidden folders that belong to the program itself. If one lies in the workspace and does not exist,
    /// it is created: otherwise a command could create it, and its contents would be the user's settings
    /// the next time.
    pub own: Vec<PathBuf>,
    /// Protected paths, relative to a root of the workspace, that may be changed nevertheless: `.github`,
    /// `.git/config`.
    pub unprotected: Vec<PathBuf>,
    /// Absolute paths of further files and links of the workspace that start programs outside of the
    /// sandbox, for example scripts of a trusted project's tool servers: commands cannot change, replace or
    /// remove them. Entries of `unprotected` take precedence.
    pub protected_files: Vec<PathBuf>,
    /// Absolute paths of links on the way to hidden files. Commands cannot replace those in the workspace: the user's
    /// programs would then read other files. What they lead to is not protected by this.
    pub protected_links: Vec<PathBuf>,
    /// Location of the user's own git settings, which may also name hooks and programs of the workspace.
    pub git: UserGit,
    /// Resource limits of commands.
    pub limits: ProcessLimits,
}

/// Location of the user's own git settings, which apply to every repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserGit {
    /// Directory that `~` means in settings.
    pub home: Option<PathBuf>,
    /// Settings files, including those of the system.
    pub settings: Vec<PathBuf>,
}

/// Resource limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Maximum number of processes and threads at once.
    pub processes: u64,
    /// Maximum size of one process's writable memory, in bytes.
    pub memory: u64,
}

/// Files that a command may change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxProfile {
    /// Files of the workspace and of its temporary folder.
    #[default]
    Workspace,
    /// Files of its temporary folder only.
    ReadOnly,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: 4096, memory: 16 << 30 }
    }
}

impl SandboxConfig {
    /// Creates a configuration with loopback only, which hides nothing.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            network: Network::default(),
            writable: Vec::new(),
            hidden: Vec::new(),
            own: Vec::new(),
            unprotected: Vec::new(),
            protected_files: Vec::new(),
            protected_links: Vec::new(),
            git: UserGit::default(),
            limits: ProcessLimits::default(),
        }
    }

    /// Adds what a search for links has found.
    pub(super) fn add_linked(&mut self, found: &LinkedPaths) {
        self.hidden.extend_from_slice(&found.hidden);
        self.protected_files.extend_from_slice(&found.protected_files);
        self.protected_links.extend_from_slice(&found.protected_links);
    }

    /// Returns the special paths of the sandbox for the permission policy: file tools, which run outside of
    /// the sandbox, respect them, too.
    pub fn sandbox_paths(&self) -> SandboxPaths {
        SandboxPaths {
            writable: self.writable.clone(),
            readable: Vec::new(),
            visible: system::visible_exceptions(),
            hidden: system::covered_folders()
                .into_iter()
                .chain(self.hidden.iter().cloned())
                .collect(),
            protected: self.protected_files.clone(),
            unprotected: self.unprotected.clone(),
        }
    }
}
