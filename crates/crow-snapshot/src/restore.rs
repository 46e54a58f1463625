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
    Change, Content, Entry, SnapshotStoreError, WhyNotCovered,
    error::at,
    objects::Objects,
    place::{Placed, Ready, Target},
    undoing::Undoing,
    view::{View, Way},
};

/// What became of a path.
#[derive(Debug)]
pub enum PutBack {
    /// It is as wanted now.
    Done,
    /// It was as wanted already.
    Unchanged,
    /// It is not what it should be: somebody changed it since. It was left alone.
    Conflict {
        /// What it is.
        found: Entry,
    },
    /// A folder should go, but something is in it. It was left alone.
    NotEmpty,
    /// What should be there was never stored.
    NotCovered {
        /// Why.
        why: WhyNotCovered,
    },
}

/// What became of a path when changes were undone.
#[derive(Debug)]
pub struct Undone {
    /// The path.
    pub path: PathBuf,
    /// What became of it.
    pub result: Result<PutBack, SnapshotStoreError>,
}

/// Puts paths back.
#[derive(Debug)]
pub(super) struct Restorer<'a> {
    pub(super) objects: &'a Objects,
    pub(super) view: View<'a>,
    pub(super) undoing: Undoing,
}

const USER_MAY_ALL: u32 = 0o700;
/// The mode of folders that are made on the way, of which the umask takes its part.
const NEW_FOLDER_MODE: u32 = 0o777;

/// Sorts changes as they can be undone: what came goes, the innermost first; then what was returns, the outermost first.
fn in_turn(changes: &[Change]) -> Vec<&Change> {
    let mut ordered: Vec<&Change> = changes.iter().collect();
    ordered.sort_by(|a, b| a.path.cmp(&b.path));
    let (go, return_): (Vec<&Change>, Vec<&Change>) =
        ordered.into_iter().partition(|change| change.before == Entry::Absent);
    go.into_iter().rev().chain(return_).collect()
}

