//! The snapshot capability of tools.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::{
    capability::{SnapshotError, Snapshots},
    ids::{FilesId, SessionId, SnapshotId},
    tool::Patch,
    workspace::Workspace,
};
use tokio_util::task::TaskTracker;

use super::{SnapshotStores, change_description::describe_all};
use crate::{SnapshotStore, SnapshotStoreError};

/// Captures the roots of a session for its tools.
#[derive(Debug)]
pub(crate) struct ToolSnapshots {
    pub(crate) stores: Arc<SnapshotStores>,
    pub(crate) workspace: Workspace,
    pub(crate) session: SessionId,
    pub(crate) tasks: TaskTracker,
}

impl ToolSnapshots {
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SnapshotStore, &SessionId) -> Result<T, SnapshotStoreError> + Send + 'static,
    ) -> Result<T, SnapshotError> {
        let (stores, workspace, session) =
            (Arc::clone(&self.stores), self.workspace.clone(), self.session.clone());
        let work = move || work(stores.open_workspace(&workspace)?.as_ref(), &session);
        let done = self.tasks.spawn_blocking(work).await;
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(SnapshotStoreError::Unknown { id })) => Err(SnapshotError::Unknown { id }),
            Ok(Err(error)) => Err(SnapshotError::Store(Box::new(error))),
            Err(error) => Err(SnapshotError::Store(Box::new(error))),
        }
    }
}

#[async_trait]
impl Snapshots for ToolSnapshots {
    async fn track(&self) -> Result<SnapshotId, SnapshotError> {
        self.with_store(|store, session| Ok(store.scan(session)?.snapshot)).await
    }

    async fn files(&self) -> Result<FilesId, SnapshotError> {
        self.with_store(|store, session| {
            Ok(FilesId::new(store.scan(session)?.unignored.to_string()))
        })
        .await
    }

    async fn patch(&self, snapshot: &SnapshotId) -> Result<Patch, SnapshotError> {
        let before = snapshot.clone();
        self.with_store(move |store, session| {
            let after = store.scan(session)?.snapshot;
            Ok(describe_all(store, &store.changes(&before, &after)?))
        })
        .await
    }
}
