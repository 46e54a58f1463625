//! The files as they are, or as they would be after planned changes.

use std::{
    collections::BTreeMap,
    io,
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::{
    ContentRef, ObjectHash, SnapshotEntry, SnapshotLimits, SnapshotStoreError, capture::read_entry,
    error::io_error_at,
};

/// The files on disk, overlaid with the planned entries.
#[derive(Debug)]
pub(super) struct FileOverlay<'a> {
    limits: &'a SnapshotLimits,
    foreseen: BTreeMap<PathBuf, SnapshotEntry>,
}

/// The reachability of a path without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathReachability {
    /// Existing folders, or ones that can be created, lead to it.
    Clear,
    /// A link or another non-folder is in the way.
    Blocked,
}

impl<'a> FileOverlay<'a> {
    pub(crate) fn new(limits: &'a SnapshotLimits) -> Self {
        Self { limits, foreseen: BTreeMap::new() }
    }

    /// Plans an entry at a path.
    pub(super) fn plan(&mut self, path: &Path, entry: SnapshotEntry) {
        self.foreseen.insert(path.to_path_buf(), entry);
    }

    /// Returns the entry at a path without storing it. `like` is the entry it will be compared with: a file whose
    /// content was not stored is compared by its stamp alone.
    pub(super) fn current_entry(
        &self,
        path: &Path,
        like: &SnapshotEntry,
    ) -> Result<SnapshotEntry, SnapshotStoreError> {
        if let Some(entry) = self.known(path) {
            return Ok(entry);
        }
        let found = read_entry(path, self.limits, |bytes| {
            Ok(match like {
                SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } => Err(*why),
                SnapshotEntry::File { .. }
                | SnapshotEntry::Absent
                | SnapshotEntry::Link { .. }
                | SnapshotEntry::Folder { .. }
                | SnapshotEntry::Unscanned { .. } => Ok(ObjectHash::of(bytes)),
            })
        });
        match found {
            // Behind a link lies another path. A folder that will replace the link is empty.
            Err(SnapshotStoreError::Link { .. }) => Ok(SnapshotEntry::Absent),
            found => found,
        }
    }

    /// Returns whether a folder is reached through real folders alone: a link on the way leads somewhere else.
    pub(super) fn reachability(
        &self,
        folder: &Path,
    ) -> Result<PathReachability, SnapshotStoreError> {
        let mut way = PathBuf::new();
        for component in folder.components() {
            way.push(component);
            match component {
                Component::RootDir => continue,
                Component::Normal(_) if way.is_absolute() => {}
                Component::Normal(_)
                | Component::Prefix(_)
                | Component::CurDir
                | Component::ParentDir => return Ok(PathReachability::Blocked),
            }
            let is_folder = match self.known(&way) {
                Some(SnapshotEntry::Absent) => return Ok(PathReachability::Clear),
                Some(entry) => matches!(entry, SnapshotEntry::Folder { .. }),
                None => match crow_fs::metadata(&way) {
                    Ok(metadata) => metadata.is_directory(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(PathReachability::Clear);
                    }
                    Err(error) => return Err(io_error_at(way)(error)),
                },
            };
            if !is_folder {
                return Ok(PathReachability::Blocked);
            }
        }
        Ok(PathReachability::Clear)
    }

    /// Returns whether a folder will be empty.
    pub(super) fn is_empty(&self, folder: &Path) -> Result<bool, SnapshotStoreError> {
        for name in crow_fs::read_directory(folder).map_err(io_error_at(folder))? {
            if self.known(&folder.join(name.as_os_str())) != Some(SnapshotEntry::Absent) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the error with which creating or removing a path would fail, as far as permissions tell.
    pub(super) fn may_change(&self, path: &Path) -> Result<(), SnapshotStoreError> {
        for folder in path.ancestors().skip(1) {
            if self.known(folder).is_some() {
                return Ok(());
            }
            match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                // The folder will be created in the one above.
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(io_error_at(path)(error.into())),
            }
        }
        Ok(())
    }

    /// Returns the planned entry at a path, if a plan covers it.
    fn known(&self, path: &Path) -> Option<SnapshotEntry> {
        if self.foreseen.is_empty() {
            return None;
        }
        if let Some(entry) = self.foreseen.get(path) {
            return Some(entry.clone());
        }
        // Nothing can be inside an entry that is no folder.
        let above = path.ancestors().skip(1).find_map(|above| self.foreseen.get(above))?;
        (!matches!(above, SnapshotEntry::Folder { .. })).then_some(SnapshotEntry::Absent)
    }
}
