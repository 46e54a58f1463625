//! The state of a project when it was trusted, for checking it again before a server is started.

use std::path::PathBuf;

use super::{
    contents::ProjectFiles, fingerprint::Fingerprint, programs::StartedServer, project::servers,
};

/// State of a trusted project when its configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedState {
    /// Root of the project, in which its servers are started.
    pub(crate) root: PathBuf,
    /// Files that commands must not change: those its servers are started from, links on the way to them, and code
    /// beside them.
    pub protected: Vec<PathBuf>,
    fingerprint: Fingerprint,
    /// Command lines of its servers.
    commands: Vec<Vec<String>>,
    /// The user's own servers that are started from its files.
    user_servers: Vec<StartedServer>,
}

/// Reason for which a server is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerRefusal {
    /// Files have changed since they were trusted.
    #[error(
        "it is started from files of the project that changed since you trusted it: {}; review them with `crow-agent trust` and start again",
        .names.join(", ")
    )]
    Changed {
        /// The files, relative to the root.
        names: Vec<String>,
    },
    /// The state cannot be determined.
    #[error(
        "it is started from files of the project that cannot be compared with the trusted ones: {0}"
    )]
    Unknown(String),
}

impl TrustedState {
    pub(super) fn from_files(contents: &ProjectFiles) -> Self {
        let root = contents.root();
        let own = servers(contents);
        let own = own.values().filter_map(|server| StartedServer::of_project(root, server));
        let commands = own.map(|server| server.argv);
        Self {
            root: root.to_path_buf(),
            protected: contents.programs.protected.iter().cloned().collect(),
            fingerprint: Fingerprint::compute(contents),
            commands: commands.collect(),
            user_servers: contents.user_servers.clone(),
        }
    }

    /// Returns true if a command line is that of a server which is started from the project.
    pub(crate) fn starts(&self, argv: &[String]) -> bool {
        self.is_of_project(argv) || self.user_servers.iter().any(|server| server.argv == argv)
    }

    /// Returns true if a command line is in the configuration of the project itself.
    pub(crate) fn is_of_project(&self, argv: &[String]) -> bool {
        self.commands.iter().any(|command| command == argv)
    }

    /// Fails if the project has changed since it was trusted. Blocks.
    pub(crate) fn check(&self) -> Result<(), ServerRefusal> {
        let contents = match ProjectFiles::read(&self.root, &self.user_servers) {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(ServerRefusal::Unknown("its configuration is gone".to_owned())),
            Err(error) => return Err(ServerRefusal::Unknown(error.to_string())),
        };
        let differences = self.fingerprint.differences(&Fingerprint::compute(&contents));
        if differences.is_empty() {
            return Ok(());
        }
        Err(ServerRefusal::Changed {
            names: differences.keys().map(|name| ProjectFiles::display_name(name)).collect(),
        })
    }
}
