//! The snapshot stores of all projects.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::ids::{SessionId, SnapshotId};

use super::JobWatch;
use crate::{SnapshotLimits, SnapshotStore, SnapshotStoreError};

/// The snapshot stores of all projects, each opened when it is needed first.
#[derive(Debug)]
pub struct SnapshotStores {
    folder: PathBuf,
    limits: SnapshotLimits,
    home: Option<PathBuf>,
    open: Mutex<BTreeMap<PathBuf, Arc<SnapshotStore>>>,
    watches: Mutex<BTreeMap<PathBuf, Arc<JobWatch>>>,
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
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(root) {
            return Ok(Arc::clone(store));
        }
        let store =
            SnapshotStore::open(&self.folder_of(root), root, self.limits, self.home.as_deref())?;
        let outer = root.ancestors().skip(1).map(|above| self.folder_of(above)).collect();
        let store = Arc::new(store.inside(outer));
        open.insert(root.to_path_buf(), Arc::clone(&store));
        Ok(store)
    }

    /// Returns what watches over the jobs in the project in `root`.
    pub(crate) fn watch_of(&self, root: &Path) -> Arc<JobWatch> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(watches.entry(root.to_path_buf()).or_default())
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
