//! The store of one project: its public operations and their locking.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::ids::{CallId, SessionId, SnapshotId};

use super::{
    Activity, Capture, ContentRef, JobActivity, NotCovered, PathChange, RestoreOutcome,
    RestoreResult, SnapshotEntry, SnapshotLimits, SnapshotStoreError,
    activity::Activities,
    backup_copy::{keep_copy, move_aside},
    capture::{capture, is_reached_directly, resolve, with_missing_folders},
    counter::{Counter, open_common},
    diff::{self, children, read_path_list},
    error::io_error_at,
    file_overlay::FileOverlay,
    ignore_rules,
    job_marks::{self, JobMark, KilledJob},
    node::{TreeEntry, write_paths},
    objects::{Objects, private_folder},
    policy::refuse,
    refs::{References, SnapshotRoot},
    restore::Restorer,
    roots::{RootIndexes, resolve_roots},
    storage_budget::StorageBudget,
    undo_in_progress::UndoInProgress,
    version,
};
use crow_fs::FileLock;

const LOCK: &str = "lock";
const UNDO_LOCK: &str = "undo.lock";
const GENERATION: &str = "generation";
const BYTES: &str = "bytes";
const RELEASED: &str = "released";
/// Stores states of the files of one project, and of the further roots of its workspace.
///
/// All methods block. Several threads and processes may use one store at a time: objects never change once written,
/// and only [`collect_garbage`](Self::collect_garbage) and [`check`](Self::check) need exclusive access.
#[derive(Debug)]
pub struct SnapshotStore {
    pub(super) folder: PathBuf,
    pub(super) root: PathBuf,
    /// The project's root and the further roots that are scanned with it.
    pub(super) roots: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
    pub(super) limits: SnapshotLimits,
    pub(super) objects: Objects,
    pub(super) references: References,
    activities: Activities,
    /// The number of garbage collections.
    pub(super) generation: Counter,
    /// The number of sessions released since the last garbage collection.
    pub(super) released: Counter,
    /// The size of all objects in bytes.
    pub(super) bytes: Counter,
    pub(super) indexes: Arc<RootIndexes>,
    /// The last snapshot of each session: an unchanged project writes no new reference.
    pub(super) last_snapshots: Mutex<BTreeMap<SessionId, SnapshotRoot>>,
}

