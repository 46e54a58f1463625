//! Replacing the content of a file in one go: whoever reads it sees the old content or the new one.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::Path,
};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::{Current, LoadError};

/// Why a file was not stored. It then holds what it held before, except for `Damaged`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("was changed by something else at the same moment")]
    Changed,
    #[error("is write-protected")]
    Protected,
    #[error("could be written only in part and not be restored: {0}")]
    Damaged(#[source] io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is worth telling about a stored file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Hard links to the old file, which keep the old content.
    pub(crate) other_links: u64,
}

/// Puts `content` in the place of what the file holds, if it still holds that.
pub(crate) fn store(current: &Current, content: &[u8]) -> Result<Stored, StoreError> {
    if current.exists() { replace(current, content) } else { create(current, content) }
}

fn create(current: &Current, content: &[u8]) -> Result<Stored, StoreError> {
    let folder = folder_of(current.path())?;
    fs::create_dir_all(folder)?;
    let file = temporary(folder, content)?;
    match file.persist_noclobber(current.path()) {
        Ok(_) => Ok(Stored::default()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::Changed)
        }
        Err(error) => Err(error.error.into()),
    }
}

fn replace(current: &Current, content: &[u8]) -> Result<Stored, StoreError> {
    let path = current.path();
    let before = fs::symlink_metadata(path)?;
    if before.permissions().readonly() {
        return Err(StoreError::Protected);
    }
    // A rename asks nobody whether the file itself may be written.
    open_for_writing(path)?;
    match prepare(path, &before, content) {
        Ok(file) => {
            still(current)?;
            match file.persist(path) {
                Ok(_) => Ok(Stored { other_links: before.nlink().saturating_sub(1) }),
                Err(error) if is_pinned(&error.error) => overwrite(current, content),
                Err(error) => Err(error.error.into()),
            }
        }
        Err(error) if is_pinned(&error) => overwrite(current, content),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the file can be written but not replaced: its folder is closed to us, it has an owner that we
/// cannot give it, or it is a mount point.
fn is_pinned(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy)
}

/// Writes the new content beside the old file, with its owner and mode.
fn prepare(path: &Path, before: &Metadata, content: &[u8]) -> io::Result<NamedTempFile> {
    let file = temporary(folder_of(path)?, content)?;
    let after = file.as_file().metadata()?;
    if (after.uid(), after.gid()) != (before.uid(), before.gid()) {
        fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
    }
    file.as_file().set_permissions(before.permissions())?;
    Ok(file)
}

/// The mode is that of any new file: what the umask leaves of it.
fn temporary(folder: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".crow-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    Ok(file)
}

fn overwrite(current: &Current, content: &[u8]) -> Result<Stored, StoreError> {
    still(current)?;
    let file = open_for_writing(current.path())?;
    rewrite(&file, content).map_err(|error| {
        // The old content is shorter or was there before: it nearly always fits again.
        match rewrite(&file, current.bytes()) {
            Ok(()) => StoreError::Io(error),
            Err(_) => StoreError::Damaged(error),
        }
    })?;
    Ok(Stored::default())
}

fn rewrite(file: &File, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)
}

fn open_for_writing(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Fails if the file no longer holds what it held when it was loaded.
fn still(current: &Current) -> Result<(), StoreError> {
    match Current::load(current.path()) {
        Ok(now) if now.hash() == current.hash() => Ok(()),
        Err(LoadError::Io(error)) => Err(error.into()),
        Ok(_)
        | Err(
            LoadError::Missing | LoadError::Folder | LoadError::Special(_) | LoadError::TooLarge,
        ) => Err(StoreError::Changed),
    }
}

fn folder_of(path: &Path) -> io::Result<&Path> {
    path.parent().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_appeared_or_changed_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let absent = Current::load(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(store(&absent, b"ours"), Err(StoreError::Changed)));
        let present = Current::load(&path).unwrap();
        fs::write(&path, "theirs again").unwrap();
        assert!(matches!(store(&present, b"ours"), Err(StoreError::Changed)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs again");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_vanished_meanwhile_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "x").unwrap();
        let present = Current::load(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(store(&present, b"y"), Err(StoreError::Io(_))));
        assert!(!path.exists());
    }

    #[test]
    fn a_pinned_file_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "a longer text").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let current = Current::load(&path).unwrap();
        overwrite(&current, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }
}
