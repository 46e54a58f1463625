//! Small private files: read only if other users could not have changed (or read) them, and replaced atomically.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

/// Maximum size of a file, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Access to a file that other users may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privacy {
    /// Others may neither read nor write it.
    Secret,
    /// Others may read but not write it.
    Own,
}

/// A file cannot be used. It is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file (a link, a folder, a device), and is not used", .path.display())]
    NoFile { path: PathBuf },
    #[error("{} is too large for such a file, and is not used", .path.display())]
    TooLarge { path: PathBuf },
    #[error("{} belongs to another user (uid {owner}), and is not used", .path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "other users can {what} {} (its mode is {mode:o}), so it is not used; restrict it: chmod 600 '{}'",
        .path.display(),
        .path.display()
    )]
    Open { path: PathBuf, mode: u32, what: &'static str },
}

impl Privacy {
    /// Returns the forbidden mode bits, and the words for what they permit others.
    fn forbidden(self) -> (u32, &'static str) {
        match self {
            Self::Secret => (0o077, "read or change"),
            Self::Own => (0o022, "change"),
        }
    }
}

/// Reads a file of the user without following links. Returns `None` if it does not exist. Blocks.
pub(crate) fn read(path: &Path, privacy: Privacy) -> Result<Option<String>, PrivateFileError> {
    let path_buf = || path.to_path_buf();
    let unreadable = |source| PrivateFileError::Read { path: path_buf(), source };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = flags.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => {
            return Err(PrivateFileError::NoFile { path: path_buf() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    // Metadata of the open file: the path may already name another one.
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(PrivateFileError::NoFile { path: path_buf() });
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(PrivateFileError::Foreign { path: path_buf(), owner: metadata.uid() });
    }
    let mode = metadata.mode() & 0o7777;
    let (forbidden, what) = privacy.forbidden();
    if mode & forbidden != 0 {
        return Err(PrivateFileError::Open { path: path_buf(), mode, what });
    }
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(PrivateFileError::TooLarge { path: path_buf() });
    }
    Ok(Some(text))
}

/// Replaces a file atomically with one that only the user can read. Creates its folder. Blocks.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), PrivateFileError> {
    let unwritable = |source| PrivateFileError::Write { path: path.to_path_buf(), source };
    let folder = path.parent().unwrap_or(Path::new("/"));
    create_folder(folder).map_err(unwritable)?;
    let mut temporary =
        tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(unwritable)?;
    temporary.write_all(text.as_bytes()).map_err(unwritable)?;
    temporary.as_file().sync_all().map_err(unwritable)?;
    temporary.persist(path).map_err(|error| unwritable(error.error))?;
    // Makes the rename survive a power cut; the content is already synced.
    drop(File::open(folder).and_then(|folder| folder.sync_all()));
    Ok(())
}

/// Removes all access of others to the folder of a file, creating it if needed. Blocks.
pub(crate) fn close_folder(path: &Path) -> Result<(), PrivateFileError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let unwritable = |source| PrivateFileError::Write { path: folder.to_path_buf(), source };
    create_folder(folder).map_err(unwritable)?;
    let metadata = fs::metadata(folder).map_err(unwritable)?;
    if metadata.uid() != geteuid().as_raw() {
        let (path, owner) = (folder.to_path_buf(), metadata.uid());
        return Err(PrivateFileError::Foreign { path, owner });
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(unwritable)?;
    }
    Ok(())
}

/// Creates a folder with mode 0700, and its missing parents likewise.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Locks a file against changes by other processes until the returned handle is dropped. Waits for the lock. The lock
/// file has the extension `lock`. Blocks.
pub fn lock(path: &Path) -> Result<File, PrivateFileError> {
    let (file, path) = lock_file(path)?;
    file.lock().map_err(|source| PrivateFileError::Write { path, source })?;
    Ok(file)
}

/// Locks a file like [`lock`], but returns `None` if another process holds the lock. Blocks for the file only.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, PrivateFileError> {
    let (file, path) = lock_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(PrivateFileError::Write { path, source }),
    }
}

fn lock_file(path: &Path) -> Result<(File, PathBuf), PrivateFileError> {
    let lock = path.with_extension("lock");
    let unwritable = |source| PrivateFileError::Write { path: lock.clone(), source };
    create_folder(lock.parent().unwrap_or(Path::new("/"))).map_err(unwritable)?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock)
        .map_err(unwritable)?;
    Ok((file, lock))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_written_file_is_read_back_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/secrets.json");
        assert_eq!(read(&path, Privacy::Secret).unwrap(), None);
        replace(&path, "one").unwrap();
        replace(&path, "two").unwrap();
        assert_eq!(read(&path, Privacy::Secret).unwrap().as_deref(), Some("two"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing stays beside it"
        );
    }

    #[test]
    fn a_file_that_others_may_have_touched_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "x").unwrap();
        for (mode, privacy, is_refused) in [
            (0o600, Privacy::Secret, false),
            (0o400, Privacy::Secret, false),
            (0o640, Privacy::Secret, true),
            (0o604, Privacy::Secret, true),
            (0o644, Privacy::Own, false),
            (0o664, Privacy::Own, true),
            (0o602, Privacy::Own, true),
        ] {
            set_mode(&path, mode);
            let refused = read(&path, privacy).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), is_refused, "{mode:o} {privacy:?}");
            assert!(refused.is_none_or(|reason| reason.contains("chmod 600")));
        }
    }

    #[test]
    fn links_folders_and_pipes_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        for name in ["link", "folder", "pipe"] {
            let error = read(&at(name), Privacy::Own).unwrap_err();
            assert!(matches!(error, PrivateFileError::NoFile { .. }), "{name}: {error}");
        }
    }
}