impl SnapshotStore {
    /// Opens the store in `folder`, which is created if missing, for the project in `root`.
    ///
    /// The folder holds the store of one project and nothing else. A project that is `home` itself, or contains it,
    /// is not scanned.
    pub fn open(
        folder: &Path,
        root: &Path,
        limits: SnapshotLimits,
        home: Option<&Path>,
    ) -> Result<Self, SnapshotStoreError> {
        private_folder(folder).map_err(io_error_at(folder))?;
        let folder = folder.canonicalize().map_err(io_error_at(folder))?;
        version::check(&folder)?;
        // A removed project still has its store.
        let root = resolve(root)?;
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf()));
        let store = Self {
            objects: Objects::open(&folder)?,
            references: References::open(&folder)?,
            activities: Activities::open(&folder)?,
            generation: Counter::open(folder.join(GENERATION))?,
            bytes: Counter::open(folder.join(BYTES))?,
            released: Counter::open(folder.join(RELEASED))?,
            indexes: Arc::default(),
            last_snapshots: Mutex::default(),
            folder,
            roots: vec![root.clone()],
            root,
            home,
            limits,
        };
        // Tidy up if no other process uses the store.
        match store.lock_exclusive() {
            Ok(_lock) => {
                let tidied = store.objects.remove_unfinished();
                if let Err(error) = tidied.and_then(|_| store.make_room()) {
                    tracing::warn!(folder = %store.folder.display(), %error, "no room was made in the snapshot store");
                }
            }
            Err(SnapshotStoreError::Busy) => {}
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    /// Captures single paths, relative to the root or absolute, including ignored ones and ones outside the project.
    /// The session refers to the snapshot.
    pub fn capture(
        &self,
        session: &SessionId,
        paths: &[PathBuf],
    ) -> Result<Capture, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let mut budget = self.budget()?;
        let mut entries = Vec::new();
        let mut not_covered = Vec::new();
        for path in with_missing_folders(&self.root, paths)? {
            let entry = capture(&path, &self.objects, &self.limits, &mut budget)?;
            if let SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } = &entry {
                not_covered.push(NotCovered { path: path.clone(), why: *why });
            }
            entries.push((path, entry));
        }
        let root =
            SnapshotRoot::Paths(self.objects.put_folder(&write_paths(&entries), &mut budget)?);
        self.bytes.add(budget.written)?;
        self.add_reference(session, root)?;
        let paths = entries.into_iter().map(|(path, _)| path).collect();
        Ok(Capture { snapshot: root.id(), paths, not_covered })
    }

    /// Captures exactly these absolute paths: one behind a link is recorded as absent, since it is not at its path.
    /// The session refers to the snapshot.
    pub fn capture_exactly(
        &self,
        session: &SessionId,
        paths: &[PathBuf],
    ) -> Result<SnapshotId, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let mut budget = self.budget()?;
        let mut entries = BTreeMap::new();
        for path in paths {
            let entry = if is_reached_directly(path)? {
                capture(path, &self.objects, &self.limits, &mut budget)?
            } else {
                SnapshotEntry::Absent
            };
            entries.insert(path.clone(), entry);
        }
        let entries: Vec<_> = entries.into_iter().collect();
        let root =
            SnapshotRoot::Paths(self.objects.put_folder(&write_paths(&entries), &mut budget)?);
        self.bytes.add(budget.written)?;
        self.add_reference(session, root)?;
        Ok(root.id())
    }

    /// Returns the changes between two scans in the roots that both hold, or between two captures in the paths that
    /// both hold, sorted by path within a folder.
    pub fn changes(
        &self,
        before: &SnapshotId,
        after: &SnapshotId,
    ) -> Result<Vec<PathChange>, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let pair = (parse(before)?, parse(after)?);
        if let (SnapshotRoot::Paths(before), SnapshotRoot::Paths(after)) = pair {
            return diff::paths(&self.objects, &before, &after);
        }
        self.changes_in(before, after, |_| true)
    }

    /// Returns the entry of an absolute path in a snapshot; `None` if the snapshot does not cover the path.
    pub fn entry(
        &self,
        snapshot: &SnapshotId,
        path: &Path,
    ) -> Result<Option<SnapshotEntry>, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let snapshot = parse(snapshot)?;
        if let SnapshotRoot::Paths(list) = snapshot {
            let mut listed = read_path_list(&self.objects, &list)?.into_iter();
            return Ok(listed.find(|(other, _)| other == path).map(|(_, entry)| entry));
        }
        let trees = self.trees(snapshot)?.unwrap_or_default();
        let Some((root, mut node)) = self.tree_around(trees, path) else { return Ok(None) };
        let Ok(inner) = path.strip_prefix(root) else { return Ok(None) };
        // Walk down the tree objects, one name at a time.
        let mut names = inner.iter().peekable();
        while let Some(name) = names.next() {
            let found = children(&self.objects, &node)?.into_iter().find(|(own, _)| own == name);
            match found.map(|(_, child)| child) {
                Some(child) if names.peek().is_none() => return Ok(Some(child.entry())),
                Some(TreeEntry::Folder { node: inner, .. }) => node = inner,
                Some(TreeEntry::Leaf(SnapshotEntry::Unscanned { .. })) => return Ok(None),
                Some(TreeEntry::Leaf(_)) | None => return Ok(Some(SnapshotEntry::Absent)),
            }
        }
        Ok(None)
    }

    /// Reads the content of a file, or the target of a link.
    pub fn read(&self, entry: &SnapshotEntry) -> Result<Vec<u8>, SnapshotStoreError> {
        match entry {
            SnapshotEntry::File { content: ContentRef::Stored(hash), .. } => {
                let _shared = self.lock_shared()?;
                self.objects.read(hash)
            }
            SnapshotEntry::Link { target } => Ok(OsStr::as_bytes(target).to_vec()),
            SnapshotEntry::File { content: ContentRef::NotStored { .. }, .. }
            | SnapshotEntry::Absent
            | SnapshotEntry::Folder { .. }
            | SnapshotEntry::Unscanned { .. } => Err(SnapshotStoreError::NotStored),
        }
    }

    /// Changes a path to the wanted entry if it is in the expected state, and otherwise leaves it alone.
    pub fn restore_path(
        &self,
        path: &Path,
        expected: &SnapshotEntry,
        wanted: &SnapshotEntry,
    ) -> Result<RestoreResult, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        self.restorer().put_back(path, expected, wanted)
    }

    /// Undoes changes in a suitable order, and returns the outcome for each path.
    pub fn undo(&self, changes: &[PathChange]) -> Result<Vec<RestoreOutcome>, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let restorer = self.restorer();
        // Leftovers of killed undos would keep folders from being removed.
        for interrupted in restorer.in_progress.leftovers()? {
            interrupted.remove(&self.limits);
        }
        Ok(restorer.undo(changes))
    }

    /// Returns what [`undo`](Self::undo) would report now, without changing files.
    pub fn preview(
        &self,
        changes: &[PathChange],
    ) -> Result<Vec<RestoreOutcome>, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let mut restorer = self.restorer();
        for name in
            restorer.in_progress.leftovers()?.into_iter().flat_map(|interrupted| interrupted.names)
        {
            restorer.view.plan(&name, SnapshotEntry::Absent);
        }
        Ok(restorer.preview(changes))
    }

    /// Returns the current entry of a path, without storing it. A file whose content was not stored in `like` is
    /// compared by its stamp.
    pub fn current_entry(
        &self,
        path: &Path,
        like: &SnapshotEntry,
    ) -> Result<SnapshotEntry, SnapshotStoreError> {
        FileOverlay::new(&self.limits).current_entry(&self.root.join(path), like)
    }

    /// Copies the file or link at a path beside it, as `NAME.crow-kept` or, if that is taken, `NAME.crow-kept-2` and
    /// so on. Returns the path of the copy, or `None` if there is neither.
    pub fn keep_copy(&self, path: &Path) -> Result<Option<PathBuf>, SnapshotStoreError> {
        let path = self.root.join(path);
        keep_copy(&path).map_err(io_error_at(path))
    }

    /// Renames the folder at a path, with its content, to a name as [`keep_copy`](Self::keep_copy) makes it. Returns
    /// the new path, or `None` if there is no folder.
    pub fn move_aside(&self, path: &Path) -> Result<Option<PathBuf>, SnapshotStoreError> {
        let path = self.root.join(path);
        move_aside(&path).map_err(io_error_at(path))
    }

    /// Waits until no other undo is running, in any process, and keeps others from beginning until the returned locks
    /// are dropped.
    pub fn lock_undo(&self) -> Result<Vec<FileLock>, SnapshotStoreError> {
        // All processes lock in the same order, so that there is no deadlock.
        let stores: BTreeSet<&Path> = self.activities.stores().collect();
        let lock = |store: &Path| {
            let path = store.join(UNDO_LOCK);
            let lock = open_common(&path).map_err(io_error_at(&path))?;
            FileLock::exclusive(lock).map_err(io_error_at(path))
        };
        stores.into_iter().map(lock).collect()
    }

    /// Returns whether the parent folder of an absolute path is reached through real folders, or missing: behind a
    /// link lies another path.
    pub fn is_reached_directly(&self, path: &Path) -> Result<bool, SnapshotStoreError> {
        is_reached_directly(path)
    }

    /// Returns the paths that a snapshot of single paths holds; `None` for one of the whole project.
    pub fn paths_of(
        &self,
        snapshot: &SnapshotId,
    ) -> Result<Option<Vec<PathBuf>>, SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        match parse(snapshot)? {
            SnapshotRoot::Tree(_) | SnapshotRoot::Roots(_) => Ok(None),
            SnapshotRoot::Paths(list) => {
                let paths = read_path_list(&self.objects, &list)?.into_iter().map(|(path, _)| path);
                Ok(Some(paths.collect()))
            }
        }
    }

    /// Registers this store's activities in the stores of projects around it, and watches theirs. `outer` are the
    /// paths of those stores, whether they exist or not.
    #[must_use]
    pub fn with_outer_stores(mut self, outer: Vec<PathBuf>) -> Self {
        self.activities.add_outer(outer);
        self
    }

    /// Scans further folders together with the project, and registers activities in their stores. `store_of` returns
    /// the path of a folder's store, whether it exists or not.
    ///
    /// A folder inside the project or inside another further folder is already covered. A folder around the project
    /// becomes a root of its own, without the project.
    pub fn with_roots(
        mut self,
        further: &[PathBuf],
        store_of: impl Fn(&Path) -> PathBuf,
    ) -> Result<Self, SnapshotStoreError> {
        for root in resolve_roots(&self.root, further) {
            // Every folder above the root may have a store of its own.
            let outer = root.ancestors().skip(1).map(&store_of).collect();
            self.activities.add_root(&store_of(&root), outer)?;
            self.roots.push(root);
        }
        if self.roots.len() > 1 {
            version::raise(&self.folder, version::ROOTS)?;
        }
        Ok(self)
    }

    /// Shares the in-memory indexes of another store object with the same folder.
    #[must_use]
    pub fn with_shared_indexes(mut self, other: &Self) -> Self {
        self.indexes = Arc::clone(&other.indexes);
        self
    }

    /// Returns which of these paths git would ignore, by `.gitignore` in each folder and above, whether or not there
    /// is a repository.
    pub fn ignored(&self, paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        self.roots().iter().flat_map(|root| ignore_rules::ignored_of(root, paths)).collect()
    }

    /// Begins an activity that changes files, so that others can tell that its changes may be mixed with theirs.
    pub fn begin(&self) -> Result<Activity, SnapshotStoreError> {
        self.activities.begin()
    }

    /// Returns how many activities have begun, in all processes. An activity of this store counts once for each root.
    pub fn activity_count(&self) -> Result<u64, SnapshotStoreError> {
        self.activities.activity_count()
    }

    /// Records that a background job of this session may change files from now on, for the calls of other sessions.
    pub fn begin_job(&self, session: &SessionId) -> Result<JobActivity, SnapshotStoreError> {
        self.activities.begin_job(session)
    }

    /// Returns whether a background job of another session is running, in any process.
    pub fn others_have_jobs(&self, session: &SessionId) -> Result<bool, SnapshotStoreError> {
        self.activities.others_have_jobs(session)
    }

    /// Marks that a job of a root session may change files, so that [`killed_jobs`](Self::killed_jobs) finds it if
    /// its process is killed.
    pub fn mark_job(
        &self,
        session: &SessionId,
        call_id: &CallId,
    ) -> Result<JobMark, SnapshotStoreError> {
        job_marks::mark(&self.folder, session, call_id)
    }

    /// Returns the jobs of a root session that were running when their process was killed.
    pub fn killed_jobs(&self, session: &SessionId) -> Result<Vec<KilledJob>, SnapshotStoreError> {
        job_marks::killed_jobs(&self.folder, session)
    }

    /// Creates two snapshots of single paths, before and after known changes. The contents of their files must already
    /// be stored. The session refers to both.
    pub fn record(
        &self,
        session: &SessionId,
        changes: &[PathChange],
    ) -> Result<(SnapshotId, SnapshotId), SnapshotStoreError> {
        let _shared = self.lock_shared()?;
        let mut budget = self.budget()?;
        let mut put =
            |entry: fn(&PathChange) -> &SnapshotEntry| -> Result<SnapshotRoot, SnapshotStoreError> {
                let entries: BTreeMap<_, _> = changes
                    .iter()
                    .map(|change| (change.path.clone(), entry(change).clone()))
                    .collect();
                let entries: Vec<_> = entries.into_iter().collect();
                Ok(SnapshotRoot::Paths(
                    self.objects.put_folder(&write_paths(&entries), &mut budget)?,
                ))
            };
        let (before, after) = (put(|change| &change.before)?, put(|change| &change.after)?);
        self.bytes.add(budget.written)?;
        self.add_reference(session, before)?;
        self.add_reference(session, after)?;
        Ok((before.id(), after.id()))
    }

    /// Returns the error with which a scan of this project would be refused, if any.
    pub fn check_scannable(&self) -> Result<(), SnapshotStoreError> {
        refuse(&self.root, self.home.as_ref())
    }

    /// Returns the folder of the project, resolved.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the project and the further roots. None is inside another, except the project, which may
    /// be.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the limits of snapshots.
    #[must_use]
    pub fn limits(&self) -> SnapshotLimits {
        self.limits
    }

    fn restorer(&self) -> Restorer<'_> {
        Restorer {
            objects: &self.objects,
            view: FileOverlay::new(&self.limits),
            in_progress: UndoInProgress::new(&self.folder),
        }
    }

    /// Returns whether this is the last snapshot of the session, and still stored.
    pub(super) fn is_last(&self, session: &SessionId, root: SnapshotRoot) -> bool {
        let is_last = unpoisoned(&self.last_snapshots).get(session) == Some(&root);
        is_last && self.objects.has(&root.object())
    }

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

    /// Takes a shared lock; waits while the store is collected or checked.
    pub(super) fn lock_shared(&self) -> Result<FileLock, SnapshotStoreError> {
        let path = self.folder.join(LOCK);
        let lock = open_common(&path).map_err(io_error_at(&path))?;
        FileLock::shared(lock).map_err(io_error_at(path))
    }

    /// Takes the exclusive lock, or fails with `Busy`.
    pub(super) fn lock_exclusive(&self) -> Result<FileLock, SnapshotStoreError> {
        let path = self.folder.join(LOCK);
        let lock = open_common(&path).map_err(io_error_at(&path))?;
        FileLock::try_exclusive(lock)
            .map_err(io_error_at(path))?
            .map_err(|_| SnapshotStoreError::Busy)
    }

    pub(super) fn budget(&self) -> Result<StorageBudget, SnapshotStoreError> {
        StorageBudget::new(&self.folder, self.bytes.read()?, &self.limits)
    }
}

impl Drop for SnapshotStore {
    fn drop(&mut self) {
        self.flush();
    }
}

pub(super) fn parse(id: &SnapshotId) -> Result<SnapshotRoot, SnapshotStoreError> {
    SnapshotRoot::parse(id.as_str()).ok_or_else(|| SnapshotStoreError::Unknown { id: id.clone() })
}

/// Locks a mutex, ignoring poisoning: the guarded data is consistent between any two steps.
pub(super) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