impl Restorer<'_> {
    /// Undoes changes.
    pub(super) fn undo(&self, changes: &[Change]) -> Vec<Undone> {
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
                if let Entry::Folder { mode } = &change.before {
                    closed.push((path, *mode));
                }
            }
            undone.push(Undone { path: change.path.clone(), result });
        }
        closed.extend(opened);
        // Only when all is in them may folders become closed to writing again.
        for (path, mode) in closed.into_iter().rev() {
            if let Err(error) = set_mode(path, mode) {
                undone.retain(|done| done.path != path);
                undone.push(Undone { path: path.to_path_buf(), result: Err(error) });
            }
        }
        undone
    }

    /// Puts one path back.
    pub(super) fn put_back(
        &self,
        path: &Path,
        expected: &Entry,
        wanted: &Entry,
    ) -> Result<PutBack, SnapshotStoreError> {
        let put = self.put_open(path, expected, wanted)?;
        if let (PutBack::Done, Entry::Folder { mode }) = (&put, wanted) {
            set_mode(path, *mode)?;
        }
        Ok(put)
    }

    /// Leaves a folder open for what comes into it.
    fn put_open(
        &self,
        path: &Path,
        expected: &Entry,
        wanted: &Entry,
    ) -> Result<PutBack, SnapshotStoreError> {
        let folder = match self.before_all(path, expected, wanted)? {
            Ok(folder) => folder,
            Err(early) => return Ok(early),
        };
        let content = match wanted {
            Entry::File { content: Content::Stored(hash), .. }
                if !is_only_mode(path, expected, wanted) =>
            {
                Some(self.objects.read(hash)?)
            }
            Entry::File { .. }
            | Entry::Absent
            | Entry::Link { .. }
            | Entry::Folder { .. }
            | Entry::LeftOut { .. } => None,
        };
        let target = Target::new(path, open_folder(folder, wanted)?)?;
        let ready = self.prepare(&target, folder, expected, wanted, content)?;
        let seen = target.known();
        // As late as can be: what is written in between is not lost.
        if let Some(late) = self.hindrance(path, expected, wanted)? {
            ready.discard(&target)?;
            return Ok(late);
        }
        let is_in_place = matches!(ready, Ready::InPlace);
        match ready.put(&target, expected, wanted, seen)? {
            Placed::Done => {}
            Placed::NotEmpty => return Ok(PutBack::NotEmpty),
            Placed::Changed => {
                return Ok(PutBack::Conflict { found: self.view.found(path, expected)? });
            }
        }
        match wanted {
            Entry::File { mode, .. } if is_in_place => {
                target.directory.set_mode(&target.name, *mode).map_err(at(path))?;
            }
            Entry::Folder { mode } => {
                let (directory, name) = (&target.directory, &target.name);
                if !stays_folder(expected, wanted) {
                    directory.create_directory(name, NEW_FOLDER_MODE).map_err(at(path))?;
                }
                directory.set_mode(name, mode | USER_MAY_ALL).map_err(at(path))?;
            }
            Entry::File { .. } | Entry::Absent | Entry::Link { .. } | Entry::LeftOut { .. } => {}
        }
        Ok(PutBack::Done)
    }

    /// Tells what undoing changes would come to.
    pub(super) fn foresee(&mut self, changes: &[Change]) -> Vec<Undone> {
        let mut opened = BTreeSet::new();
        for (path, mode) in closed_folders(changes) {
            if self.is_still(path, mode) {
                self.view.foresee(path, Entry::Folder { mode: mode | USER_MAY_ALL });
                opened.insert(path);
            }
        }
        let mut undone = Vec::with_capacity(changes.len());
        for change in in_turn(changes) {
            let result = match expected(change, opened.contains(change.path.as_path())) {
                Some(expected) => self.foresee_one(&change.path, &expected, &change.before),
                None => Ok(PutBack::Done),
            };
            undone.push(Undone { path: change.path.clone(), result });
        }
        undone
    }

    /// Returns whether a folder is there as it was left.
    fn is_still(&self, path: &Path, mode: u32) -> bool {
        let folder = Entry::Folder { mode };
        let is_clear = |above| matches!(self.view.way(above), Ok(Way::Clear));
        path.parent().is_some_and(is_clear)
            && self.view.found(path, &folder).is_ok_and(|found| found == folder)
    }

    fn foresee_one(
        &mut self,
        path: &Path,
        expected: &Entry,
        wanted: &Entry,
    ) -> Result<PutBack, SnapshotStoreError> {
        if let Err(early) = self.before_all(path, expected, wanted)? {
            return Ok(early);
        }
        if !is_only_mode(path, expected, wanted) {
            if let Entry::File { content: Content::Stored(hash), .. } = wanted {
                self.objects.read(hash)?;
            }
            if !stays_folder(expected, wanted) {
                self.view.may_change(path)?;
            }
        }
        if matches!(expected, Entry::Folder { .. })
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
        expected: &Entry,
        wanted: &Entry,
    ) -> Result<Result<&'p Path, PutBack>, SnapshotStoreError> {
        for entry in [wanted, expected] {
            if let Entry::LeftOut { why } = entry {
                return Ok(Err(PutBack::NotCovered { why: *why }));
            }
        }
        if let Entry::File { content: Content::NotStored { why, .. }, .. } = wanted {
            return Ok(Err(PutBack::NotCovered { why: *why }));
        }
        let Some(folder) = path.parent() else {
            return Ok(Err(PutBack::NotCovered { why: WhyNotCovered::Special }));
        };
        if self.view.way(folder)? == Way::Blocked {
            return Ok(Err(PutBack::Conflict { found: self.view.found(folder, expected)? }));
        }
        Ok(self.hindrance(path, expected, wanted)?.map_or(Ok(folder), Err))
    }

    /// Returns why there is nothing to do or nothing may be done with what is there.
    fn hindrance(
        &self,
        path: &Path,
        expected: &Entry,
        wanted: &Entry,
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
        target: &Target<'_>,
        folder: &Path,
        expected: &Entry,
        wanted: &Entry,
        content: Option<Vec<u8>>,
    ) -> Result<Ready, SnapshotStoreError> {
        let path = target.path;
        match wanted {
            Entry::File { mode, .. } => {
                let Some(bytes) = content else { return Ok(Ready::InPlace) };
                let own = self.undoing.beside(folder)?;
                if let Err(error) = write(target, &own, *mode, &bytes) {
                    Ready::Beside(own).discard(target)?;
                    return Err(at(path)(error));
                }
                Ok(Ready::Beside(own))
            }
            Entry::Link { target: to } => {
                let own = self.undoing.beside(folder)?;
                target.directory.create_symlink(to, &own).map_err(at(path))?;
                Ok(Ready::Beside(own))
            }
            Entry::Folder { .. } | Entry::Absent
                if matches!(expected, Entry::File { .. } | Entry::Link { .. }) =>
            {
                Ok(Ready::Away(self.undoing.beside(folder)?))
            }
            Entry::Folder { .. } | Entry::Absent | Entry::LeftOut { .. } => Ok(Ready::InPlace),
        }
    }
}

