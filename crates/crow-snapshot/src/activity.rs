//! Records of the processes that currently change files of the project, so that a change can be attributed to one.
//!
//! Each activity locks a file in the folder of its store and increments a counter. A later comparison of the counters
//! shows whether another activity began meanwhile, and a locked file shows one that still runs. Activities are also
//! registered in the stores of projects around this one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::ids::{CallId, SessionId};

use super::{
    SnapshotStoreError,
    counter::{Counter, open_common},
    error::io_error_at,
    job_marks::{self, JobMark, KilledJob},
    objects::private_folder,
};
use crow_fs::DirectoryStamp;
use crow_fs::FileLock;

const ACTIVITIES: &str = "activities";
const BEGUN: &str = "begun";
const JOBS: &str = "jobs";
/// Folder of the locks of activities of projects inside this one. They are recorded in this project's store and do
/// not see each other.
const INNER: &str = "inner";
const INNER_BEGUN: &str = "inner-begun";
const INNER_JOBS: &str = "inner-jobs";
const UNDO_LOCK: &str = "undo.lock";

/// The activities that change files of a project and of the further roots of its workspace, in all processes: calls,
/// background jobs and undos.
///
/// Each activity holds the lock of one file; there are as many files as there ever were activities at once.
#[derive(Debug)]
pub struct Activities {
    /// The project's own store first. They begin together, so none of them is recorded as an outer store of the
    /// others.
    counted: Vec<CountedStore>,
    /// Paths of the stores of the folders above the roots, whether they exist or not.
    outer: Vec<PathBuf>,
    known_outer: Mutex<Option<KnownOuter>>,
}

/// The outer stores that exist, with the stamps of their parent folders from before they were listed.
#[derive(Debug)]
struct KnownOuter {
    folders: BTreeMap<PathBuf, DirectoryStamp>,
    stores: Vec<PathBuf>,
}

/// A store that counts its activities.
#[derive(Debug)]
struct CountedStore {
    store: PathBuf,
    begun: Arc<Counter>,
}

/// An activity that changes files, from [`begin`](Activities::begin) until it is dropped.
#[derive(Debug)]
pub struct Activity {
    _locks: ActivityLocks,
    /// The activity count at the beginning of this one, for each root.
    begun: Vec<(Arc<Counter>, u64)>,
    /// The same counts of the projects around this one and inside it, by counter file.
    nested: Vec<(PathBuf, u64)>,
    /// True if another activity was in progress when this one began.
    overlaps: bool,
}

/// A background job that may change files, active until it is dropped. Calls of its own session disregard it.
#[derive(Debug)]
pub struct JobActivity {
    _locks: ActivityLocks,
}

/// File locks of an activity or job; the kernel releases them when the process is killed.
#[derive(Debug)]
struct ActivityLocks(Vec<FileLock>);

impl CountedStore {
    fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        let folder = store.join(ACTIVITIES);
        private_folder(&folder).map_err(io_error_at(&folder))?;
        Ok(Self { store: store.to_path_buf(), begun: Arc::new(Counter::open(store.join(BEGUN))?) })
    }
}

impl Activities {
    pub(super) fn open(store: &Path) -> Result<Self, SnapshotStoreError> {
        Ok(Self {
            counted: vec![CountedStore::open(store)?],
            outer: Vec::new(),
            known_outer: Mutex::default(),
        })
    }

    /// Adds stores of projects around this one, which are notified of each activity.
    pub(super) fn add_outer(&mut self, outer: Vec<PathBuf>) {
        self.outer.extend(outer);
        self.known_outer = Mutex::default();
    }

    /// Adds another root, whose store is created if missing, and notifies the stores around it.
    pub(super) fn add_root(
        &mut self,
        store: &Path,
        outer: Vec<PathBuf>,
    ) -> Result<(), SnapshotStoreError> {
        private_folder(store).map_err(io_error_at(store))?;
        self.counted.push(CountedStore::open(&store.canonicalize().map_err(io_error_at(store))?)?);
        self.add_outer(outer);
        for outer in &mut self.outer {
            // A store that does not exist is none of the joined ones.
            *outer = outer.canonicalize().unwrap_or_else(|_| outer.clone());
        }
        self.outer.sort_unstable();
        self.outer.dedup();
        // A store that is one of the roots does not count as an outer store too.
        self.outer.retain(|outer| self.counted.iter().all(|root| root.store != *outer));
        self.known_outer = Mutex::default();
        Ok(())
    }

