//! Which projects the user trusts, and as what.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use crate::private_file::{self, Privacy, PrivateFileError};

/// The version of the file.
const VERSION: u32 = 1;

/// The file that says which projects the user trusts.
#[derive(Debug, Clone)]
pub(crate) struct TrustStore {
    path: PathBuf,
}

/// A project that the user trusts as it was at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustedProject {
    pub(crate) as_of: Timestamp,
    pub(crate) what: Fingerprint,
}

/// The projects by their roots.
pub(crate) type Projects = BTreeMap<String, TrustedProject>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustDocument {
    version: u32,
    projects: Projects,
}

/// Only what says whether the rest can be read.
#[derive(Deserialize)]
struct TrustVersion {
    version: u32,
}

/// Why it is not known what the user trusts. The file is left as it is, and nothing is trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    #[error("{} cannot be understood: {source}", .path.display())]
    Broken { path: PathBuf, source: serde_json::Error },
    #[error("{} has version {found}, and only version {VERSION} is known; update crow-agent", .path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("the name of the folder {} is not text, so it cannot be trusted", .path.display())]
    Name { path: PathBuf },
}

impl TrustStore {
    /// Keeps what is trusted in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("trust.json") }
    }

    /// Reads what is trusted. Blocks.
    pub(crate) fn load(&self) -> Result<Projects, TrustError> {
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

    /// Trusts a project as it is. Blocks.
    pub(crate) fn add(&self, root: &Path, what: Fingerprint) -> Result<(), TrustError> {
        let root = name(root)?;
        let trusted = TrustedProject { as_of: Timestamp::now(), what };
        self.change(|projects| projects.insert(root, trusted)).map(drop)
    }

    /// Trusts a project no longer. Returns whether it was. Blocks.
    pub(crate) fn remove(&self, root: &Path) -> Result<bool, TrustError> {
        let root = name(root)?;
        Ok(self.change(|projects| projects.remove(&root))?.is_some())
    }

    /// Changes what is there now, which another process may have changed since it was last read.
    fn change<T>(&self, change: impl FnOnce(&mut Projects) -> T) -> Result<T, TrustError> {
        let _alone = private_file::lock(&self.path)?;
        let mut projects = self.load()?;
        let changed = change(&mut projects);
        let document = TrustDocument { version: VERSION, projects };
        let text = serde_json::to_string_pretty(&document)
            .map_err(|source| TrustError::Broken { path: self.path.clone(), source })?;
        private_file::replace(&self.path, &text)?;
        Ok(changed)
    }
}

/// Returns the name under which a project is kept.
pub(crate) fn name(root: &Path) -> Result<String, TrustError> {
    root.to_str().map(str::to_owned).ok_or_else(|| TrustError::Name { path: root.to_path_buf() })
}
