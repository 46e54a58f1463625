//! Locks on files, which processes use to detect each other.

use std::{
    fs::{File, TryLockError},
    io,
};

/// A locked file; unlocked when this is dropped or the process ends.
///
/// Dropping unlocks the file instead of only closing it: a child process that is just being started also has the file
/// open until its program begins, and would keep the lock until then.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes an exclusive lock; waits for it.
    pub fn exclusive(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    /// Takes a shared lock; waits for it.
    pub fn shared(file: File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Tries to take an exclusive lock. Returns the file as `Err` if another lock is held.
    pub fn try_exclusive(file: File) -> io::Result<Result<Self, File>> {
        match file.try_lock() {
            Ok(()) => Ok(Ok(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(Err(file)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns whether an exclusive lock is held by another.
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

    /// Returns the locked file.
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
        // Like the copy in a forked process that has not begun its program.
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
