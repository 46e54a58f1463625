//! Locks that give each file one writer.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Number of entries above which the unused ones are dropped.
const KEPT: usize = 64;

/// Locks by resolved path, for the whole process: all agents in it share the files, whatever tools they have.
static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until no other call changes the file at this resolved path.
pub(crate) async fn lock(path: &Path) -> OwnedMutexGuard<()> {
    entry(path).lock_owned().await
}

fn entry(path: &Path) -> Arc<AsyncMutex<()>> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if locks.len() > KEPT {
        locks.retain(|_, lock| lock.strong_count() > 0);
    }
    if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
        return lock;
    }
    let lock = Arc::new(AsyncMutex::new(()));
    locks.insert(path.to_owned(), Arc::downgrade(&lock));
    lock
}
