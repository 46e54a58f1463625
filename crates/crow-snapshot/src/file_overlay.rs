//! The files as they are, or as they would be after changes that were only foreseen.

use std::{
    collections::BTreeMap,
    io,
    path::{Component, Path, PathBuf},
};

use rustix::fs::{Access, access};

use super::{
    ContentRef, ObjectHash, SnapshotEntry, SnapshotLimits, SnapshotStoreError, capture::look,
    error::at,
};

/// The files, with what was foreseen laid over them.
#[derive(Debug)]
pub(super) struct FileOverlay<'a> {
    limits: &'a SnapshotLimits,
    foreseen: BTreeMap<PathBuf, SnapshotEntry>,
}

/// Tells whether a path can be reached without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathReachability {
    /// Folders that are there or can be made lead to it.
    Clear,
    /// Something else is in the way.
    Blocked,
}

impl<'a> FileOverlay<'a> {
    pub(crate) fn new(limits: &'a SnapshotLimits) -> Self {
        Self { limits, foreseen: BTreeMap::new() }
    }

    /// Takes a path for what it will be.
    pub(super) fn foresee(&mut self, path: &Path, entry: SnapshotEntry) {
        self.foreseen.insert(path.to_path_buf(), entry);
    }

    /// Tells what is at a path, without storing it. A file that was not stored is known by its stamp alone.
    pub(super) fn found(
        &self,
        path: &Path,
        like: &SnapshotEntry,
    ) -> Result<SnapshotEntry, SnapshotStoreError> {
        if let Some(entry) = self.known(path) {
            return Ok(entry);
        }
        let found = look(path, self.limits, |bytes| {
            Ok(match like {
                SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } => Err(*why),
                SnapshotEntry::File { .. }
                | SnapshotEntry::Absent
                | SnapshotEntry::Link { .. }
                | SnapshotEntry::Folder { .. }
                | SnapshotEntry::LeftOut { .. } => Ok(ObjectHash::of(bytes)),
            })
        });
        match found {
            // Behind a link lies another path. A folder that will take its place is empty.
            Err(SnapshotStoreError::Link { .. }) => Ok(SnapshotEntry::Absent),
            found => found,
        }
    }

    /// Tells whether folders alone lead to a folder and it is one: a link on the way leads somewhere else.
    pub(super) fn way(&self, folder: &Path) -> Result<PathReachability, SnapshotStoreError> {
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
                    Err(error) => return Err(at(way)(error)),
                },
            };
            if !is_folder {
                return Ok(PathReachability::Blocked);
            }
        }
        Ok(PathReachability::Clear)
    }

    /// Returns whether nothing will be in a folder.
    pub(super) fn is_empty(&self, folder: &Path) -> Result<bool, SnapshotStoreError> {
        for name in crow_fs::read_directory(folder).map_err(at(folder))? {
            if self.known(&folder.join(name.as_os_str())) != Some(SnapshotEntry::Absent) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails as making or removing a path will fail, as far as permissions tell.
    pub(super) fn may_change(&self, path: &Path) -> Result<(), SnapshotStoreError> {
        for folder in path.ancestors().skip(1) {
            if self.known(folder).is_some() {
                return Ok(());
            }
            match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                // It will be made in the one above.
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(at(path)(error.into())),
            }
        }
        Ok(())
    }

    fn known(&self, path: &Path) -> Option<SnapshotEntry> {
        if self.foreseen.is_empty() {
            return None;
        }
        if let Some(entry) = self.foreseen.get(path) {
            return Some(entry.clone());
        }
        // In what is no folder is nothing.
        let above = path.ancestors().skip(1).find_map(|above| self.foreseen.get(above))?;
        (!matches!(above, SnapshotEntry::Folder { .. })).then_some(SnapshotEntry::Absent)
    }
}
