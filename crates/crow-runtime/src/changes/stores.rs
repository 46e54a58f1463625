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

/// So many stay open, each with a few files of its own, although nobody works with them.
const MOST_OPEN: usize = 64;

/// The snapshot stores of all projects, each opened when it is needed first.
#[derive(Debug)]
pub struct SnapshotStores {
    folder: PathBuf,
    limits: SnapshotLimits,
    home: Option<PathBuf>,
    /// By the roots that are worked in together.
    open: Mutex<BTreeMap<Vec<PathBuf>, Arc<SnapshotStore>>>,
    watches: Mutex<BTreeMap<Vec<PathBuf>, Arc<JobWatch>>>,
}

impl SnapshotStores {
    /// Keeps a store for each project in `folder`. A project that is `home` itself, or holds it, is not scanned.
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
    pub fn of(&self, root: &Path) -> Result<Arc<SnapshotStore>, SnapshotStoreError> {
        self.of_workspace(&Workspace::new(root))
    }

    /// Returns the store of the project in the first root, whose scans hold the other roots as well. Blocks.
    pub fn of_workspace(
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
        let outer = root.ancestors().skip(1).map(|above| self.folder_of(above)).collect();
        let mut store = store.inside(outer).with_roots(further, |root| self.folder_of(root))?;
        let is_same = |roots: &[PathBuf]| roots.first().is_some_and(|own| own == root);
        if let Some((_, other)) = open.iter().find(|(roots, _)| is_same(roots)) {
            store = store.sharing(other);
        }
        if open.len() >= MOST_OPEN {
            // What nobody works with now is opened again when it is needed.
            open.retain(|_, store| Arc::strong_count(store) > 1);
        }
        let store = Arc::new(store);
        open.insert(workspace.roots().to_vec(), Arc::clone(&store));
        Ok(store)
    }

    /// Removes from the folders of a workspace what processes that were killed left beside files that they were writing.
    /// Blocks.
    pub(crate) fn remove_left(&self, workspace: &Workspace) {
        SnapshotStore::remove_left(&self.folder_of(workspace.project()), &self.limits);
    }

    /// Returns what watches over the jobs in a workspace.
    pub(crate) fn watch_of(&self, workspace: &Workspace) -> Arc<JobWatch> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(watches.entry(workspace.roots().to_vec()).or_default())
    }

    /// Forgets what a session that is removed refers to, and removes what nobody else does. A project that is gone has
    /// its store all the same. Blocks.
    pub fn forget_session(&self, root: &Path, id: &SessionId) -> Result<(), SnapshotStoreError> {
        if !self.folder_of(root).is_dir() {
            return Ok(());
        }
        let store = self.of(root)?;
        store.release(id)?;
        match store.collect_garbage() {
            // Somebody works with it: the next collection gets it.
            Ok(_) | Err(SnapshotStoreError::Busy) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Refers to snapshots from a session that goes on from another one. What cannot be referred to cannot be undone in
    /// it; all else can.
    pub(crate) fn keep(&self, root: &Path, id: &SessionId, snapshots: &[SnapshotId]) {
        for snapshot in snapshots {
            let one = std::slice::from_ref(snapshot);
            if let Err(error) = self.of(root).and_then(|store| store.keep(id, one)) {
                tracing::warn!(session = %id, %error, "not all changes of the copied session can be undone");
            }
        }
    }

    fn folder_of(&self, root: &Path) -> PathBuf {
        let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(hash.get(..32).unwrap_or_default())
    }
}
