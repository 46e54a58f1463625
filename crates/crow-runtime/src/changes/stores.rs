//! The snapshot stores of all projects.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::{
    ids::{SessionId, SnapshotId},
    workspace::Workspace,
};

use super::JobWatch;
use crate::{SnapshotLimits, SnapshotStore, SnapshotStoreError};

/// Number of open stores above which unused ones are closed. Each keeps a few files open.
const MOST_OPEN: usize = 64;

/// The snapshot stores of all projects, each opened on first use.
#[derive(Debug)]
pub struct SnapshotStores {
    folder: PathBuf,
    limits: SnapshotLimits,
    home: Option<PathBuf>,
    /// Key: the roots of a workspace.
    open: Mutex<BTreeMap<Vec<PathBuf>, Arc<SnapshotStore>>>,
    watches: Mutex<BTreeMap<Vec<PathBuf>, Arc<JobWatch>>>,
}

impl SnapshotStores {
    /// Keeps the store of each project in a subfolder of `folder`. A project that equals or contains `home` is not
    /// scanned.
    pub fn new(folder: impl Into<PathBuf>, limits: SnapshotLimits, home: Option<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            limits,
            home,
            open: Mutex::default(),
            watches: Mutex::default(),
        }
    }

    /// Returns the store of the project in `root`. Blocks.
    pub fn open(&self, root: &Path) -> Result<Arc<SnapshotStore>, SnapshotStoreError> {
        self.open_workspace(&Workspace::new(root))
    }

    /// Returns the store of the project in the first root, with scans that include the other roots. Blocks.
    pub fn open_workspace(
        &self,
        workspace: &Workspace,
    ) -> Result<Arc<SnapshotStore>, SnapshotStoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(workspace.roots()) {
            return Ok(Arc::clone(store));
        }
        let (root, further) = (workspace.project(), workspace.further());
        let store =
            SnapshotStore::open(&self.folder_of(root), root, self.limits, self.home.as_deref())?;
        // Stores of enclosing projects exchange activity with this one; stores of the same project share indexes.
        let outer = root.ancestors().skip(1).map(|above| self.folder_of(above)).collect();
        let mut store =
            store.with_outer_stores(outer).with_roots(further, |root| self.folder_of(root))?;
        let is_same = |roots: &[PathBuf]| roots.first().is_some_and(|own| own == root);
        if let Some((_, other)) = open.iter().find(|(roots, _)| is_same(roots)) {
            store = store.with_shared_indexes(other);
        }
        if open.len() >= MOST_OPEN {
            // Unused stores are reopened when needed.
            open.retain(|_, store| Arc::strong_count(store) > 1);
        }
        let store = Arc::new(store);
        open.insert(workspace.roots().to_vec(), Arc::clone(&store));
        Ok(store)
    }

    /// Removes temporary files that killed processes left next to the files they were writing in a workspace. Blocks.
    pub(crate) fn remove_leftovers(&self, workspace: &Workspace) {
        SnapshotStore::remove_leftovers(&self.folder_of(workspace.project()), &self.limits);
    }

    /// Returns the job watch of a workspace.
    pub(crate) fn job_watch(&self, workspace: &Workspace) -> Arc<JobWatch> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(watches.entry(workspace.roots().to_vec()).or_default())
    }

    /// Releases the snapshots of a removed session and collects garbage. Works for a project that no longer exists as
    /// well. Blocks.
    pub fn forget_session(&self, root: &Path, id: &SessionId) -> Result<(), SnapshotStoreError> {
        if !self.folder_of(root).is_dir() {
            return Ok(());
        }
        let store = self.open(root)?;
        store.data().release(id)?;
        match store.data().collect_garbage() {
            // The store is in use: the next collection removes the data.
            Ok(_) | Err(SnapshotStoreError::Busy) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds references to snapshots from a copied session. Changes whose snapshots cannot be referenced cannot be
    /// undone in it.
    pub(crate) fn add_references(&self, root: &Path, id: &SessionId, snapshots: &[SnapshotId]) {
        for snapshot in snapshots {
            let one = std::slice::from_ref(snapshot);
            if let Err(error) =
                self.open(root).and_then(|store| store.data().add_references(id, one))
            {
                tracing::warn!(session = %id, %error, "not all changes of the copied session can be undone");
            }
        }
    }

    fn folder_of(&self, root: &Path) -> PathBuf {
        let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(&hash[..32])
    }
}