    /// Returns the folders of all stores.
    fn stores(&self) -> impl Iterator<Item = &Path> {
        self.counted.iter().map(|root| root.store.as_path())
    }

    /// Begins an activity that changes files, so that others can tell that its changes may be mixed with theirs.
    pub fn begin(&self) -> Result<Activity, SnapshotStoreError> {
        let (mut locks, mut overlaps) = (ActivityLocks(Vec::new()), false);
        let mut numbers = Vec::with_capacity(self.counted.len());
        for CountedStore { store, begun } in &self.counted {
            // Begin under the counter's lock: of two activities that begin at once, the second sees the first.
            let (number, (lock, others)) = begun.next(|| take(&store.join(ACTIVITIES)))?;
            locks.0.push(lock);
            numbers.push((Arc::clone(begun), number));
            overlaps |= others;
        }
        // Register in the stores of the projects around this one.
        for outer in self.outer() {
            let folder = outer.join(INNER);
            private_folder(&folder).map_err(io_error_at(&folder))?;
            let begun = Counter::open(outer.join(INNER_BEGUN))?;
            let (_, (lock, _)) = begun.next(|| take(&folder))?;
            locks.0.push(lock);
        }
        // Registered first, looked second: of two that begin at the same time, at least one sees the other.
        let mut nested = Vec::new();
        for (counter, folder) in self.nested() {
            let begun = count(&counter)?;
            overlaps |= is_any_held(&folder, |_| true).map_err(io_error_at(folder))?;
            nested.push((counter, begun));
        }
        Ok(Activity { _locks: locks, begun: numbers, nested, overlaps })
    }

    /// Returns how many activities have begun in this project, in those around it and in those inside it. An activity
    /// of this store counts once for each root.
    pub fn count(&self) -> Result<u64, SnapshotStoreError> {
        let own = self.counted.iter().map(|root| root.begun.read());
        let nested = self.nested().map(|(counter, _)| count(&counter));
        own.chain(nested).sum()
    }

    /// Records that a background job of this session may change files from now on, for the calls of other sessions.
    pub fn begin_job(&self, session: &SessionId) -> Result<JobActivity, SnapshotStoreError> {
        let mut locks = ActivityLocks(Vec::new());
        let outer = self.outer().into_iter().map(|store| store.join(INNER_JOBS));
        for folder in self.stores().map(|store| store.join(JOBS)).chain(outer) {
            let begun = private_folder(&folder).and_then(|()| take(&folder));
            let named = begun.and_then(|(file, _)| {
                file.file().set_len(0)?;
                file.file().write_all_at(session.as_str().as_bytes(), 0)?;
                Ok(file)
            });
            locks.0.push(named.map_err(io_error_at(folder))?);
        }
        Ok(JobActivity { _locks: locks })
    }

