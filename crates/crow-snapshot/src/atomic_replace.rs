//! Replaces the entry at a path atomically, without losing a file that another program saves at that moment.
//!
//! A new entry is written under a temporary name first. [`StagedReplacement::install`] exchanges it with the old one in
//! one rename and then checks that the entry taken out is the one that was seen before. If it is not, it is exchanged
//! back and the outcome is [`ReplaceOutcome::Changed`].

use std::{io, path::Path};

use crow_fs::{Directory, EntryName, FileIdentity, RenameMode};

use super::{SnapshotEntry, SnapshotStoreError, backup_copy::put_aside, error::io_error_at};

/// A path of the project with its open directory. The directory stays open from the first step to the last, so all
/// steps happen in the same one, whatever is put at the path meanwhile.
#[derive(Debug)]
pub(super) struct RestoreTarget<'p> {
    pub(super) path: &'p Path,
    pub(super) directory: Directory,
    pub(super) name: EntryName,
}

impl<'p> RestoreTarget<'p> {
    /// Wraps a path with its directory, which is already open.
    pub(crate) fn new(path: &'p Path, directory: Directory) -> Result<Self, SnapshotStoreError> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput);
        let name =
            name.map_err(io::Error::from).and_then(EntryName::new).map_err(io_error_at(path))?;
        Ok(Self { path, directory, name })
    }

    /// Returns the identity of the file at the target, if one is there.
    pub(super) fn fingerprint(&self) -> Option<FileFingerprint> {
        known(&self.directory, &self.name)
    }
}

/// The staged form of a replacement.
#[derive(Debug)]
pub(super) enum StagedReplacement {
    /// The new entry is written under this temporary name in the same folder.
    Temporary(EntryName),
    /// The entry is to be removed; it is moved to this free name first.
    Removal(EntryName),
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

/// Identity, size and time of a file: recognises it under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileFingerprint {
    identity: FileIdentity,
    size: u64,
    modified: (i64, i64),
}

fn known(directory: &Directory, name: &EntryName) -> Option<FileFingerprint> {
    let found = directory.metadata(name).ok()?;
    Some(FileFingerprint { identity: found.identity, size: found.size, modified: found.modified })
}

impl StagedReplacement {
    pub(super) fn discard(self, target: &RestoreTarget<'_>) -> Result<(), SnapshotStoreError> {
        match self {
            Self::Temporary(own) => remove(target, &own),
            Self::Removal(_) | Self::InPlace => Ok(()),
        }
    }

    /// Installs the replacement. `expected` is the entry checked just now, `seen` the file identity from right before
    /// that check.
    pub(super) fn install(
        self,
        target: &RestoreTarget<'_>,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
        seen: Option<FileFingerprint>,
    ) -> Result<ReplaceOutcome, SnapshotStoreError> {
        // A folder must be removed first; the file system refuses if it is not empty.
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
                        Err(io_error_at(target.path)(error))
                    };
                }
            }
        }
        match self {
            Self::Temporary(own) if leaves || *expected == SnapshotEntry::Absent => {
                enter(&own, target)
            }
            Self::Temporary(own) => exchange(&own, target, seen),
            Self::Removal(own) => leave(target, &own, seen),
            Self::InPlace => Ok(ReplaceOutcome::Done),
        }
    }
}

/// Moves the staged entry to a free name; fails with `Changed` if one appeared.
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
            Err(io_error_at(target.path)(error))
        }
    }
}

/// Swaps the staged entry with the target, and swaps back if the one taken out is not the one seen before.
fn exchange(
    own: &EntryName,
    target: &RestoreTarget<'_>,
    seen: Option<FileFingerprint>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    match rename(own, target, &target.name, RenameMode::Exchange) {
        Ok(()) => {}
        // Some file systems cannot exchange two names.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return replace(own, target),
        Err(error) => {
            remove(target, own)?;
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            return if is_gone {
                Ok(ReplaceOutcome::Changed)
            } else {
                Err(io_error_at(target.path)(error))
            };
        }
    }
    // The old entry has the temporary name now.
    if known(&target.directory, own) == seen {
        remove(target, own)?;
        return Ok(ReplaceOutcome::Done);
    }
    // It is not the expected one: swap back.
    rename(own, target, &target.name, RenameMode::Exchange).map_err(io_error_at(target.path))?;
    remove(target, own)?;
    Ok(ReplaceOutcome::Changed)
}

/// Moves the target away and removes it; puts it back if it is not the file seen before.
fn leave(
    target: &RestoreTarget<'_>,
    own: &EntryName,
    seen: Option<FileFingerprint>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    match rename(&target.name, target, own, RenameMode::Replace) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(ReplaceOutcome::Changed);
        }
        Err(error) => return Err(io_error_at(target.path)(error)),
    }
    if known(&target.directory, own) == seen {
        remove(target, own)?;
        return Ok(ReplaceOutcome::Done);
    }
    // It is not the expected entry: put it back.
    match rename(own, target, &target.name, RenameMode::Keep) {
        Ok(()) => Ok(ReplaceOutcome::Changed),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            replace(own, target).map(|_| ReplaceOutcome::Changed)
        }
        // Another file was saved at the path meanwhile: keep both.
        Err(_) => put_aside(target, own)
            .map(|()| ReplaceOutcome::Changed)
            .map_err(io_error_at(target.path)),
    }
}

fn replace(
    own: &EntryName,
    target: &RestoreTarget<'_>,
) -> Result<ReplaceOutcome, SnapshotStoreError> {
    if let Err(error) = rename(own, target, &target.name, RenameMode::Replace) {
        remove(target, own)?;
        return Err(io_error_at(target.path)(error));
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
        Err(error) => Err(io_error_at(target.path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    const FILE: SnapshotEntry = SnapshotEntry::Link { target: std::ffi::OsString::new() };

    /// Creates a folder, with the path of the staged entry and the path to replace.
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
    fn a_file_saved_after_the_last_look_is_kept() {
        let (_folder, own, path) = scene();
        fs::write(&path, "old").unwrap();
        let seen = target(&path).fingerprint();
        fs::write(path.with_extension("new"), "saved").unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        fs::write(&own, "ours").unwrap();
        let placed = StagedReplacement::Temporary(own_name())
            .install(&target(&path), &FILE, &FILE, seen)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        let placed = StagedReplacement::Removal(own_name())
            .install(&target(&path), &FILE, &SnapshotEntry::Absent, seen)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn a_file_that_appeared_at_a_free_path_is_kept() {
        let (_folder, own, path) = scene();
        fs::write(&own, "ours").unwrap();
        fs::write(&path, "saved").unwrap();
        let placed = StagedReplacement::Temporary(own_name())
            .install(&target(&path), &SnapshotEntry::Absent, &FILE, None)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn an_unchanged_file_is_replaced_and_removed() {
        let (_folder, own, path) = scene();
        fs::write(&path, "old").unwrap();
        fs::write(&own, "ours").unwrap();
        let seen = target(&path).fingerprint();
        let placed = StagedReplacement::Temporary(own_name())
            .install(&target(&path), &FILE, &FILE, seen)
            .unwrap();
        assert_eq!(placed, ReplaceOutcome::Done);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("ours", false));
        let seen = target(&path).fingerprint();
        let placed = StagedReplacement::Removal(own_name())
            .install(&target(&path), &FILE, &SnapshotEntry::Absent, seen)
            .unwrap();
        assert_eq!((placed, path.exists(), own.exists()), (ReplaceOutcome::Done, false, false));
    }
}
