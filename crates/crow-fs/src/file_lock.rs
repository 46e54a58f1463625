//! Locks on files, by which processes know of each other.

use std::{
    fs::{File, TryLockError},
    io,
};

/// A file that is locked until this is dropped, or the process ends.
///
/// It is unlocked, not only closed: a child process that is just being started has the file open as well until its program
/// begins, and would keep the lock until then.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Waits for the lock that nobody else may have.
    pub fn exclusive(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    /// Waits for the lock that others may share.
    pub fn shared(file: File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Takes the lock that nobody else may have. The file comes back if somebody has a lock on it.
    pub fn try_exclusive(file: File) -> io::Result<Result<Self, File>> {
        match file.try_lock() {
            Ok(()) => Ok(Ok(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(Err(file)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns whether somebody has the lock that nobody else may have.
    pub fn is_held_by_other(file: File) -> io::Result<bool> {
        match file.try_lock_shared() {
            Ok(()) => {
                drop(Self(file));
                Ok(false)
            }
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "a lock ends when its file is closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_its_file_is_open_elsewhere() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let held = open();
        // As a process has it that was forked and has not begun its program.
        let inherited = held.try_clone().unwrap();
        let lock = FileLock::exclusive(held).unwrap();
        assert!(FileLock::is_held_by_other(open()).unwrap());
        assert!(FileLock::try_exclusive(open()).unwrap().is_err());
        drop(lock);
        assert!(!FileLock::is_held_by_other(open()).unwrap());
        assert!(FileLock::try_exclusive(open()).unwrap().is_ok());
        drop(inherited);
    }
}
