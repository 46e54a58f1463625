//! The store of one project: its public operations and their locking.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crow_core::ids::{SessionId, SnapshotId};

use super::{
    Capture, ContentRef, NotCovered, PathChange, RestoreOutcome, RestoreResult, SnapshotEntry,
    SnapshotLimits, SnapshotStoreError, StoreData, WriteInProgress,
    activity::Activities,
    backup_copy::{keep_copy, move_aside},
    capture::{capture, is_reached_directly, resolve, with_missing_folders},
    diff::{self, children, read_path_list},
    error::io_error_at,
    file_overlay::FileOverlay,
    ignore_rules,
    node::TreeEntry,
    refs::SnapshotRoot,
    restore::Restorer,
    roots::{RootScanner, resolve_roots},
    undo_in_progress::UndoInProgress,
    version, write_in_progress,
};

/// Stores states of the files of one project, and of the further roots of its workspace.
///
/// All methods block. Several threads and processes may use one store at a time: objects never change once written,
/// and only [`StoreData::collect_garbage`] and [`StoreData::check`] need exclusive access.
#[derive(Debug)]
pub struct SnapshotStore {
    pub(super) data: StoreData,
    pub(super) root: PathBuf,
    /// The project's root and the further roots that are scanned with it.
    pub(super) roots: Vec<PathBuf>,
    pub(super) scanner: RootScanner,
    activities: Activities,
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
        let data = StoreData::open(folder, limits)?;
        let activities = Activities::open(data.folder())?;
        // A removed project still has its store.
        let root = resolve(root)?;
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf()));
        let scanner = RootScanner::new(root.clone(), home);
        Ok(Self { data, roots: vec![root.clone()], root, scanner, activities })
    }

    /// Captures single paths, relative to the root or absolute, including ignored ones and ones outside the project.
    /// The session refers to the snapshot.
    pub fn capture(
        &self,
        session: &SessionId,
        paths: &[PathBuf],
    ) -> Result<Capture, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        let mut budget = self.data.budget()?;
        let mut entries = Vec::new();
        let mut not_covered = Vec::new();
        for path in with_missing_folders(&self.root, paths)? {
            let entry = capture(&path, self.data.objects(), self.data.limits(), &mut budget)?;
            if let SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. } = &entry {
                not_covered.push(NotCovered { path: path.clone(), why: *why });
            }
            entries.push((path, entry));
        }
        let root = self.data.put_paths(&entries, &mut budget)?;
        self.data.count_written(&budget)?;
        self.data.add_reference(session, root)?;
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
        let _shared = self.data.lock_shared()?;
        let mut budget = self.data.budget()?;
        let mut entries = BTreeMap::new();
        for path in paths {
            let entry = if is_reached_directly(path)? {
                capture(path, self.data.objects(), self.data.limits(), &mut budget)?
            } else {
                SnapshotEntry::Absent
            };
            entries.insert(path.clone(), entry);
        }
        let entries: Vec<_> = entries.into_iter().collect();
        let root = self.data.put_paths(&entries, &mut budget)?;
        self.data.count_written(&budget)?;
        self.data.add_reference(session, root)?;
        Ok(root.id())
    }

    /// Returns the changes between two scans in the roots that both hold, or between two captures in the paths that
    /// both hold, sorted by path within a folder.
    pub fn changes(
        &self,
        before: &SnapshotId,
        after: &SnapshotId,
    ) -> Result<Vec<PathChange>, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        let pair = (SnapshotRoot::of_id(before)?, SnapshotRoot::of_id(after)?);
        if let (SnapshotRoot::Paths(before), SnapshotRoot::Paths(after)) = pair {
            return diff::paths(self.data.objects(), &before, &after);
        }
        self.changes_in(before, after, |_| true)
    }

    /// Returns the entry of an absolute path in a snapshot; `None` if the snapshot does not cover the path.
    pub fn entry(
        &self,
        snapshot: &SnapshotId,
        path: &Path,
    ) -> Result<Option<SnapshotEntry>, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        let snapshot = SnapshotRoot::of_id(snapshot)?;
        if let SnapshotRoot::Paths(list) = snapshot {
            let mut listed = read_path_list(self.data.objects(), &list)?.into_iter();
            return Ok(listed.find(|(other, _)| other == path).map(|(_, entry)| entry));
        }
        let trees = self.trees(snapshot)?.unwrap_or_default();
        let Some((root, mut node)) = self.tree_around(trees, path) else { return Ok(None) };
        let Ok(inner) = path.strip_prefix(root) else { return Ok(None) };
        // Walk down the tree objects, one name at a time.
        let mut names = inner.iter().peekable();
        while let Some(name) = names.next() {
            let found =
                children(self.data.objects(), &node)?.into_iter().find(|(own, _)| own == name);
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
                let _shared = self.data.lock_shared()?;
                self.data.objects().read(hash)
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
        let _shared = self.data.lock_shared()?;
        self.restorer().put_back(path, expected, wanted)
    }

    /// Undoes changes in a suitable order, and returns the outcome for each path.
    pub fn undo(&self, changes: &[PathChange]) -> Result<Vec<RestoreOutcome>, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        let restorer = self.restorer();
        // Leftovers of killed undos would keep folders from being removed.
        for interrupted in restorer.in_progress.leftovers()? {
            interrupted.remove(self.data.limits());
        }
        Ok(restorer.undo(changes))
    }

    /// Returns what [`undo`](Self::undo) would report now, without changing files.
    pub fn preview(
        &self,
        changes: &[PathChange],
    ) -> Result<Vec<RestoreOutcome>, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
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
        FileOverlay::new(self.data.limits()).current_entry(&self.root.join(path), like)
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
        let _shared = self.data.lock_shared()?;
        match SnapshotRoot::of_id(snapshot)? {
            SnapshotRoot::Tree(_) | SnapshotRoot::Roots(_) => Ok(None),
            SnapshotRoot::Paths(list) => {
                let paths =
                    read_path_list(self.data.objects(), &list)?.into_iter().map(|(path, _)| path);
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
            version::raise(self.data.folder(), version::ROOTS)?;
        }
        Ok(self)
    }

    /// Shares the in-memory indexes of another store object with the same folder.
    #[must_use]
    pub fn with_shared_indexes(mut self, other: &Self) -> Self {
        self.scanner.share_indexes(&other.scanner);
        self
    }

    /// Returns which of these paths git would ignore, by `.gitignore` in each folder and above, whether or not there
    /// is a repository.
    pub fn ignored(&self, paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        self.roots().iter().flat_map(|root| ignore_rules::ignored_of(root, paths)).collect()
    }

    /// Returns the activities that change files of the project.
    pub fn activities(&self) -> &Activities {
        &self.activities
    }

    /// Returns the stored data, which outlives sessions and needs maintenance.
    pub fn data(&self) -> &StoreData {
        &self.data
    }

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
        WriteInProgress::begin(self.data.folder(), paths)
    }

    /// Creates two snapshots of single paths, before and after known changes. The contents of their files must already
    /// be stored. The session refers to both.
    pub fn record(
        &self,
        session: &SessionId,
        changes: &[PathChange],
    ) -> Result<(SnapshotId, SnapshotId), SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        let mut budget = self.data.budget()?;
        let mut put =
            |entry: fn(&PathChange) -> &SnapshotEntry| -> Result<SnapshotRoot, SnapshotStoreError> {
                let entries: BTreeMap<_, _> = changes
                    .iter()
                    .map(|change| (change.path.clone(), entry(change).clone()))
                    .collect();
                let entries: Vec<_> = entries.into_iter().collect();
                self.data.put_paths(&entries, &mut budget)
            };
        let (before, after) = (put(|change| &change.before)?, put(|change| &change.after)?);
        self.data.count_written(&budget)?;
        self.data.add_reference(session, before)?;
        self.data.add_reference(session, after)?;
        Ok((before.id(), after.id()))
    }

    /// Returns the error with which a scan of this project would be refused, if any.
    pub fn check_scannable(&self) -> Result<(), SnapshotStoreError> {
        self.scanner.check(&self.root)
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
        *self.data.limits()
    }

    fn restorer(&self) -> Restorer<'_> {
        Restorer {
            objects: self.data.objects(),
            view: FileOverlay::new(self.data.limits()),
            in_progress: UndoInProgress::new(self.data.folder()),
        }
    }
}

impl Drop for SnapshotStore {
    fn drop(&mut self) {
        self.flush();
    }
}
