//! Snapshots: captured states of files.

use std::fmt;

use async_trait::async_trait;

use crate::{
    ids::{FilesId, SnapshotId},
    tool_types::Patch,
};

/// Error of capturing or comparing files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The runtime does not support snapshots.
    #[error("this runtime keeps no snapshots")]
    Unavailable,
    /// There is no such snapshot.
    #[error("there is no snapshot {id}")]
    Unknown {
        /// The requested snapshot.
        id: SnapshotId,
    },
    /// The files cannot be captured, or the snapshot cannot be read.
    #[error("the files cannot be captured: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Captures the files of the workspace.
#[async_trait]
pub trait Snapshots: Send + Sync + fmt::Debug {
    /// Captures the current files.
    async fn track(&self) -> Result<SnapshotId, SnapshotError>;

    /// Returns the id of the current state of the captured files. Ignored files do not count.
    async fn files(&self) -> Result<FilesId, SnapshotError>;

    /// Returns the changes since `snapshot`.
    async fn patch(&self, snapshot: &SnapshotId) -> Result<Patch, SnapshotError>;
}
