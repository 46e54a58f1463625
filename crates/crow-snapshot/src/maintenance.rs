//! Garbage collection: finds the objects that sessions refer to and removes all others. Checks of the store.

use std::path::{Path, PathBuf};

use crow_core::ids::{SessionId, SnapshotId};

use super::{
    ObjectHash, SnapshotLimits, SnapshotStore, SnapshotStoreError,
    reachable_objects::ReachableObjects,
    store::{parse, unpoisoned},
    undo_in_progress::UndoInProgress,
    write_in_progress::{self, WriteInProgress},
};

/// A store is nearly full when less than one part in this many is free.
const NEARLY_FULL: u64 = 10;

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

impl SnapshotStore {
    /// Removes temporary files that killed processes left in the project while they wrote files. The store in
    /// `folder` need not exist.
    pub fn remove_leftovers(folder: &Path, limits: &SnapshotLimits) {
        write_in_progress::remove_leftovers(folder);
        match UndoInProgress::new(folder).leftovers() {
            Ok(left) => left.into_iter().for_each(|left| left.remove(limits)),
            Err(error) => tracing::debug!(%error, "what undos left beside files stays"),
        }
    }

    /// Records that files at these paths are about to be written, until the returned guard is dropped.
    pub fn begin_write(&self, paths: &[PathBuf]) -> Result<WriteInProgress, SnapshotStoreError> {
        WriteInProgress::begin(&self.folder, paths)
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
            let root = parse(id)?;
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
        for job in self.killed_jobs(session)? {
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
    pub(super) fn make_room(&self) -> Result<(), SnapshotStoreError> {
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
        self.forget_indexes(&roots);
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
}
