//! What a project was when it was trusted, kept for the time that its servers may be started.

use std::path::PathBuf;

use super::{
    contents::ProjectFiles, fingerprint::Fingerprint, programs::StartedServer, project::servers,
};

/// A trusted project as it was when its configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustedState {
    /// The root, from which its servers are started.
    pub(crate) root: PathBuf,
    /// The files that its servers are started from, links on the way to them, and code beside them: commands may not change
    /// these.
    pub(crate) protected: Vec<PathBuf>,
    fingerprint: Fingerprint,
    /// The command lines of its servers.
    commands: Vec<Vec<String>>,
    /// The user's own servers that are started from its files.
    user_servers: Vec<StartedServer>,
}

/// Why a server of a project is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerRefusal {
    /// Something is not as it was shown.
    #[error(
        "it is started from files of the project, and since you trusted the project these changed: {}; look at them with `crow-agent trust` and start again",
        .names.join(", ")
    )]
    Changed {
        /// The files, as seen from the root.
        names: Vec<String>,
    },
    /// It cannot be told.
    #[error(
        "it is started from files of the project, and whether these are as you trusted them cannot be told: {0}"
    )]
    Unknown(String),
}

impl TrustedState {
    pub(super) fn of(contents: &ProjectFiles) -> Self {
        let root = contents.root();
        let own = servers(contents);
        let own = own.values().filter_map(|server| StartedServer::of_project(root, server));
        let commands = own.map(|server| server.argv);
        Self {
            root: root.to_path_buf(),
            protected: contents.programs.held.iter().cloned().collect(),
            fingerprint: Fingerprint::of(contents),
            commands: commands.collect(),
            user_servers: contents.user_servers.clone(),
        }
    }

    /// Returns whether a command line is one of a server that is started from the project.
    pub(crate) fn starts(&self, argv: &[String]) -> bool {
        self.is_of_project(argv) || self.user_servers.iter().any(|server| server.argv == argv)
    }

    /// Returns whether the project itself names a command line.
    pub(crate) fn is_of_project(&self, argv: &[String]) -> bool {
        self.commands.iter().any(|command| command == argv)
    }

    /// Looks whether the project is still as it was shown when it was trusted. Blocks.
    pub(crate) fn check(&self) -> Result<(), ServerRefusal> {
        let contents = match ProjectFiles::read(&self.root, &self.user_servers) {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(ServerRefusal::Unknown("its configuration is gone".to_owned())),
            Err(error) => return Err(ServerRefusal::Unknown(error.to_string())),
        };
        let differences = self.fingerprint.differences(&Fingerprint::of(&contents));
        if differences.is_empty() {
            return Ok(());
        }
        Err(ServerRefusal::Changed {
            names: differences.keys().map(|name| ProjectFiles::shown(name)).collect(),
        })
    }
}
