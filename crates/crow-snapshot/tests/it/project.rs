//! A project to take snapshots of.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;
use crow_snapshot::{
    PathChange, RestoreOutcome, RestoreResult, Scan, SnapshotLimits, SnapshotStore,
    SnapshotStoreError,
};

/// A project and its store.
pub(super) struct Project {
    _folder: tempfile::TempDir,
    pub(super) root: PathBuf,
    pub(super) data: PathBuf,
    pub(super) limits: SnapshotLimits,
    pub(super) store: SnapshotStore,
}

impl Project {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut SnapshotLimits)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, data) = (base.join("project"), base.join("data"));
        fs::create_dir(&root).unwrap();
        let mut limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
        change(&mut limits);
        let store = SnapshotStore::open(&data, &root, limits, None).unwrap();
        Self { _folder: folder, root, data, limits, store }
    }

    /// Opens the store once more, as another process would.
    pub(super) fn other(&self) -> SnapshotStore {
        SnapshotStore::open(&self.data, &self.root, self.limits, None).unwrap()
    }

    pub(super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn scan(&self) -> Scan {
        self.store.scan(&session("s")).unwrap()
    }

    pub(super) fn changes(&self, before: &Scan, after: &Scan) -> Vec<PathChange> {
        self.store.changes(&before.snapshot, &after.snapshot).unwrap()
    }

    /// Returns the paths of the changes.
    pub(super) fn changed(&self, before: &Scan, after: &Scan) -> Vec<String> {
        let changes = self.changes(before, after).into_iter();
        changes
            .map(|change| change.path.strip_prefix(&self.root).unwrap().display().to_string())
            .collect()
    }

    /// Returns the files below a folder of the store.
    pub(super) fn stored(&self, folder: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut pending = vec![self.data.join(folder)];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    pending.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        files
    }
}

pub(super) fn session(id: &str) -> SessionId {
    SessionId::new(id)
}

/// Returns mode and content of everything in a tree except `.git`.
pub(super) fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            let metadata = entry.metadata().unwrap();
            let mode = metadata.permissions().mode();
            let bytes = if metadata.is_symlink() {
                fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec()
            } else if metadata.is_dir() {
                pending.push(entry.path());
                Vec::new()
            } else {
                fs::read(entry.path()).unwrap()
            };
            seen.insert(entry.path(), (mode, bytes));
        }
    }
    seen
}

/// Returns the outcome of each path, relative to the root if it is below it.
pub(super) fn results(project: &Project, undone: &[RestoreOutcome]) -> Vec<(String, &'static str)> {
    let result = |undone: &RestoreOutcome| match &undone.result {
        Ok(RestoreResult::Done) => "done",
        Ok(RestoreResult::Unchanged) => "unchanged",
        Ok(RestoreResult::Conflict { .. }) => "conflict",
        Ok(RestoreResult::NotEmpty) => "not empty",
        Ok(RestoreResult::NotCovered { .. }) => "not covered",
        Err(SnapshotStoreError::Missing { .. }) => "missing",
        Err(SnapshotStoreError::Damaged { .. }) => "damaged",
        Err(SnapshotStoreError::Io { .. }) => "not possible",
        Err(error) => panic!("{error}"),
    };
    let name = |path: &Path| path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
    undone.iter().map(|undone| (name(&undone.path), result(undone))).collect()
}
