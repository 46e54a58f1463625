//! The moment in which a path becomes what it should be. Whoever saves a file right then does not lose it.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::{Entry, SnapshotStoreError, error::at, kept::put_aside};

/// What waits to take its place.
#[derive(Debug)]
pub(super) enum Ready {
    /// Under another name in the same folder.
    Beside(PathBuf),
    /// Nothing but a free name, for what has to go.
    Away(PathBuf),
    /// Nothing needs to be made first.
    InPlace,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is in its place.
    Done,
    /// A folder should go, but something is in it.
    NotEmpty,
    /// What was there is not what was looked at: it is still there.
    Changed,
}

/// By what a file is known again under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    /// Returns the identity of what is at a path, if anything.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        Some(Self { inode: found.ino(), size: found.size(), modified })
    }
}

impl Ready {
    pub(super) fn discard(self) -> Result<(), SnapshotStoreError> {
        match self {
            Self::Beside(own) => remove(&own),
            Self::Away(_) | Self::InPlace => Ok(()),
        }
    }

    /// Puts it into its place, where `expected` was looked at just now and `seen` right before that.
    pub(super) fn put(
        self,
        path: &Path,
        expected: &Entry,
        wanted: &Entry,
        seen: Option<Identity>,
    ) -> Result<Placed, SnapshotStoreError> {
        let leaves =
            matches!(expected, Entry::Folder { .. }) && !matches!(wanted, Entry::Folder { .. });
        if leaves {
            match fs::remove_dir(path) {
                Ok(()) => {}
                Err(error) => {
                    self.discard()?;
                    let is_full = error.kind() == io::ErrorKind::DirectoryNotEmpty;
                    return if is_full { Ok(Placed::NotEmpty) } else { Err(at(path)(error)) };
                }
            }
        }
        match self {
            Self::Beside(own) if leaves || *expected == Entry::Absent => enter(&own, path),
            Self::Beside(own) => exchange(&own, path, seen),
            Self::Away(own) => leave(path, &own, seen),
            Self::InPlace => Ok(Placed::Done),
        }
    }
}

/// Takes a place where nothing is.
fn enter(own: &Path, path: &Path) -> Result<Placed, SnapshotStoreError> {
    match renameat_with(CWD, own, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Placed::Done),
        Err(Errno::EXIST) => {
            remove(own)?;
            Ok(Placed::Changed)
        }
        Err(Errno::INVAL | Errno::NOSYS) => rename(own, path),
        Err(error) => {
            remove(own)?;
            Err(at(path)(error.into()))
        }
    }
}

/// Takes the place of something, and gives it back if it is not what was seen there.
fn exchange(own: &Path, path: &Path, seen: Option<Identity>) -> Result<Placed, SnapshotStoreError> {
    match renameat_with(CWD, own, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // Not every file system can.
        Err(Errno::INVAL | Errno::NOSYS) => return rename(own, path),
        Err(error) => {
            remove(own)?;
            let is_gone = error == Errno::NOENT;
            return if is_gone { Ok(Placed::Changed) } else { Err(at(path)(error.into())) };
        }
    }
    if Identity::of(own) == seen {
        remove(own)?;
        return Ok(Placed::Done);
    }
    renameat_with(CWD, own, CWD, path, RenameFlags::EXCHANGE)
        .map_err(|error| at(path)(error.into()))?;
    remove(own)?;
    Ok(Placed::Changed)
}

/// Removes something, and leaves it if it is not what was seen.
fn leave(path: &Path, own: &Path, seen: Option<Identity>) -> Result<Placed, SnapshotStoreError> {
    match fs::rename(path, own) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Placed::Changed),
        Err(error) => return Err(at(path)(error)),
    }
    if Identity::of(own) == seen {
        remove(own)?;
        return Ok(Placed::Done);
    }
    match renameat_with(CWD, own, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Placed::Changed),
        Err(Errno::INVAL | Errno::NOSYS) => rename(own, path).map(|_| Placed::Changed),
        // Somebody was quicker once more: both are kept.
        Err(_) => put_aside(own, path).map(|()| Placed::Changed).map_err(at(own)),
    }
}

fn rename(own: &Path, path: &Path) -> Result<Placed, SnapshotStoreError> {
    if let Err(error) = fs::rename(own, path) {
        remove(own)?;
        return Err(at(path)(error));
    }
    Ok(Placed::Done)
}

fn remove(own: &Path) -> Result<(), SnapshotStoreError> {
    match fs::remove_file(own) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(own)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Entry = Entry::Link { target: std::ffi::OsString::new() };

    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (own, path) = (folder.path().join("own"), folder.path().join("path"));
        (folder, own, path)
    }

    #[test]
    fn what_was_saved_after_the_last_look_stays() {
        let (_folder, own, path) = place();
        fs::write(&path, "old").unwrap();
        let seen = Identity::of(&path);
        fs::write(path.with_extension("new"), "saved").unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        fs::write(&own, "ours").unwrap();
        let placed = Ready::Beside(own.clone()).put(&path, &FILE, &FILE, seen).unwrap();
        assert_eq!(placed, Placed::Changed);
        let placed = Ready::Away(own.clone()).put(&path, &FILE, &Entry::Absent, seen).unwrap();
        assert_eq!(placed, Placed::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn what_came_where_nothing_was_stays() {
        let (_folder, own, path) = place();
        fs::write(&own, "ours").unwrap();
        fs::write(&path, "saved").unwrap();
        let placed = Ready::Beside(own.clone()).put(&path, &Entry::Absent, &FILE, None).unwrap();
        assert_eq!(placed, Placed::Changed);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("saved", false));
    }

    #[test]
    fn what_was_looked_at_is_replaced_and_removed() {
        let (_folder, own, path) = place();
        fs::write(&path, "old").unwrap();
        fs::write(&own, "ours").unwrap();
        let seen = Identity::of(&path);
        let placed = Ready::Beside(own.clone()).put(&path, &FILE, &FILE, seen).unwrap();
        assert_eq!(placed, Placed::Done);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("ours", false));
        let seen = Identity::of(&path);
        let placed = Ready::Away(own.clone()).put(&path, &FILE, &Entry::Absent, seen).unwrap();
        assert_eq!((placed, path.exists(), own.exists()), (Placed::Done, false, false));
    }
}
