//! What all trials take from the machine: variables, the user's configuration, and the settings of the sandbox.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crow_app::{
    AppError, ProcessEnvironment, product,
    sandbox::{SandboxSettings, sandbox_settings},
};
use crow_runtime::{ChildEnvironment, Network, ProcessRunner};

use crate::folder_copy::FileSet;

/// Folder of temporary files if `TMPDIR` names none.
const TEMPORARY: &str = "/tmp";

/// What trials take from the machine.
#[derive(Debug)]
pub struct TrialHost {
    /// All variables of the user: the program needs its keys.
    pub(super) variables: BTreeMap<String, String>,
    /// Variables of set-up lines and checks, without secrets.
    pub(super) command_variables: ChildEnvironment,
    pub(super) sandbox: SandboxSettings,
    pub(super) home: Option<PathBuf>,
    /// The configuration that each trial gets a copy of.
    pub(super) config: FileSet,
    temporary: PathBuf,
}

/// Error of what trials take from the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialHostError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Configuration(AppError),
    /// The folder of the configuration cannot be read.
    #[error("cannot read the configuration {}: {source}", .folder.display())]
    Read {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl TrialHost {
    /// Reads the user's configuration, or that in `config`. Blocks.
    ///
    /// # Errors
    /// Fails if a file of the configuration is wrong or cannot be read.
    pub fn new(
        environment: &ProcessEnvironment,
        config: Option<&Path>,
    ) -> Result<Self, TrialHostError> {
        let app_error = TrialHostError::Configuration;
        // The user's own settings say what is hidden, whatever configuration is measured.
        let mut sandbox = sandbox_settings(environment, &[]).map_err(app_error)?;
        // A check sees no network and changes nothing outside of its working folder.
        sandbox.config.network = Network::Loopback;
        sandbox.config.writable = Vec::new();
        let models = product::models(environment, &[]).map_err(app_error)?;
        let folder = match config {
            Some(folder) => folder.to_owned(),
            None => environment.config_dir().map_err(app_error)?,
        };
        let is_left_out = |path: &Path| path.extension().is_some_and(|kind| kind == "lock");
        let listed = folder.canonicalize().and_then(|real| FileSet::of_folder(&real, is_left_out));
        let config = match listed {
            Ok(files) => files,
            // A user without settings has no folder; a folder that was named must exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound && config.is_none() => {
                FileSet::default()
            }
            Err(source) => return Err(TrialHostError::Read { folder, source }),
        };
        Ok(Self {
            variables: environment.variables(),
            command_variables: environment.child_environment(&models.key_variables()),
            sandbox,
            home: environment.var("HOME").map(PathBuf::from),
            config,
            temporary: environment.var("TMPDIR").unwrap_or_else(|| TEMPORARY.to_owned()).into(),
        })
    }

    /// Returns a hash of the configuration. Blocks.
    ///
    /// # Errors
    /// Fails if a file of the configuration cannot be read.
    pub fn config_hash(&self) -> io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        self.config.hash(&mut hasher)?;
        Ok(hasher.finalize().to_hex()[..16].to_owned())
    }

    /// Returns a runner for programs that list tasks. It gives them no secrets, and does not confine them.
    pub fn listing_processes(&self) -> ProcessRunner {
        ProcessRunner::new(self.command_variables.clone())
    }

    /// Returns the folder in which temporary folders are made.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }
}