/// Returns the folders that were left closed to their owner, the outermost first: they are opened as long as the undo
/// goes on, so that what came into them can go.
fn closed_folders(changes: &[Change]) -> BTreeMap<&Path, u32> {
    let closed = changes.iter().filter_map(|change| match change.after {
        Entry::Folder { mode } if mode & USER_MAY_ALL != USER_MAY_ALL => {
            Some((change.path.as_path(), mode))
        }
        Entry::Folder { .. }
        | Entry::Absent
        | Entry::File { .. }
        | Entry::Link { .. }
        | Entry::LeftOut { .. } => None,
    });
    closed.collect()
}

/// Returns what should be there before a change is undone; nothing if only the bits of a folder are left to be set.
fn expected(change: &Change, is_opened: bool) -> Option<Cow<'_, Entry>> {
    match (&change.after, &change.before) {
        (Entry::Folder { .. }, Entry::Folder { .. }) if is_opened => None,
        (Entry::Folder { mode }, _) if is_opened => {
            Some(Cow::Owned(Entry::Folder { mode: mode | USER_MAY_ALL }))
        }
        (after, _) => Some(Cow::Borrowed(after)),
    }
}

/// Compares what is there with what should be. A file that was not stored is known by its stamp.
fn is(found: &Entry, expected: &Entry) -> bool {
    match (found, expected) {
        (
            Entry::File { content: Content::NotStored { stamp, .. }, .. },
            Entry::File { content: Content::NotStored { stamp: expected, .. }, .. },
        ) => stamp == expected,
        _ => found == expected,
    }
}

fn stays_folder(expected: &Entry, wanted: &Entry) -> bool {
    matches!((expected, wanted), (Entry::Folder { .. }, Entry::Folder { .. }))
}

/// Tells whether only the mode of a file is to change, and of no other name of it.
fn is_only_mode(path: &Path, expected: &Entry, wanted: &Entry) -> bool {
    match (expected, wanted) {
        (
            Entry::File { content: Content::Stored(expected), .. },
            Entry::File { content: Content::Stored(wanted), .. },
        ) => expected == wanted && crow_fs::metadata(path).is_ok_and(|file| file.links == 1),
        _ => false,
    }
}

/// Opens the folder that something is put into, or removed from. What should be there needs its folders, too.
fn open_folder(folder: &Path, wanted: &Entry) -> Result<Directory, SnapshotStoreError> {
    let opened = match wanted {
        Entry::File { .. } | Entry::Link { .. } | Entry::Folder { .. } => {
            crow_fs::create_directories(folder, NEW_FOLDER_MODE)
        }
        Entry::Absent | Entry::LeftOut { .. } => Directory::open(folder),
    };
    opened.map_err(at(folder))
}

/// Writes what takes the place of a file, with the owner of that one.
fn write(target: &Target<'_>, own: &EntryName, mode: u32, bytes: &[u8]) -> io::Result<()> {
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
