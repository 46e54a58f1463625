//! Putting a path back into a state that it had, if it is still in the state that it should be in.

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
    ContentRef, PathChange, SnapshotEntry, SnapshotStoreError, WhyNotCovered,
    atomic_replace::{ReplaceOutcome, RestoreTarget, StagedReplacement},
    error::at,
    file_overlay::{FileOverlay, PathReachability},
    objects::Objects,
    undo_in_progress::UndoInProgress,
};

/// The result of putting one path back.
#[derive(Debug)]
pub enum PutBack {
    /// It was changed to the wanted state.
    Done,
    /// It was in the wanted state already.
    Unchanged,
    /// It is not in the expected state: something changed it since. It was left alone.
    Conflict {
        /// Its state.
        found: SnapshotEntry,
    },
    /// The folder to remove is not empty. It was left alone.
    NotEmpty,
    /// The wanted content was never stored.
    NotCovered {
        /// Why.
        why: WhyNotCovered,
    },
}

/// The result of an undo for one path.
#[derive(Debug)]
pub struct RestoreOutcome {
    /// The path.
    pub path: PathBuf,
    /// The result, or why it could not be put back.
    pub result: Result<PutBack, SnapshotStoreError>,
}

/// Puts paths back.
#[derive(Debug)]
pub(super) struct Restorer<'a> {
    pub(super) objects: &'a Objects,
    pub(super) view: FileOverlay<'a>,
    pub(super) undoing: UndoInProgress,
}

const USER_MAY_ALL: u32 = 0o700;
/// The mode of folders that are made on the way, of which the umask takes its part.
const NEW_FOLDER_MODE: u32 = 0o777;

/// Sorts changes as they can be undone: what came goes, the innermost first; then what was returns, the outermost first.
fn in_turn(changes: &[PathChange]) -> Vec<&PathChange> {
    let mut ordered: Vec<&PathChange> = changes.iter().collect();
    ordered.sort_by(|a, b| a.path.cmp(&b.path));
    let (go, return_): (Vec<&PathChange>, Vec<&PathChange>) =
        ordered.into_iter().partition(|change| change.before == SnapshotEntry::Absent);
    go.into_iter().rev().chain(return_).collect()
}

