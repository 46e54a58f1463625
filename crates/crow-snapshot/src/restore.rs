//! Restores paths to an earlier state, if they are still in the state that the undone change left.
//!
//! Each path goes through the same steps: check that its current entry is the expected one, stage the wanted entry
//! beside it, check again as late as possible, and replace it atomically. A path that fails a check is left alone and
//! reported as [`RestoreResult::Conflict`].
//!
//! Changes are undone in an order in which folders exist when needed: added paths are removed innermost first, then
//! the others are restored outermost first. Folders without full permissions for their owner are opened during the
//! undo and get their modes at its end. `foresee` runs the same checks against a [`FileOverlay`] without changing
//! files.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs::Permissions,
    io::{self, Write as _},
    os::unix::fs::{PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use crow_fs::{Directory, EntryMetadata, EntryName};

use super::{
    ContentRef, NotCoveredReason, PathChange, SnapshotEntry, SnapshotStoreError,
    atomic_replace::{ReplaceOutcome, RestoreTarget, StagedReplacement},
    error::io_error_at,
    file_overlay::{FileOverlay, PathReachability},
    objects::Objects,
    undo_in_progress::UndoInProgress,
};

/// The result of restoring one path.
#[derive(Debug)]
pub enum RestoreResult {
    /// It was changed to the wanted state.
    Done,
    /// It was in the wanted state already.
    Unchanged,
    /// It is not in the expected state: it was changed since. It was left alone.
    Conflict {
        /// Its current state.
        found: SnapshotEntry,
    },
    /// The folder to remove is not empty. It was left alone.
    NotEmpty,
    /// The wanted content was never stored.
    NotCovered {
        /// The reason.
        why: NotCoveredReason,
    },
}

/// The result of an undo for one path.
#[derive(Debug)]
pub struct RestoreOutcome {
    /// The path.
    pub path: PathBuf,
    /// The result, or the error.
    pub result: Result<RestoreResult, SnapshotStoreError>,
}

/// Restores paths.
#[derive(Debug)]
pub(super) struct Restorer<'a> {
    pub(super) objects: &'a Objects,
    pub(super) view: FileOverlay<'a>,
    pub(super) in_progress: UndoInProgress,
}

const USER_MAY_ALL: u32 = 0o700;
/// Mode of created parent folders, before the umask.
const NEW_FOLDER_MODE: u32 = 0o777;

/// Sorts changes into the order of their undo: additions are removed innermost first, then the others restored
/// outermost first.
fn in_undo_order(changes: &[PathChange]) -> Vec<&PathChange> {
    let mut ordered: Vec<&PathChange> = changes.iter().collect();
    ordered.sort_by(|a, b| a.path.cmp(&b.path));
    let (additions, others): (Vec<&PathChange>, Vec<&PathChange>) =
        ordered.into_iter().partition(|change| change.before == SnapshotEntry::Absent);
    additions.into_iter().rev().chain(others).collect()
}

