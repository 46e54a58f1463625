//! Errors of the snapshot store.

use std::{io, path::PathBuf};

use crow_core::ids::{SessionId, SnapshotId};

use super::ObjectHash;

/// An error of the snapshot store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotStoreError {
    /// A folder that is not a project is not scanned.
    #[error("{} is {what}: it is not scanned; work in a folder of the project's own", .path.display())]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The reason, as a noun phrase.
        what: &'static str,
    },
    /// The root folder alone holds more than a scan covers.
    #[error("{} holds more than {limit} entries: it is not scanned", .path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// The most that a scan covers.
        limit: usize,
    },
    /// The store has reached its size limit.
    #[error(
        "the snapshot store is full at {limit} bytes; remove sessions that are no longer needed"
    )]
    Full {
        /// The most that it may hold.
        limit: u64,
    },
    /// The disk is full.
    #[error("cannot write {}: the disk is full", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path leads through a symbolic link, so it names another place.
    #[error(
        "{} leads through a link that appeared while it was used, or that leads in a circle; nothing was done there",
        .path.display()
    )]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// An id that is not one of a snapshot of this store.
    #[error("{id} is not a snapshot of this store")]
    Unknown {
        /// The id as given.
        id: SnapshotId,
    },
    /// Only two snapshots of one kind can be compared.
    #[error(
        "{before} and {after} cannot be compared: one is of the whole project, one of single paths"
    )]
    Mismatched {
        /// The first snapshot.
        before: SnapshotId,
        /// The second snapshot.
        after: SnapshotId,
    },
    /// An object is missing.
    #[error("the snapshot store lost {hash}")]
    Missing {
        /// The object.
        hash: ObjectHash,
    },
    /// The content of an object does not match its hash.
    #[error("{hash} in the snapshot store is damaged")]
    Damaged {
        /// The object.
        hash: ObjectHash,
    },
    /// An entry whose content was never stored.
    #[error("the content was not stored")]
    NotStored,
    /// A session id that cannot be the name of a file.
    #[error("\"{id}\" cannot be a session id: use letters, digits, dash, dot and underscore")]
    BadSession {
        /// The id.
        id: SessionId,
    },
    /// The store is in use by another process; work that needs exclusive access can be done later.
    #[error("the snapshot store is in use")]
    Busy,
    /// The store was written by a newer program.
    #[error(
        "{} was written in format {version}, newer than format {known} that this version of crow knows: use the newer one, or remove that folder and lose its snapshots",
        .path.display()
    )]
    Newer {
        /// The folder of the store.
        path: PathBuf,
        /// Its format version.
        version: String,
        /// The newest format version that this program can use.
        known: u32,
    },
    /// A file of the store or of the project cannot be used.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Converts an I/O error at a path into the error for its kind: full disk, link or other.
pub(super) fn io_error_at(
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> SnapshotStoreError {
    let path = path.into();
    move |source| {
        if is_disk_full(&source) {
            SnapshotStoreError::DiskFull { path, source }
        } else if crow_fs::is_link_error(&source) {
            SnapshotStoreError::Link { path }
        } else {
            SnapshotStoreError::Io { path, source }
        }
    }
}

pub(super) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