impl Restorer<'_> {
    /// Undoes changes.
    pub(super) fn undo(&self, changes: &[PathChange]) -> Vec<RestoreOutcome> {
        let mut opened = BTreeMap::new();
        for (path, mode) in closed_folders(changes) {
            if self.is_still(path, mode) && set_mode(path, mode | USER_MAY_ALL).is_ok() {
                opened.insert(path, mode);
            }
        }
        let mut undone = Vec::with_capacity(changes.len());
        let mut closed = Vec::new();
        for change in in_turn(changes) {
            let path = change.path.as_path();
            let result = match expected(change, opened.contains_key(path)) {
                Some(expected) => self.put_open(path, &expected, &change.before),
                None => Ok(PutBack::Done),
            };
            if matches!(result, Ok(PutBack::Done)) {
                opened.remove(path);
                if let SnapshotEntry::Folder { mode } = &change.before {
                    closed.push((path, *mode));
                }
            }
            undone.push(RestoreOutcome { path: change.path.clone(), result });
        }
        closed.extend(opened);
        // Only when all is in them may folders become closed to writing again.
        for (path, mode) in closed.into_iter().rev() {
            if let Err(error) = set_mode(path, mode) {
                undone.retain(|done| done.path != path);
                undone.push(RestoreOutcome { path: path.to_path_buf(), result: Err(error) });
            }
        }
        undone
    }

    /// Puts one path back.
    pub(super) fn put_back(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<PutBack, SnapshotStoreError> {
        let put = self.put_open(path, expected, wanted)?;
        if let (PutBack::Done, SnapshotEntry::Folder { mode }) = (&put, wanted) {
            set_mode(path, *mode)?;
        }
        Ok(put)
    }

    /// Leaves a folder open for what comes into it.
    fn put_open(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<PutBack, SnapshotStoreError> {
        let folder = match self.before_all(path, expected, wanted)? {
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
            | SnapshotEntry::LeftOut { .. } => None,
        };
        let target = RestoreTarget::new(path, open_folder(folder, wanted)?)?;
        let ready = self.prepare(&target, folder, expected, wanted, content)?;
        let seen = target.known();
        // As late as can be: what is written in between is not lost.
        if let Some(late) = self.hindrance(path, expected, wanted)? {
            ready.discard(&target)?;
            return Ok(late);
        }
        let is_in_place = matches!(ready, StagedReplacement::InPlace);
        match ready.put(&target, expected, wanted, seen)? {
            ReplaceOutcome::Done => {}
            ReplaceOutcome::NotEmpty => return Ok(PutBack::NotEmpty),
            ReplaceOutcome::Changed => {
                return Ok(PutBack::Conflict { found: self.view.found(path, expected)? });
            }
        }
        match wanted {
            SnapshotEntry::File { mode, .. } if is_in_place => {
                target.directory.set_mode(&target.name, *mode).map_err(at(path))?;
            }
            SnapshotEntry::Folder { mode } => {
                let (directory, name) = (&target.directory, &target.name);
                if !stays_folder(expected, wanted) {
                    directory.create_directory(name, NEW_FOLDER_MODE).map_err(at(path))?;
                }
                directory.set_mode(name, mode | USER_MAY_ALL).map_err(at(path))?;
            }
            SnapshotEntry::File { .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::Link { .. }
            | SnapshotEntry::LeftOut { .. } => {}
        }
        Ok(PutBack::Done)
    }

    /// Tells what undoing changes would come to.
    pub(super) fn foresee(&mut self, changes: &[PathChange]) -> Vec<RestoreOutcome> {
        let mut opened = BTreeSet::new();
        for (path, mode) in closed_folders(changes) {
            if self.is_still(path, mode) {
                self.view.foresee(path, SnapshotEntry::Folder { mode: mode | USER_MAY_ALL });
                opened.insert(path);
            }
        }
        let mut undone = Vec::with_capacity(changes.len());
        for change in in_turn(changes) {
            let result = match expected(change, opened.contains(change.path.as_path())) {
                Some(expected) => self.foresee_one(&change.path, &expected, &change.before),
                None => Ok(PutBack::Done),
            };
            undone.push(RestoreOutcome { path: change.path.clone(), result });
        }
        undone
    }

    /// Returns whether a folder is there as it was left.
    fn is_still(&self, path: &Path, mode: u32) -> bool {
        let folder = SnapshotEntry::Folder { mode };
        let is_clear = |above| matches!(self.view.way(above), Ok(PathReachability::Clear));
        path.parent().is_some_and(is_clear)
            && self.view.found(path, &folder).is_ok_and(|found| found == folder)
    }

    fn foresee_one(
        &mut self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<PutBack, SnapshotStoreError> {
        if let Err(early) = self.before_all(path, expected, wanted)? {
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
            return Ok(PutBack::NotEmpty);
        }
        self.view.foresee(path, wanted.clone());
        Ok(PutBack::Done)
    }

    /// Returns the folder that a path is in, or why there is nothing to do or nothing may be done.
    fn before_all<'p>(
        &self,
        path: &'p Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<Result<&'p Path, PutBack>, SnapshotStoreError> {
        for entry in [wanted, expected] {
            if let SnapshotEntry::LeftOut { why } = entry {
                return Ok(Err(PutBack::NotCovered { why: *why }));
            }
        }
        if let SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } = wanted {
            return Ok(Err(PutBack::NotCovered { why: *why }));
        }
        let Some(folder) = path.parent() else {
            return Ok(Err(PutBack::NotCovered { why: WhyNotCovered::Special }));
        };
        if self.view.way(folder)? == PathReachability::Blocked {
            return Ok(Err(PutBack::Conflict { found: self.view.found(folder, expected)? }));
        }
        Ok(self.hindrance(path, expected, wanted)?.map_or(Ok(folder), Err))
    }

    /// Returns why there is nothing to do or nothing may be done with what is there.
    fn hindrance(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<Option<PutBack>, SnapshotStoreError> {
        let found = self.view.found(path, expected)?;
        Ok(if is(&found, wanted) {
            Some(PutBack::Unchanged)
        } else {
            (!is(&found, expected)).then_some(PutBack::Conflict { found })
        })
    }

    /// Makes what should be there beside its place, so that it takes the place in one go.
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
                let own = self.undoing.beside(folder)?;
                if let Err(error) = write(target, &own, *mode, &bytes) {
                    StagedReplacement::Beside(own).discard(target)?;
                    return Err(at(path)(error));
                }
                Ok(StagedReplacement::Beside(own))
            }
            SnapshotEntry::Link { target: to } => {
                let own = self.undoing.beside(folder)?;
                target.directory.create_symlink(to, &own).map_err(at(path))?;
                Ok(StagedReplacement::Beside(own))
            }
            SnapshotEntry::Folder { .. } | SnapshotEntry::Absent
                if matches!(expected, SnapshotEntry::File { .. } | SnapshotEntry::Link { .. }) =>
            {
                Ok(StagedReplacement::Away(self.undoing.beside(folder)?))
            }
            SnapshotEntry::Folder { .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::LeftOut { .. } => Ok(StagedReplacement::InPlace),
        }
    }
}

/// Returns the folders that were left closed to their owner, the outermost first: they are opened as long as the undo
/// goes on, so that what came into them can go.
fn closed_folders(changes: &[PathChange]) -> BTreeMap<&Path, u32> {
    let closed = changes.iter().filter_map(|change| match change.after {
        SnapshotEntry::Folder { mode } if mode & USER_MAY_ALL != USER_MAY_ALL => {
            Some((change.path.as_path(), mode))
        }
        SnapshotEntry::Folder { .. }
        | SnapshotEntry::Absent
        | SnapshotEntry::File { .. }
        | SnapshotEntry::Link { .. }
        | SnapshotEntry::LeftOut { .. } => None,
    });
    closed.collect()
}

/// Returns what should be there before a change is undone; nothing if only the bits of a folder are left to be set.
fn expected(change: &PathChange, is_opened: bool) -> Option<Cow<'_, SnapshotEntry>> {
    match (&change.after, &change.before) {
        (SnapshotEntry::Folder { .. }, SnapshotEntry::Folder { .. }) if is_opened => None,
        (SnapshotEntry::Folder { mode }, _) if is_opened => {
            Some(Cow::Owned(SnapshotEntry::Folder { mode: mode | USER_MAY_ALL }))
        }
        (after, _) => Some(Cow::Borrowed(after)),
    }
}

