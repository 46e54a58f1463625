//! The moment in which a path becomes what it should be. Whoever saves a file right then does not lose it.

use std::{io, path::Path};

use crow_fs::{Directory, EntryName, FileIdentity, RenameMode};

use super::{SnapshotEntry, SnapshotStoreError, backup_copy::put_aside, error::at};

/// A path of the project with its directory, which is held from the first step to the last: they all happen in the same
/// one, whatever is put at the path meanwhile.
#[derive(Debug)]
pub(super) struct RestoreTarget<'p> {
    pub(super) path: &'p Path,
    pub(super) directory: Directory,
    pub(super) name: EntryName,
}

impl<'p> RestoreTarget<'p> {
    /// Takes the directory of a path, which was opened.
    pub(crate) fn new(path: &'p Path, directory: Directory) -> Result<Self, SnapshotStoreError> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput);
        let name = name.map_err(io::Error::from).and_then(EntryName::new).map_err(at(path))?;
        Ok(Self { path, directory, name })
    }

    /// Returns by what the file that is there is known again, if one is there.
    pub(super) fn known(&self) -> Option<KnownFile> {
        known(&self.directory, &self.name)
    }
}

/// A prepared replacement of an entry.
#[derive(Debug)]
pub(super) enum StagedReplacement {
    /// Written under this temporary name in the same folder.
    Beside(EntryName),
    /// The entry is removed: it is moved to this free name first.
    Away(EntryName),
    /// Nothing is prepared: the entry is changed in place.
    InPlace,
}

/// The result of a replacement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplaceOutcome {
    /// The replacement is in its place.
    Done,
    /// The folder to remove is not empty.
    NotEmpty,
    /// The entry changed since it was checked. It was left alone.
    Changed,
}

/// By what a file is known again under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownFile {
    identity: FileIdentity,
    size: u64,
    modified: (i64, i64),
}

fn known(directory: &Directory, name: &EntryName) -> Option<KnownFile> {
    let found = directory.metadata(name).ok()?;
    Some(KnownFile { identity: found.identity, size: found.size, modified: found.modified })
}

impl StagedReplacement {
    pub(super) fn discard(self, target: &RestoreTarget<'_>) -> Result<(), SnapshotStoreError> {
        match self {
            Self::Beside(own) => remove(target, &own),
            Self::Away(_) | Self::InPlace => Ok(()),
        }
    }

    /// Puts it into its place, where `expected` was looked at just now and `seen` right before that.
    pub(super) fn put(
        self,
        target: &RestoreTarget<'_>,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
        seen: Option<KnownFile>,
    ) -> Result<ReplaceOutcome, SnapshotStoreError> {
        let leaves = matches!(expected, SnapshotEntry::Folder { .. })
            && !matches!(wanted, SnapshotEntry::Folder { .. });
        if leaves {
            match target.directory.remove_directory(&target.name) {
                Ok(()) => {}
                Err(error) => {
                    self.discard(target)?;
                    let is_full = error.kind() == io::ErrorKind::DirectoryNotEmpty;
                    return if is_full {
                        Ok(ReplaceOutcome::NotEmpty)
                    } else {
                        Err(at(target.path)(error))
                    };
                }
            }
        }
        match self {
            Self::Beside(own) if leaves || *expected == SnapshotEntry::Absent => {
                enter(&own, target)
            }
            Self::Beside(own) => exchange(&own, target, seen),
            Self::Away(own) => leave(target, &own, seen),
            Self::InPlace => Ok(ReplaceOutcome::Done),
        }
    }
}

/// Takes a place where nothing is.
fn enter(
    own: &EntryName,
    target: &RestoreTarget<'_>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    match rename(own, target, &target.name, RenameMode::Keep) {
        Ok(()) => Ok(ReplaceOutcome::Done),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove(target, own)?;
            Ok(ReplaceOutcome::Changed)
        }
        Err(error) if error.kind() == io::ErrorKind::Unsupported => replace(own, target),
        Err(error) => {
            remove(target, own)?;
            Err(at(target.path)(error))
        }
    }
}