impl Restorer<'_> {
    /// Undoes changes, and returns the outcome for each path.
    pub(super) fn undo(&self, changes: &[PathChange]) -> Vec<RestoreOutcome> {
        // 1) Open folders that their owner may not change.
        let mut opened = BTreeMap::new();
        for (path, mode) in closed_folders(changes) {
            if self.is_unchanged_folder(path, mode) && set_mode(path, mode | USER_MAY_ALL).is_ok() {
                opened.insert(path, mode);
            }
        }
        // 2) Restore the paths.
        let mut undone = Vec::with_capacity(changes.len());
        let mut closed = Vec::new();
        for change in in_undo_order(changes) {
            let path = change.path.as_path();
            let result = match expected(change, opened.contains_key(path)) {
                Some(expected) => self.put_open(path, &expected, &change.before),
                None => Ok(RestoreResult::Done),
            };
            if matches!(result, Ok(RestoreResult::Done)) {
                opened.remove(path);
                if let SnapshotEntry::Folder { mode } = &change.before {
                    closed.push((path, *mode));
                }
            }
            undone.push(RestoreOutcome { path: change.path.clone(), result });
        }
        // 3) Set the final modes of folders.
        closed.extend(opened);
        // Folders lose write permission only when all their entries are restored.
        for (path, mode) in closed.into_iter().rev() {
            if let Err(error) = set_mode(path, mode) {
                undone.retain(|done| done.path != path);
                undone.push(RestoreOutcome { path: path.to_path_buf(), result: Err(error) });
            }
        }
        undone
    }

    /// Restores one path.
    pub(super) fn put_back(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<RestoreResult, SnapshotStoreError> {
        let put = self.put_open(path, expected, wanted)?;
        if let (RestoreResult::Done, SnapshotEntry::Folder { mode }) = (&put, wanted) {
            set_mode(path, *mode)?;
        }
        Ok(put)
    }

    /// Restores one path, but leaves a folder open for entries that are restored into it later.
    fn put_open(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<RestoreResult, SnapshotStoreError> {
        let folder = match self.precheck(path, expected, wanted)? {
            Ok(folder) => folder,
            Err(early) => return Ok(early),
        };
        let content = match wanted {
            SnapshotEntry::File { content: ContentRef::Stored(hash), .. }
                if !is_only_mode(path, expected, wanted) =>
            {
                Some(self.objects.read(hash)?)
            }
            SnapshotEntry::File { .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::Link { .. }
            | SnapshotEntry::Folder { .. }
            | SnapshotEntry::Unscanned { .. } => None,
        };
        let target = RestoreTarget::new(path, open_folder(folder, wanted)?)?;
        let staged = self.prepare(&target, folder, expected, wanted, content)?;
        let seen = target.fingerprint();
        // As late as possible, so that what is written in between is not lost.
        if let Some(late) = self.early_outcome(path, expected, wanted)? {
            staged.discard(&target)?;
            return Ok(late);
        }
        let is_in_place = matches!(staged, StagedReplacement::InPlace);
        match staged.install(&target, expected, wanted, seen)? {
            ReplaceOutcome::Done => {}
            ReplaceOutcome::NotEmpty => return Ok(RestoreResult::NotEmpty),
            ReplaceOutcome::Changed => {
                return Ok(RestoreResult::Conflict {
                    found: self.view.current_entry(path, expected)?,
                });
            }
        }
        match wanted {
            SnapshotEntry::File { mode, .. } if is_in_place => {
                target.directory.set_mode(&target.name, *mode).map_err(io_error_at(path))?;
            }
            SnapshotEntry::Folder { mode } => {
                let (directory, name) = (&target.directory, &target.name);
                if !stays_folder(expected, wanted) {
                    directory.create_directory(name, NEW_FOLDER_MODE).map_err(io_error_at(path))?;
                }
                directory.set_mode(name, mode | USER_MAY_ALL).map_err(io_error_at(path))?;
            }
            SnapshotEntry::File { .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::Link { .. }
            | SnapshotEntry::Unscanned { .. } => {}
        }
        Ok(RestoreResult::Done)
    }

    /// Returns the outcome that undoing changes would have, without changing files.
    pub(super) fn preview(&mut self, changes: &[PathChange]) -> Vec<RestoreOutcome> {
        let mut opened = BTreeSet::new();
        for (path, mode) in closed_folders(changes) {
            if self.is_unchanged_folder(path, mode) {
                self.view.plan(path, SnapshotEntry::Folder { mode: mode | USER_MAY_ALL });
                opened.insert(path);
            }
        }
        let mut undone = Vec::with_capacity(changes.len());
        for change in in_undo_order(changes) {
            let result = match expected(change, opened.contains(change.path.as_path())) {
                Some(expected) => self.preview_one(&change.path, &expected, &change.before),
                None => Ok(RestoreResult::Done),
            };
            undone.push(RestoreOutcome { path: change.path.clone(), result });
        }
        undone
    }

    /// Returns whether a folder exists with this mode, reached without a link.
    fn is_unchanged_folder(&self, path: &Path, mode: u32) -> bool {
        let folder = SnapshotEntry::Folder { mode };
        let is_clear = |above| matches!(self.view.reachability(above), Ok(PathReachability::Clear));
        path.parent().is_some_and(is_clear)
            && self.view.current_entry(path, &folder).is_ok_and(|found| found == folder)
    }

    fn preview_one(
        &mut self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<RestoreResult, SnapshotStoreError> {
        if let Err(early) = self.precheck(path, expected, wanted)? {
            return Ok(early);
        }
        if !is_only_mode(path, expected, wanted) {
            if let SnapshotEntry::File { content: ContentRef::Stored(hash), .. } = wanted {
                self.objects.read(hash)?;
            }
            if !stays_folder(expected, wanted) {
                self.view.may_change(path)?;
            }
        }
        if matches!(expected, SnapshotEntry::Folder { .. })
            && !stays_folder(expected, wanted)
            && !self.view.is_empty(path)?
        {
            return Ok(RestoreResult::NotEmpty);
        }
        self.view.plan(path, wanted.clone());
        Ok(RestoreResult::Done)
    }

    /// Returns the parent folder of a path, or the outcome if there is nothing to do or nothing may be done.
    fn precheck<'p>(
        &self,
        path: &'p Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<Result<&'p Path, RestoreResult>, SnapshotStoreError> {
        for entry in [wanted, expected] {
            if let SnapshotEntry::Unscanned { why } = entry {
                return Ok(Err(RestoreResult::NotCovered { why: *why }));
            }
        }
        if let SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } = wanted {
            return Ok(Err(RestoreResult::NotCovered { why: *why }));
        }
        let Some(folder) = path.parent() else {
            return Ok(Err(RestoreResult::NotCovered { why: NotCoveredReason::Special }));
        };
        if self.view.reachability(folder)? == PathReachability::Blocked {
            return Ok(Err(RestoreResult::Conflict {
                found: self.view.current_entry(folder, expected)?,
            }));
        }
        Ok(self.early_outcome(path, expected, wanted)?.map_or(Ok(folder), Err))
    }

    /// Returns the outcome if the current entry already is the wanted one, or is not the expected one.
    fn early_outcome(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<Option<RestoreResult>, SnapshotStoreError> {
        let found = self.view.current_entry(path, expected)?;
        Ok(if is_same_entry(&found, wanted) {
            Some(RestoreResult::Unchanged)
        } else {
            (!is_same_entry(&found, expected)).then_some(RestoreResult::Conflict { found })
        })
    }

    /// Stages the wanted entry beside its path, so that it can be put there atomically.
    fn prepare(
        &self,
        target: &RestoreTarget<'_>,
        folder: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
        content: Option<Vec<u8>>,
    ) -> Result<StagedReplacement, SnapshotStoreError> {
        let path = target.path;
        match wanted {
            SnapshotEntry::File { mode, .. } => {
                let Some(bytes) = content else { return Ok(StagedReplacement::InPlace) };
                let own = self.in_progress.temporary_name(folder)?;
                if let Err(error) = write(target, &own, *mode, &bytes) {
                    StagedReplacement::Temporary(own).discard(target)?;
                    return Err(io_error_at(path)(error));
                }
                Ok(StagedReplacement::Temporary(own))
            }
            SnapshotEntry::Link { target: to } => {
                let own = self.in_progress.temporary_name(folder)?;
                target.directory.create_symlink(to, &own).map_err(io_error_at(path))?;
                Ok(StagedReplacement::Temporary(own))
            }
            SnapshotEntry::Folder { .. } | SnapshotEntry::Absent
                if matches!(expected, SnapshotEntry::File { .. } | SnapshotEntry::Link { .. }) =>
            {
                Ok(StagedReplacement::Removal(self.in_progress.temporary_name(folder)?))
            }
            SnapshotEntry::Folder { .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::Unscanned { .. } => Ok(StagedReplacement::InPlace),
        }
    }
}

/// Returns the folders without full permissions for their owner, outermost first. They are opened during the undo, so
/// that entries in them can be removed.
fn closed_folders(changes: &[PathChange]) -> BTreeMap<&Path, u32> {
    let closed = changes.iter().filter_map(|change| match change.after {
        SnapshotEntry::Folder { mode } if mode & USER_MAY_ALL != USER_MAY_ALL => {
            Some((change.path.as_path(), mode))
        }
        SnapshotEntry::Folder { .. }
        | SnapshotEntry::Absent
        | SnapshotEntry::File { .. }
        | SnapshotEntry::Link { .. }
        | SnapshotEntry::Unscanned { .. } => None,
    });
    closed.collect()
}

/// Returns the entry expected before a change is undone; `None` if only the mode of an opened folder remains to be
/// set.
fn expected(change: &PathChange, is_opened: bool) -> Option<Cow<'_, SnapshotEntry>> {
    match (&change.after, &change.before) {
        (SnapshotEntry::Folder { .. }, SnapshotEntry::Folder { .. }) if is_opened => None,
        (SnapshotEntry::Folder { mode }, _) if is_opened => {
            Some(Cow::Owned(SnapshotEntry::Folder { mode: mode | USER_MAY_ALL }))
        }
        (after, _) => Some(Cow::Borrowed(after)),
    }
}

/// Compares an entry with the expected one. A file that was not stored is compared by its stamp.
fn is_same_entry(found: &SnapshotEntry, expected: &SnapshotEntry) -> bool {
    match (found, expected) {
        (
            SnapshotEntry::File { content: ContentRef::NotStored { stamp, .. }, .. },
            SnapshotEntry::File { content: ContentRef::NotStored { stamp: expected, .. }, .. },
        ) => stamp == expected,
        _ => found == expected,
    }
}

fn stays_folder(expected: &SnapshotEntry, wanted: &SnapshotEntry) -> bool {
    matches!((expected, wanted), (SnapshotEntry::Folder { .. }, SnapshotEntry::Folder { .. }))
}

/// Returns whether only the mode of a file changes, and the file has no other name (hard link).
fn is_only_mode(path: &Path, expected: &SnapshotEntry, wanted: &SnapshotEntry) -> bool {
    match (expected, wanted) {
        (
            SnapshotEntry::File { content: ContentRef::Stored(expected), .. },
            SnapshotEntry::File { content: ContentRef::Stored(wanted), .. },
        ) => expected == wanted && crow_fs::metadata(path).is_ok_and(|file| file.links == 1),
        _ => false,
    }
}

/// Opens the parent folder of a path. It is created with its own parents if an entry is to be put there.
fn open_folder(folder: &Path, wanted: &SnapshotEntry) -> Result<Directory, SnapshotStoreError> {
    let opened = match wanted {
        SnapshotEntry::File { .. } | SnapshotEntry::Link { .. } | SnapshotEntry::Folder { .. } => {
            crow_fs::create_directories(folder, NEW_FOLDER_MODE)
        }
        SnapshotEntry::Absent | SnapshotEntry::Unscanned { .. } => Directory::open(folder),
    };
    opened.map_err(io_error_at(folder))
}

/// Writes the new content of a file under a temporary name, with the owner of the current file.
fn write(target: &RestoreTarget<'_>, own: &EntryName, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let before = target.directory.metadata(&target.name).ok().filter(EntryMetadata::is_file);
    let mut file = target.directory.create_file(own, 0o600)?;
    file.write_all(bytes)?;
    let new = EntryMetadata::of_file(&file)?;
    if let Some(before) = before.filter(|file| (file.user, file.group) != (new.user, new.group)) {
        // Only root may give files away; for other users the new file is their own, as with any editor that replaces
        // files.
        let given = fchown(&file, Some(before.user), Some(before.group));
        if let Err(error) = given {
            let path = target.path.display();
            tracing::debug!(%path, %error, "the owner of a file does not return");
        }
    }
    file.set_permissions(Permissions::from_mode(mode))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), SnapshotStoreError> {
    crow_fs::set_mode(path, mode).map_err(io_error_at(path))
}
