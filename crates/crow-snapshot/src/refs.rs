//! The snapshots that each session refers to: an append-only file per session, one snapshot per line.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::ids::{SessionId, SnapshotId};

use super::{
    ObjectHash, SnapshotStoreError,
    error::io_error_at,
    objects::{entries, private_folder},
};

const REFS: &str = "refs";
const LONGEST: usize = 128;
const TREE: &str = "tree-";
const ROOTS: &str = "roots-";
const PATHS: &str = "paths-";

/// The extent of a snapshot, with the hash of its root object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SnapshotRoot {
    /// The whole project: the object of its root folder.
    Tree(ObjectHash),
    /// The whole project and further roots: the object that lists them.
    Roots(ObjectHash),
    /// Single paths: the object that lists them.
    Paths(ObjectHash),
}

impl SnapshotRoot {
    pub(super) fn id(&self) -> SnapshotId {
        match self {
            Self::Tree(hash) => SnapshotId::new(format!("{TREE}{hash}")),
            Self::Roots(hash) => SnapshotId::new(format!("{ROOTS}{hash}")),
            Self::Paths(hash) => SnapshotId::new(format!("{PATHS}{hash}")),
        }
    }

    /// Returns the hash of its root object.
    pub(super) fn object(&self) -> ObjectHash {
        match self {
            Self::Tree(hash) | Self::Roots(hash) | Self::Paths(hash) => *hash,
        }
    }

    /// Parses the id of a snapshot.
    pub(super) fn of_id(id: &SnapshotId) -> Result<Self, SnapshotStoreError> {
        Self::parse(id.as_str()).ok_or_else(|| SnapshotStoreError::Unknown { id: id.clone() })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let kinds = [(TREE, Self::Tree as fn(_) -> _), (ROOTS, Self::Roots), (PATHS, Self::Paths)];
        let (hex, kind) =
            kinds.into_iter().find_map(|(name, kind)| Some((text.strip_prefix(name)?, kind)))?;
        ObjectHash::parse(hex).map(kind)
    }
}

/// Returns whether a snapshot is of the whole project and not of single paths.
pub fn is_of_project(snapshot: &SnapshotId) -> bool {
    [TREE, ROOTS].iter().any(|kind| snapshot.as_str().starts_with(kind))
}

/// The references of all sessions.
#[derive(Debug)]
pub(super) struct References {
    folder: PathBuf,
}

impl References {
    pub(super) fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        let folder = store.join(REFS);
        private_folder(&folder).map_err(io_error_at(&folder))?;
        Ok(Self { folder })
    }

    /// Adds references to snapshots from a session.
    pub(super) fn add(
        &self,
        session: &SessionId,
        roots: &[SnapshotRoot],
    ) -> Result<(), SnapshotStoreError> {
        let path = self.path(session)?;
        // The line feed comes first, so that a line that was cut by a crash does not spoil the next one.
        let lines: Vec<String> = roots.iter().map(|root| format!("\n{}", root.id())).collect();
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(lines.concat().as_bytes()))
            .map_err(io_error_at(path))
    }

    /// Returns the snapshots that a session refers to.
    pub(super) fn of_session(
        &self,
        session: &SessionId,
    ) -> Result<Vec<SnapshotRoot>, SnapshotStoreError> {
        let path = self.path(session)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().filter_map(SnapshotRoot::parse).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(io_error_at(path)(error)),
        }
    }

    pub(super) fn remove(&self, session: &SessionId) -> Result<(), SnapshotStoreError> {
        let path = self.path(session)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error_at(path)(error)),
        }
    }

    pub(super) fn sessions(&self) -> Result<Vec<SessionId>, SnapshotStoreError> {
        let names = entries(&self.folder)?.into_iter();
        Ok(names.filter_map(|file| file.file_name().to_str().map(SessionId::new)).collect())
    }

    fn path(&self, session: &SessionId) -> Result<PathBuf, SnapshotStoreError> {
        let text = session.as_str();
        // The id becomes a file name, so it must not lead out of the folder.
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty()
            || text.len() > LONGEST
            || text.starts_with('.')
            || !text.chars().all(fits)
        {
            return Err(SnapshotStoreError::BadSession { id: session.clone() });
        }
        Ok(self.folder.join(text))
    }
}