    /// Returns whether a background job of another session is running, in any process.
    pub fn others_have_jobs(&self, session: &SessionId) -> Result<bool, SnapshotStoreError> {
        let own = self.stores().flat_map(|store| [JOBS, INNER_JOBS].map(|name| store.join(name)));
        let outer = self.outer().into_iter().map(|store| store.join(JOBS));
        let is_own = |path: &Path| fs::read_to_string(path).is_ok_and(|id| id == session.as_str());
        for folder in own.chain(outer) {
            if is_any_held(&folder, |path| !is_own(path)).map_err(io_error_at(folder))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Marks that a job of a root session may change files, so that [`killed_jobs`](Self::killed_jobs) finds it if
    /// its process is killed.
    pub fn mark_job(
        &self,
        session: &SessionId,
        call_id: &CallId,
    ) -> Result<JobMark, SnapshotStoreError> {
        job_marks::mark(self.own_store(), session, call_id)
    }

    /// Returns the jobs of a root session that were running when their process was killed.
    pub fn killed_jobs(&self, session: &SessionId) -> Result<Vec<KilledJob>, SnapshotStoreError> {
        job_marks::killed_jobs(self.own_store(), session)
    }

    /// Waits until no other undo is running, in any process, and keeps others from beginning until the returned locks
    /// are dropped.
    pub fn lock_undo(&self) -> Result<Vec<FileLock>, SnapshotStoreError> {
        // All processes lock in the same order, so that there is no deadlock.
        let stores: BTreeSet<&Path> = self.stores().collect();
        let lock = |store: &Path| {
            let path = store.join(UNDO_LOCK);
            let lock = open_common(&path).map_err(io_error_at(&path))?;
            FileLock::exclusive(lock).map_err(io_error_at(path))
        };
        stores.into_iter().map(lock).collect()
    }

    /// Returns the folder of the project's own store.
    fn own_store(&self) -> &Path {
        &self.counted.first().expect("invariant: the project's own store is counted first").store
    }

    /// Returns the outer stores that exist, from the cache while the stamps of their parent folders are unchanged.
    fn outer(&self) -> Vec<PathBuf> {
        let mut known = self.known_outer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(folder, stamp): (&PathBuf, &DirectoryStamp)| {
            DirectoryStamp::of_path(folder) == Some(*stamp)
        };
        if let Some(known) = known.as_ref().filter(|known| known.folders.iter().all(is_same)) {
            return known.stores.clone();
        }
        let folders: BTreeSet<&Path> =
            self.outer.iter().filter_map(|store| store.parent()).collect();
        let folders: Option<BTreeMap<PathBuf, DirectoryStamp>> = folders
            .into_iter()
            .map(|folder| Some((folder.to_owned(), DirectoryStamp::of_path(folder)?)))
            .collect();
        let stores: Vec<_> = self.outer.iter().filter(|store| store.is_dir()).cloned().collect();
        // Cache only stamps old enough to prove that nothing changed since.
        let settled = folders.filter(|folders| folders.values().all(DirectoryStamp::is_settled));
        *known = settled.map(|folders| KnownOuter { folders, stores: stores.clone() });
        stores
    }

    /// Returns the counter file and the lock folder of the projects inside this one and around it.
    fn nested(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let inner = self.stores().map(|store| (store.join(INNER_BEGUN), store.join(INNER)));
        let outer = self.outer().into_iter();
        let outer = outer.map(|store| (store.join(BEGUN), store.join(ACTIVITIES)));
        inner.chain(outer)
    }
}

impl Activity {
    /// Returns whether another activity of this project, of one around it or of one inside it was in progress at any
    /// moment since this one began, in any thread or process. Once true, it stays true.
    #[must_use]
    pub fn overlapped(&self) -> bool {
        // An unreadable counter counts as an overlap.
        let is_same = |path: &Path, number: u64| count(path).is_ok_and(|begun| begun == number);
        self.overlaps
            || !self
                .begun
                .iter()
                .all(|(begun, number)| begun.read().is_ok_and(|now| now == *number))
            || !self.nested.iter().all(|(counter, number)| is_same(counter, *number))
    }
}

/// Reads a counter of a store that may not have one; a missing counter is 0.
fn count(path: &Path) -> Result<u64, SnapshotStoreError> {
    match path.symlink_metadata() {
        Ok(_) => Counter::open(path.to_path_buf())?.read(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io_error_at(path)(error)),
    }
}

/// Returns whether any lock file in a folder that satisfies `fits` is held by another.
fn is_any_held(folder: &Path, fits: impl Fn(&Path) -> bool) -> io::Result<bool> {
    for number in 0_u64.. {
        let path = folder.join(number.to_string());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        if FileLock::is_held_by_other(file)? && fits(&path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Locks the first free file in a folder. The flag is true if another file is locked.
fn take(folder: &Path) -> io::Result<(FileLock, bool)> {
    let (mut own, mut others) = (None, false);
    for number in 0_u64.. {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create(own.is_none()).truncate(false);
        match options.open(folder.join(number.to_string())) {
            Ok(file) => match FileLock::try_exclusive(file)? {
                Ok(lock) if own.is_none() => own = Some(lock),
                Ok(_) => {}
                Err(_) => others = true,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    own.map(|own| (own, others)).ok_or_else(|| io::ErrorKind::NotFound.into())
}
