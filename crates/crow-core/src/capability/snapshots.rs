//! Captured states of files.

use std::fmt;

use async_trait::async_trait;

use crate::{
    ids::{FilesId, SnapshotId},
    tool_types::Patch,
};

/// Why files cannot be captured or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The runtime keeps no snapshots.
    #[error("this runtime keeps no snapshots")]
    Unavailable,
    /// There is no such snapshot.
    #[error("there is no snapshot {id}")]
    Unknown {
        /// The snapshot that was asked for.
        id: SnapshotId,
    },
    /// The files cannot be captured, or the snapshot cannot be read.
    #[error("the files cannot be captured: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Captures the workspace.
#[async_trait]
pub trait Snapshots: Send + Sync + fmt::Debug {
    /// Captures the files as they are.
    async fn track(&self) -> Result<SnapshotId, SnapshotError>;

    /// Names the state that the files are in, as far as they are captured at all. Ignored files do not count.
    async fn files(&self) -> Result<FilesId, SnapshotError>;

    /// Returns what changed since `snapshot`.
    async fn patch(&self, snapshot: &SnapshotId) -> Result<Patch, SnapshotError>;
}
