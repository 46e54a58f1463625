//! The file of trusted projects and their fingerprints.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::Fingerprint;
use crate::private_file::{self, Privacy, PrivateFileError};

/// Version of the file format.
const VERSION: u32 = 1;

/// The file of trusted projects.
#[derive(Debug, Clone)]
pub struct TrustStore {
    path: PathBuf,
}

/// A trusted project, with its state at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedProject {
    pub as_of: Timestamp,
    pub(crate) what: Fingerprint,
}

/// Trusted projects by root path.
pub(crate) type Projects = BTreeMap<String, TrustedProject>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustDocument {
    version: u32,
    projects: Projects,
}

/// The version alone, read first to decide whether the rest can be parsed.
#[derive(Deserialize)]
struct TrustVersion {
    version: u32,
}

/// Reason for which the file cannot be used. It is not overwritten, and nothing is trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    #[error("{} is invalid: {source}", .path.display())]
    Broken { path: PathBuf, source: serde_json::Error },
    #[error("{} has version {found}, but only version {VERSION} is supported; update crow-agent", .path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("the name of the folder {} is not UTF-8, so it cannot be trusted", .path.display())]
    Name { path: PathBuf },
}

impl TrustStore {
    /// Opens the store in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("trust.json") }
    }

    /// Reads the trusted projects. Blocks.
    pub fn load(&self) -> Result<Projects, TrustError> {
        let Some(text) = private_file::read(&self.path, Privacy::Own)? else {
            return Ok(Projects::new());
        };
        let broken = |source| TrustError::Broken { path: self.path.clone(), source };
        let head: TrustVersion = serde_json::from_str(&text).map_err(broken)?;
        if head.version != VERSION {
            return Err(TrustError::Version { path: self.path.clone(), found: head.version });
        }
        let document: TrustDocument = serde_json::from_str(&text).map_err(broken)?;
        Ok(document.projects)
    }

    /// Adds a project with its current fingerprint. Blocks.
    pub fn add(&self, root: &Path, what: Fingerprint) -> Result<(), TrustError> {
        let root = project_key(root)?;
        let trusted = TrustedProject { as_of: Timestamp::now(), what };
        self.change(|projects| projects.insert(root, trusted)).map(drop)
    }

    /// Removes a project. Returns true if it was trusted. Blocks.
    pub fn remove(&self, root: &Path) -> Result<bool, TrustError> {
        let root = project_key(root)?;
        Ok(self.change(|projects| projects.remove(&root))?.is_some())
    }

    /// Changes the current content under a lock: another process may have changed the file since it was last read.
    fn change<T>(&self, change: impl FnOnce(&mut Projects) -> T) -> Result<T, TrustError> {
        let _lock = private_file::lock(&self.path)?;
        let mut projects = self.load()?;
        let changed = change(&mut projects);
        let document = TrustDocument { version: VERSION, projects };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|source| TrustError::Broken { path: self.path.clone(), source })?;
        private_file::replace(&self.path, &text)?;
        Ok(changed)
    }
}

/// Returns the key of a project. Fails if the path is not UTF-8.
pub(crate) fn project_key(root: &Path) -> Result<String, TrustError> {
    root.to_str().map(str::to_owned).ok_or_else(|| TrustError::Name { path: root.to_path_buf() })
}
