//! A number in a file that all processes share. It is changed in place, so that this works on a full disk, too.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::{SnapshotStoreError, error::at};

/// A number in a file.
#[derive(Debug)]
pub(super) struct Counter {
    path: PathBuf,
}

impl Counter {
    /// Opens the file, which is made with zero in it if need be.
    pub(super) fn open(path: PathBuf) -> Result<Self, SnapshotStoreError> {
        let own = Self::at(path);
        if !own.path.exists() {
            own.add(0)?;
        }
        Ok(own)
    }

    /// Names the file, which is made when the number changes.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the number.
    pub(super) fn read(&self) -> Result<u64, SnapshotStoreError> {
        File::open(&self.path).and_then(|mut file| read(&mut file)).map_err(at(&self.path))
    }

    /// Adds to the number.
    pub(super) fn add(&self, more: u64) -> Result<(), SnapshotStoreError> {
        self.change(|number| Ok((number.saturating_add(more), ())))
    }

    /// Makes it another number.
    pub(super) fn set(&self, number: u64) -> Result<(), SnapshotStoreError> {
        self.change(|_| Ok((number, ())))
    }

    /// Adds one and returns the number. What `work` does, nobody does who counts at the same time.
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
        let changed = open(&self.path).and_then(|mut file| {
            file.lock()?;
            let (number, result) = next(read(&mut file)?)?;
            file.rewind()?;
            // Always as many digits, at once: a reader sees no half of a number.
            file.write_all(format!("{number:020}\n").as_bytes())?;
            Ok(result)
        });
        changed.map_err(at(&self.path))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// A number that was never written whole is zero; a collection makes it right.
fn read(file: &mut File) -> io::Result<u64> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text.trim().parse().unwrap_or(0))
}
