//! Captures the current state of single paths, also ignored ones and ones outside the project.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use crow_core::ids::SnapshotId;
use crow_fs::EntryKind;

use super::{
    ContentRef, FileStamp, NotCovered, NotCoveredReason, SnapshotEntry, SnapshotLimits,
    SnapshotStoreError,
    error::io_error_at,
    objects::Objects,
    path_stat::is_absence,
    read_file::{FileReadOutcome, read_file},
    storage_budget::StorageBudget,
};

/// The stored state of single paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The captured absolute paths, with the missing folders above them: capture these again after the change.
    pub paths: Vec<PathBuf>,
    /// Entries that the snapshot does not hold, with the reason.
    pub not_covered: Vec<NotCovered>,
}

/// Makes paths absolute, resolves them, and adds the missing folders above them.
pub(super) fn with_missing_folders(
    root: &Path,
    paths: &[PathBuf],
) -> Result<BTreeSet<PathBuf>, SnapshotStoreError> {
    let mut all = BTreeSet::new();
    for path in paths {
        let mut path = root.join(path);
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            path = resolve(folder)?.join(name);
        }
        // Missing parents are captured as absent, so that an undo removes them again.
        let missing = path.ancestors().skip(1).take_while(|folder| is_missing(folder));
        all.extend(missing.map(Path::to_path_buf));
        all.insert(path);
    }
    Ok(all)
}

/// Resolves the part of a path that exists.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, SnapshotStoreError> {
    match path.canonicalize() {
        Ok(resolved) => Ok(resolved),
        Err(error) if is_absence(&error) => match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Ok(resolve(folder)?.join(name)),
            _ => Err(io_error_at(path)(error)),
        },
        Err(error) => Err(io_error_at(path)(error)),
    }
}

fn is_missing(path: &Path) -> bool {
    crow_fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns whether the parent folder of a path is a real folder or missing: behind a link lies another path.
pub(super) fn is_reached_directly(path: &Path) -> Result<bool, SnapshotStoreError> {
    let Some(folder) = path.parent() else { return Ok(true) };
    match crow_fs::metadata(folder) {
        Ok(metadata) => Ok(metadata.kind != EntryKind::Symlink),
        Err(error) if is_absence(&error) => Ok(true),
        Err(error) if crow_fs::is_link_error(&error) => Ok(false),
        Err(error) => Err(io_error_at(folder)(error)),
    }
}

/// Stores the current entry at a path.
pub(super) fn capture(
    path: &Path,
    objects: &Objects,
    limits: &SnapshotLimits,
    budget: &mut StorageBudget,
) -> Result<SnapshotEntry, SnapshotStoreError> {
    read_entry(path, limits, |bytes| objects.put_content(bytes, budget))
}

/// Reads the entry at a path; `keep` stores or hashes a file's content and returns its hash or the reason why it is
/// not stored.
pub(super) fn read_entry(
    path: &Path,
    limits: &SnapshotLimits,
    keep: impl FnOnce(&[u8]) -> Result<Result<super::ObjectHash, NotCoveredReason>, SnapshotStoreError>,
) -> Result<SnapshotEntry, SnapshotStoreError> {
    let metadata = match crow_fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absence(&error) => return Ok(SnapshotEntry::Absent),
        Err(error) => return Err(io_error_at(path)(error)),
    };
    match metadata.kind {
        EntryKind::Symlink => {
            let target = crow_fs::read_link(path).map_err(io_error_at(path))?.into_os_string();
            return Ok(SnapshotEntry::Link { target });
        }
        EntryKind::Directory => return Ok(SnapshotEntry::Folder { mode: metadata.mode }),
        EntryKind::File | EntryKind::Special => {}
    }
    // A file or special entry: its content is read up to the limit.
    let stamp = FileStamp::of_entry(&metadata);
    let not_stored = |why| SnapshotEntry::File {
        mode: stamp.mode,
        size: stamp.size,
        content: ContentRef::NotStored { why, stamp },
    };
    match read_file(path, limits.file_bytes) {
        Ok(FileReadOutcome::Whole { bytes, stamp }) => Ok(match keep(&bytes)? {
            Ok(hash) => SnapshotEntry::File {
                mode: stamp.mode,
                size: stamp.size,
                content: ContentRef::Stored(hash),
            },
            Err(why) => not_stored(why),
        }),
        Ok(FileReadOutcome::TooLarge) => Ok(not_stored(NotCoveredReason::TooLarge)),
        Ok(FileReadOutcome::Special) => Ok(not_stored(NotCoveredReason::Special)),
        Err(error) if is_absence(&error) => Ok(SnapshotEntry::Absent),
        Err(_) => Ok(not_stored(NotCoveredReason::Unreadable)),
    }
}