/// Takes the place of something, and gives it back if it is not what was seen there.
fn exchange(
    own: &EntryName,
    target: &RestoreTarget<'_>,
    seen: Option<KnownFile>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    match rename(own, target, &target.name, RenameMode::Exchange) {
        Ok(()) => {}
        // Not every file system can.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return replace(own, target),
        Err(error) => {
            remove(target, own)?;
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            return if is_gone { Ok(ReplaceOutcome::Changed) } else { Err(at(target.path)(error)) };
        }
    }
    if known(&target.directory, own) == seen {
        remove(target, own)?;
        return Ok(ReplaceOutcome::Done);
    }
    rename(own, target, &target.name, RenameMode::Exchange).map_err(at(target.path))?;
    remove(target, own)?;
    Ok(ReplaceOutcome::Changed)
}

/// Removes something, and leaves it if it is not what was seen.
fn leave(
    target: &RestoreTarget<'_>,
    own: &EntryName,
    seen: Option<KnownFile>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    match rename(&target.name, target, own, RenameMode::Replace) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(ReplaceOutcome::Changed);
        }
        Err(error) => return Err(at(target.path)(error)),
    }
    if known(&target.directory, own) == seen {
        remove(target, own)?;
        return Ok(ReplaceOutcome::Done);
    }
    match rename(own, target, &target.name, RenameMode::Keep) {
        Ok(()) => Ok(ReplaceOutcome::Changed),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            replace(own, target).map(|_| ReplaceOutcome::Changed)
        }
        // Somebody was quicker once more: both are kept.
        Err(_) => put_aside(target, own).map(|()| ReplaceOutcome::Changed).map_err(at(target.path)),
    }
}

fn replace(
    own: &EntryName,
    target: &RestoreTarget<'_>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    if let Err(error) = rename(own, target, &target.name, RenameMode::Replace) {
        remove(target, own)?;
        return Err(at(target.path)(error));
    }
    Ok(ReplaceOutcome::Done)
}

fn rename(
    name: &EntryName,
    target: &RestoreTarget<'_>,
    new_name: &EntryName,
    mode: RenameMode,
) -> io::Result<()> {
    target.directory.rename(name, &target.directory, new_name, mode)
}

fn remove(target: &RestoreTarget<'_>, own: &EntryName) -> Result<(), SnapshotStoreError> {
    match target.directory.remove_file(own) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(target.path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    const FILE: SnapshotEntry = SnapshotEntry::Link { target: std::ffi::OsString::new() };

    /// A folder with the paths of what waits and of what is there.
    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        (folder, base.join("own"), base.join("path"))
    }

    fn target(path: &Path) -> RestoreTarget<'_> {
        RestoreTarget::new(path, Directory::open(path.parent().unwrap()).unwrap()).unwrap()
    }

    fn own_name() -> EntryName {
        EntryName::new("own").unwrap()
    }

    #[test]
    fn what_was_saved_after_the_last_look_stays() {
        let (_folder, own, path) = scene();
        fs::write(&path, "old").unwrap();
        let seen = target(&path).known();
        fs::write(path.with_extension("new"), "saved").unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        fs::write(&own, "ours").unwrap();
        let placed =
            StagedReplacement::Beside(own_name()).put(&target(&path), &FILE, &FILE, seen).unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        let placed = StagedReplacement::Away(own_name())
            .put(&target(&path), &FILE, &SnapshotEntry::Absent, seen)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn what_came_where_nothing_was_stays() {
        let (_folder, own, path) = scene();
        fs::write(&own, "ours").unwrap();
        fs::write(&path, "saved").unwrap();
        let placed = StagedReplacement::Beside(own_name())
            .put(&target(&path), &SnapshotEntry::Absent, &FILE, None)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn what_was_looked_at_is_replaced_and_removed() {
        let (_folder, own, path) = scene();
        fs::write(&path, "old").unwrap();
        fs::write(&own, "ours").unwrap();
        let seen = target(&path).known();
        let placed =
            StagedReplacement::Beside(own_name()).put(&target(&path), &FILE, &FILE, seen).unwrap();
        assert_eq!(placed, ReplaceOutcome::Done);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("ours", false));
        let seen = target(&path).known();
        let placed = StagedReplacement::Away(own_name())
            .put(&target(&path), &FILE, &SnapshotEntry::Absent, seen)
            .unwrap();
        assert_eq!((placed, path.exists(), own.exists()), (ReplaceOutcome::Done, false, false));
    }
}
