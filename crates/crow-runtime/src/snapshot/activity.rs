//! Who is changing files of the project right now, in any process, so that a change can be told to have one author.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::ids::SessionId;

use super::{SnapshotStoreError, counter::Counter, error::at, objects::private_folder};

const ACTIVITIES: &str = "activities";
const BEGUN: &str = "begun";
const JOBS: &str = "jobs";

/// The activities of a store. Each holds the lock of a file; there are as many files as there ever were at once.
#[derive(Debug)]
pub(super) struct Activities {
    folder: PathBuf,
    jobs: PathBuf,
    begun: Arc<Counter>,
}

/// A background job that may change files, until it is dropped. The calls of its own session do not mind it.
#[derive(Debug)]
pub struct JobActivity(File);

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
        let (folder, jobs) = (store.join(ACTIVITIES), store.join(JOBS));
        private_folder(&folder).map_err(at(&folder))?;
        Ok(Self { folder, jobs, begun: Arc::new(Counter::open(store.join(BEGUN))?) })
    }

    pub(super) fn begin(&self) -> Result<Activity, SnapshotStoreError> {
        // One after the other: who begins at the same time sees this one, or is seen.
        let (number, (lock, overlaps)) = self.begun.next(|| take(&self.folder))?;
        Ok(Activity { lock, begun: Arc::clone(&self.begun), number, overlaps })
    }

    /// Returns how many have begun.
    pub(super) fn begun(&self) -> Result<u64, SnapshotStoreError> {
        self.begun.read()
    }

    pub(super) fn begin_job(&self, session: &SessionId) -> Result<JobActivity, SnapshotStoreError> {
        let begun =
            private_folder(&self.jobs).and_then(|()| take(&self.jobs)).and_then(|(file, _)| {
                file.set_len(0)?;
                file.write_all_at(session.as_str().as_bytes(), 0)?;
                Ok(JobActivity(file))
            });
        begun.map_err(at(&self.jobs))
    }

    /// Returns whether a job of another session is at work.
    pub(super) fn others_have_jobs(&self, session: &SessionId) -> Result<bool, SnapshotStoreError> {
        for number in 0_u64.. {
            let path = self.jobs.join(number.to_string());
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(at(path)(error)),
            };
            match file.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if fs::read_to_string(&path).map_err(at(path))? != session.as_str() {
                        return Ok(true);
                    }
                }
                Err(TryLockError::Error(error)) => return Err(at(path)(error)),
            }
        }
        Ok(false)
    }
}

/// Locks the first file in a folder that is free, and tells whether another is not.
fn take(folder: &Path) -> io::Result<(File, bool)> {
    let (mut own, mut others) = (None, false);
    for number in 0_u64.. {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create(own.is_none()).truncate(false);
        match options.open(folder.join(number.to_string())) {
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
        unlock(&self.lock);
    }
}

impl Drop for JobActivity {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// Not only closed: a process that is being started may have it open a moment longer.
fn unlock(file: &File) {
    if let Err(error) = file.unlock() {
        tracing::debug!(%error, "an activity ends when its file is closed");
    }
}
