//! The stored data of a project: objects, references of sessions, and the counters and locks that processes share.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crow_core::ids::{SessionId, SnapshotId};
use crow_fs::FileLock;

use super::{
    ObjectHash, SnapshotEntry, SnapshotLimits, SnapshotStoreError,
    counter::{Counter, open_common},
    error::io_error_at,
    index::ScanIndex,
    job_marks,
    node::write_paths,
    objects::{Objects, private_folder},
    reachable_objects::ReachableObjects,
    refs::{References, SnapshotRoot},
    storage_budget::StorageBudget,
    version,
};

const LOCK: &str = "lock";
const GENERATION: &str = "generation";
const BYTES: &str = "bytes";
const RELEASED: &str = "released";
/// A store is nearly full when less than one part in this many is free.
const NEARLY_FULL: u64 = 10;

/// The stored data of one project: the objects, and the references of sessions to them.
///
/// Objects never change once written; only [`collect_garbage`](Self::collect_garbage) and [`check`](Self::check)
/// remove some, and need exclusive access.
#[derive(Debug)]
pub struct StoreData {
    folder: PathBuf,
    limits: SnapshotLimits,
    objects: Objects,
    references: References,
    /// The number of garbage collections.
    generation: Counter,
    /// The number of sessions released since the last garbage collection.
    released: Counter,
    /// The size of all objects in bytes.
    bytes: Counter,
    /// The last snapshot of each session: an unchanged project writes no new reference.
    last_snapshots: Mutex<BTreeMap<SessionId, SnapshotRoot>>,
}

/// The result of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionReport {
    /// The number of removed objects.
    pub removed: usize,
    /// The number of freed bytes.
    pub freed: u64,
    /// The number of bytes that remain in use.
    pub remaining: u64,
}

/// The result of a check of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheckReport {
    /// The number of intact objects.
    pub objects: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Objects whose content does not match their hash. They were removed: the next scan stores them again if it can.
    pub damaged: Vec<ObjectHash>,
    /// Objects that a session refers to and that are missing.
    pub missing: Vec<ObjectHash>,
}

impl StoreData {
    /// Opens the data in a folder, which is created if missing, and tidies up if no other process uses it.
    pub(super) fn open(folder: &Path, limits: SnapshotLimits) -> Result<Self, SnapshotStoreError> {
        private_folder(folder).map_err(io_error_at(folder))?;
        let folder = folder.canonicalize().map_err(io_error_at(folder))?;
        version::check(&folder)?;
        let data = Self {
            objects: Objects::open(&folder)?,
            references: References::open(&folder)?,
            generation: Counter::open(folder.join(GENERATION))?,
            bytes: Counter::open(folder.join(BYTES))?,
            released: Counter::open(folder.join(RELEASED))?,
            last_snapshots: Mutex::default(),
            folder,
            limits,
        };
        match data.lock_exclusive() {
            Ok(_lock) => {
                let tidied = data.objects.remove_unfinished();
                if let Err(error) = tidied.and_then(|_| data.make_room()) {
                    tracing::warn!(folder = %data.folder.display(), %error, "no room was made in the snapshot store");
                }
            }
            Err(SnapshotStoreError::Busy) => {}
            Err(error) => return Err(error),
        }
        Ok(data)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn limits(&self) -> &SnapshotLimits {
        &self.limits
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the number of garbage collections so far: after one, objects may be missing.
    pub(super) fn generation(&self) -> Result<u64, SnapshotStoreError> {
        self.generation.read()
    }

    /// Returns the bytes that may still be written.
    pub(super) fn budget(&self) -> Result<StorageBudget, SnapshotStoreError> {
        StorageBudget::new(&self.folder, self.bytes.read()?, &self.limits)
    }

    /// Counts what was written within a budget.
    pub(super) fn count_written(&self, budget: &StorageBudget) -> Result<(), SnapshotStoreError> {
        self.bytes.add(budget.written)
    }

    /// Stores a list of single paths. The caller counts what was written.
    pub(super) fn put_paths(
        &self,
        entries: &[(PathBuf, SnapshotEntry)],
        budget: &mut StorageBudget,
    ) -> Result<SnapshotRoot, SnapshotStoreError> {
        Ok(SnapshotRoot::Paths(self.objects.put_folder(&write_paths(entries), budget)?))
    }

    /// Returns whether this is the last snapshot of the session, and still stored.
    pub(super) fn is_last(&self, session: &SessionId, root: SnapshotRoot) -> bool {
        let is_last = unpoisoned(&self.last_snapshots).get(session) == Some(&root);
        is_last && self.objects.has(&root.object())
    }

    /// Makes a session refer to a snapshot.
    pub(super) fn add_reference(
        &self,
        session: &SessionId,
        root: SnapshotRoot,
    ) -> Result<(), SnapshotStoreError> {
        let mut last = unpoisoned(&self.last_snapshots);
        // An unchanged project needs no new line in the references.
        if last.get(session) != Some(&root) {
            self.references.add(session, &[root])?;
            last.insert(session.clone(), root);
        }
        Ok(())
    }

    /// Adds references to snapshots from a session, for one that continues another.
    pub fn add_references(
        &self,
        session: &SessionId,
        snapshots: &[SnapshotId],
    ) -> Result<(), SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let mut roots = Vec::with_capacity(snapshots.len());
        for id in snapshots {
            let root = SnapshotRoot::of_id(id)?;
            if !self.objects.has(&root.object()) {
                return Err(SnapshotStoreError::Unknown { id: id.clone() });
            }
            roots.push(root);
        }
        self.references.add(session, &roots)
    }

    /// Removes the references of a session; the next collection removes the objects that no other session refers to.
    pub fn release(&self, session: &SessionId) -> Result<(), SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        unpoisoned(&self.last_snapshots).remove(session);
        for job in job_marks::killed_jobs(&self.folder, session)? {
            job.forget()?;
        }
        self.references.remove(session)?;
        self.released.add(1)
    }