/// Compares what is there with what should be. A file that was not stored is known by its stamp.
fn is(found: &SnapshotEntry, expected: &SnapshotEntry) -> bool {
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

/// Tells whether only the mode of a file is to change, and of no other name of it.
fn is_only_mode(path: &Path, expected: &SnapshotEntry, wanted: &SnapshotEntry) -> bool {
    match (expected, wanted) {
        (
            SnapshotEntry::File { content: ContentRef::Stored(expected), .. },
            SnapshotEntry::File { content: ContentRef::Stored(wanted), .. },
        ) => expected == wanted && crow_fs::metadata(path).is_ok_and(|file| file.links == 1),
        _ => false,
    }
}

/// Opens the folder that something is put into, or removed from. What should be there needs its folders, too.
fn open_folder(folder: &Path, wanted: &SnapshotEntry) -> Result<Directory, SnapshotStoreError> {
    let opened = match wanted {
        SnapshotEntry::File { .. } | SnapshotEntry::Link { .. } | SnapshotEntry::Folder { .. } => {
            crow_fs::create_directories(folder, NEW_FOLDER_MODE)
        }
        SnapshotEntry::Absent | SnapshotEntry::LeftOut { .. } => Directory::open(folder),
    };
    opened.map_err(at(folder))
}

/// Writes what takes the place of a file, with the owner of that one.
fn write(target: &RestoreTarget<'_>, own: &EntryName, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let before = target.directory.metadata(&target.name).ok().filter(EntryMetadata::is_file);
    let mut file = target.directory.create_file(own, 0o600)?;
    file.write_all(bytes)?;
    let new = EntryMetadata::of_file(&file)?;
    if let Some(before) = before.filter(|file| (file.user, file.group) != (new.user, new.group)) {
        // Only root may give files away; for all others it is theirs, as with any editor that replaces files.
        let given = fchown(&file, Some(before.user), Some(before.group));
        if let Err(error) = given {
            let path = target.path.display();
            tracing::debug!(%path, %error, "the owner of a file does not return");
        }
    }
    file.set_permissions(Permissions::from_mode(mode))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), SnapshotStoreError> {
    crow_fs::set_mode(path, mode).map_err(at(path))
}
