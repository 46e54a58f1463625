//! Limits of snapshots, and folders that are not scanned.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{SnapshotStoreError, error::io_error_at};

const MIB: u64 = 1024 * 1024;

/// Limits of snapshots. Entries beyond them are reported, not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Size in bytes of the largest file that is stored.
    pub file_bytes: u64,
    /// Size in bytes of the largest ignored file that a scan stores.
    pub ignored_file_bytes: u64,
    /// The most files in an ignored folder that a scan covers.
    pub ignored_folder_files: usize,
    /// The most bytes that one scan stores.
    pub new_bytes: u64,
    /// The most files and folders of a scan.
    pub entries: usize,
    /// The most bytes that the store may hold.
    pub store_bytes: u64,
    /// The number of bytes that stay free on the disk.
    pub free_bytes: u64,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self {
            file_bytes: 8 * MIB,
            ignored_file_bytes: MIB,
            ignored_folder_files: 1000,
            new_bytes: 512 * MIB,
            entries: 200_000,
            store_bytes: 2048 * MIB,
            free_bytes: 1024 * MIB,
        }
    }
}

/// Refuses folders that hold more than one project: a home directory, folders above it, and roots of file systems.
pub(super) fn refuse(root: &Path, home: Option<&PathBuf>) -> Result<(), SnapshotStoreError> {
    let refused = |what| Err(SnapshotStoreError::Refused { path: root.to_path_buf(), what });
    if let Some(home) = home {
        if home == root {
            return refused("a home directory");
        }
        if home.starts_with(root) {
            return refused("above a home directory");
        }
    }
    let Some(parent) = root.parent() else {
        return refused("the root of the file system");
    };
    match (device(root)?, device(parent)?) {
        (Some(own), Some(above)) if own != above => refused("the root of a mounted file system"),
        // A missing folder is no mounted file system.
        _ => Ok(()),
    }
}

fn device(path: &Path) -> Result<Option<u64>, SnapshotStoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.dev())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error_at(path)(error)),
    }
}

/// Returns how many bytes may still be written to the disk of `folder`.
pub(super) fn free_space(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
