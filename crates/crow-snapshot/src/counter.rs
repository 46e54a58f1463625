//! A number in a file shared by all processes. It is changed in place, so that this works on a full disk, too.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{SnapshotStoreError, error::io_error_at};

/// The fixed number of digits, written in one call: a reader never sees half of a number.
const DIGITS: usize = 20;

/// Opens a shared file, and creates it if missing. Falls back to read-only where writing is not permitted.
pub(super) fn open_common(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).or_else(|error| {
        let is_closed = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        );
        if is_closed { File::open(path).map_err(|_| error) } else { Err(error) }
    })
}

/// A number in a shared file, locked while it changes.
#[derive(Debug)]
pub(super) struct Counter {
    path: PathBuf,
    file: File,
    /// Excludes other threads that use the same file: its lock excludes only other processes.
    changing: Mutex<()>,
}

impl Counter {
    /// Opens the file, and creates it if missing.
    pub(super) fn open(path: PathBuf) -> Result<Self, SnapshotStoreError> {
        let file = open_common(&path).map_err(io_error_at(&path))?;
        Ok(Self { path, file, changing: Mutex::default() })
    }

    /// Returns the number.
    pub(super) fn read(&self) -> Result<u64, SnapshotStoreError> {
        self.value().map_err(io_error_at(&self.path))
    }

    /// Adds to the number.
    pub(super) fn add(&self, more: u64) -> Result<(), SnapshotStoreError> {
        if more == 0 { Ok(()) } else { self.change(|number| Ok((number.saturating_add(more), ()))) }
    }

    /// Sets the number.
    pub(super) fn set(&self, number: u64) -> Result<(), SnapshotStoreError> {
        self.change(|_| Ok((number, ())))
    }

    /// Adds one and returns the number. Runs `work` while the counter is locked.
    pub(super) fn next<T>(
        &self,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<(u64, T), SnapshotStoreError> {
        self.change(|number| {
            let next = number.saturating_add(1);
            Ok((next, (next, work()?)))
        })
    }

    fn change<T>(
        &self,
        next: impl FnOnce(u64) -> io::Result<(u64, T)>,
    ) -> Result<T, SnapshotStoreError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.lock().map_err(io_error_at(&self.path))?;
        let changed = self.value().and_then(next).and_then(|(number, result)| {
            self.file.write_all_at(format!("{number:0DIGITS$}\n").as_bytes(), 0)?;
            Ok(result)
        });
        self.file.unlock().map_err(io_error_at(&self.path))?;
        changed.map_err(io_error_at(&self.path))
    }

    /// Reads the number. One that was never written completely is zero; a garbage collection corrects it.
    fn value(&self) -> io::Result<u64> {
        let mut digits = [0; DIGITS];
        match self.file.read_exact_at(&mut digits, 0) {
            Ok(()) => {
                Ok(str::from_utf8(&digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(error),
        }
    }
}
