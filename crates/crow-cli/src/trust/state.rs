//! What a project was when it was trusted, kept for the time that its servers may be started.

use std::path::PathBuf;

use crow_core::mcp::McpTransport;

use super::{contents::Contents, fingerprint::Fingerprint, project::servers};

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
}

/// Why a server of a project is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerRefusal {
    /// Something is not as it was shown.
    #[error(
        "it is a server of the project, and since you trusted the project these changed: {}; look at them with `crow-agent trust` and start again",
        .names.join(", ")
    )]
    Changed {
        /// The files, as seen from the root.
        names: Vec<String>,
    },
    /// It cannot be told.
    #[error(
        "it is a server of the project, and whether that is as you trusted it cannot be told: {0}"
    )]
    Unknown(String),
}

impl TrustedState {
    pub(super) fn of(contents: &Contents) -> Self {
        let command =
            |server: &crate::mcp::ServerTable| match server.to_settings("x").ok()?.server.transport
            {
                McpTransport::Stdio { command, args, .. } => {
                    Some(std::iter::once(command).chain(args).collect())
                }
                McpTransport::Http { .. } | McpTransport::Client(_) => None,
            };
        Self {
            root: contents.root().to_path_buf(),
            protected: contents.programs.held.iter().cloned().collect(),
            fingerprint: Fingerprint::of(contents),
            commands: servers(contents).values().filter_map(command).collect(),
        }
    }

    /// Returns whether a command line is one of a server of the project.
    pub(crate) fn starts(&self, argv: &[String]) -> bool {
        self.commands.iter().any(|command| command == argv)
    }

    /// Looks whether the project is still as it was shown when it was trusted. Blocks.
    pub(crate) fn check(&self) -> Result<(), ServerRefusal> {
        let contents = match Contents::read(&self.root) {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(ServerRefusal::Unknown("its configuration is gone".to_owned())),
            Err(error) => return Err(ServerRefusal::Unknown(error.to_string())),
        };
        let differences = self.fingerprint.differences(&Fingerprint::of(&contents));
        if differences.is_empty() {
            return Ok(());
        }
        Err(ServerRefusal::Changed {
            names: differences.keys().map(|name| Contents::shown(name)).collect(),
        })
    }
}
