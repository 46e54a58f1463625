//! Who is changing files of the project right now, in any process, so that a change can be told to have one author.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{SnapshotStoreError, counter::Counter, error::at, objects::private_folder};

const ACTIVITIES: &str = "activities";
const BEGUN: &str = "begun";

/// The activities of a store. Each holds the lock of a file; there are as many files as there ever were at once.
#[derive(Debug)]
pub(super) struct Activities {
    folder: PathBuf,
    begun: Arc<Counter>,
}

/// Something that changes files, from [`begin`](super::SnapshotStore::begin) until it is dropped.
#[derive(Debug)]
pub struct Activity {
    /// Locked as long as it lasts; the kernel unlocks it when the process is killed.
    lock: File,
    begun: Arc<Counter>,
    /// How many had begun with this one.
    number: u64,
    /// Whether another was under way when it began.
    overlaps: bool,
}

impl Activities {
    pub(super) fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        let folder = store.join(ACTIVITIES);
        private_folder(&folder).map_err(at(&folder))?;
        Ok(Self { folder, begun: Arc::new(Counter::open(store.join(BEGUN))?) })
    }

    pub(super) fn begin(&self) -> Result<Activity, SnapshotStoreError> {
        // One after the other: who begins at the same time sees this one, or is seen.
        let (number, (lock, overlaps)) = self.begun.next(|| self.take())?;
        Ok(Activity { lock, begun: Arc::clone(&self.begun), number, overlaps })
    }

    /// Locks the first file that is free, and tells whether another is not.
    fn take(&self) -> io::Result<(File, bool)> {
        let (mut own, mut others) = (None, false);
        for number in 0_u64.. {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600).create(own.is_none()).truncate(false);
            match options.open(self.folder.join(number.to_string())) {
                Ok(file) => match file.try_lock() {
                    Ok(()) if own.is_none() => own = Some(file),
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => others = true,
                    Err(TryLockError::Error(error)) => return Err(error),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        own.map(|own| (own, others)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Activity {
    /// Returns whether another activity of this store was under way at any moment since this one began, in whatever
    /// thread or process. Once it is so it stays so.
    #[must_use]
    pub fn overlapped(&self) -> bool {
        // Not knowing is as good as yes.
        self.overlaps || !self.begun.read().is_ok_and(|begun| begun == self.number)
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        // Not only closed: a process that is being started may have it open a moment longer.
        if let Err(error) = self.lock.unlock() {
            tracing::debug!(%error, "an activity ends when its file is closed");
        }
    }
}