    /// Returns the sessions that refer to snapshots, so that callers can release deleted ones.
    pub fn sessions(&self) -> Result<Vec<SessionId>, SnapshotStoreError> {
        self.references.sessions()
    }

    /// Removes all objects that no session refers to. Needs exclusive access to the store.
    pub fn collect_garbage(&self) -> Result<CollectionReport, SnapshotStoreError> {
        let _alone = self.lock_exclusive()?;
        self.collect()
    }

    /// Collects garbage if no other process has the store open, it is nearly full, and a session was released.
    fn make_room(&self) -> Result<(), SnapshotStoreError> {
        let limit = self.limits.store_bytes;
        if self.bytes.read()? > limit - limit / NEARLY_FULL && self.released.read()? > 0 {
            let CollectionReport { removed, freed, remaining } = self.collect()?;
            tracing::info!(removed, freed, remaining, "the snapshot store was nearly full");
        }
        Ok(())
    }

    fn collect(&self) -> Result<CollectionReport, SnapshotStoreError> {
        let ReachableObjects { objects: found, roots, .. } =
            ReachableObjects::from_sessions(&self.references, &self.objects)?;
        // Must come first: a process that continues after this checks again what it believes to be stored.
        self.next_generation()?;
        // Then remove unfinished files, and every object that is not reachable.
        self.objects.remove_unfinished()?;
        let mut collected = CollectionReport { removed: 0, freed: 0, remaining: 0 };
        self.objects.retain(|hash, bytes| {
            let is_found = found.contains(hash);
            if is_found {
                collected.remaining += bytes;
            } else {
                collected.removed += 1;
                collected.freed += bytes;
            }
            Ok(is_found)
        })?;
        if let Err(error) = ScanIndex::forget_further(&self.folder, &roots) {
            tracing::warn!(folder = %self.folder.display(), %error, "indexes that nobody needs stay");
        }
        self.bytes.set(collected.remaining)?;
        self.released.set(0)?;
        Ok(collected)
    }

    /// Reads every object and compares it with its hash. Needs exclusive access to the store.
    pub fn check(&self) -> Result<StoreCheckReport, SnapshotStoreError> {
        let _alone = self.lock_exclusive()?;
        let mut checked =
            StoreCheckReport { objects: 0, bytes: 0, damaged: Vec::new(), missing: Vec::new() };
        self.next_generation()?;
        // 1) Remove damaged objects.
        self.objects.retain(|hash, bytes| match self.objects.read(hash) {
            Ok(_) => {
                checked.objects += 1;
                checked.bytes += bytes;
                Ok(true)
            }
            Err(SnapshotStoreError::Damaged { hash }) => {
                checked.damaged.push(hash);
                Ok(false)
            }
            Err(error) => Err(error),
        })?;
        // 2) Find the objects that sessions refer to and that are missing.
        let ReachableObjects { objects: found, mut missing, .. } =
            ReachableObjects::from_sessions(&self.references, &self.objects)?;
        missing.extend(found.into_iter().filter(|hash| !self.objects.has(hash)));
        missing.sort_unstable();
        missing.dedup();
        checked.missing = missing;
        self.bytes.set(checked.bytes)?;
        Ok(checked)
    }

    fn next_generation(&self) -> Result<(), SnapshotStoreError> {
        unpoisoned(&self.last_snapshots).clear();
        self.generation.add(1)
    }

    /// Takes a shared lock; waits while the store is collected or checked.
    pub(super) fn lock_shared(&self) -> Result<FileLock, SnapshotStoreError> {
        let path = self.folder.join(LOCK);
        let lock = open_common(&path).map_err(io_error_at(&path))?;
        FileLock::shared(lock).map_err(io_error_at(path))
    }

    /// Takes the exclusive lock, or fails with `Busy`.
    fn lock_exclusive(&self) -> Result<FileLock, SnapshotStoreError> {
        let path = self.folder.join(LOCK);
        let lock = open_common(&path).map_err(io_error_at(&path))?;
        FileLock::try_exclusive(lock)
            .map_err(io_error_at(path))?
            .map_err(|_| SnapshotStoreError::Busy)
    }
}

/// Locks a mutex, ignoring poisoning: the guarded data is consistent between any two steps.
pub(super) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
