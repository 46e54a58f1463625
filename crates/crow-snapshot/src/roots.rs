//! The roots of a store: its project and the further folders of the workspace. Each is scanned separately, and one
//! snapshot covers all.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crow_core::ids::{SessionId, SnapshotId};

use super::{
    NotScanned, ObjectHash, PathChange, Scan, SnapshotStore, SnapshotStoreError, StoreData,
    capture::resolve,
    diff::{self, read_root_list},
    index::ScanIndex,
    node::write_roots,
    policy::refuse,
    refs::SnapshotRoot,
    scan::ScanWalk,
    store_data::unpoisoned,
};

/// Number of read files and folders from which the index is saved; rereading fewer costs the next process less.
const WORTH_SAVING: usize = 1000;

/// The indexes in memory, by their roots.
type RootIndexes = Mutex<BTreeMap<PathBuf, CachedRoot>>;

/// The index of a root in memory.
#[derive(Debug, Default)]
struct CachedRoot {
    /// `None` before the first scan, and after a scan that failed.
    index: Option<ScanIndex>,
    /// The number of entries that were read since the index was saved.
    unsaved: usize,
}

/// The result of scanning one root.
#[derive(Debug)]
struct RootScan {
    node: ObjectHash,
    scan: Scan,
}

/// Resolves further roots and leaves out those inside the project or another root. A folder around the project stays
/// a root of its own: it covers everything except the project.
pub(super) fn resolve_roots(project: &Path, further: &[PathBuf]) -> Vec<PathBuf> {
    // A folder that cannot be resolved is kept: its scan reports the error.
    let found = further.iter().map(|root| resolve(root).unwrap_or_else(|_| root.clone()));
    let found: BTreeSet<PathBuf> = found.filter(|root| !root.starts_with(project)).collect();
    let is_in_another =
        |root: &PathBuf| root.ancestors().skip(1).any(|above| found.contains(above));
    found.iter().filter(|root| !is_in_another(root)).cloned().collect()
}

impl SnapshotStore {
    /// Captures all roots, with ignored files up to the limits, without `.git`. The session refers to the snapshot.
    ///
    /// Fails if no root can be captured; if only some fail, the result names them.
    pub fn scan(&self, session: &SessionId) -> Result<Scan, SnapshotStoreError> {
        self.scan_roots(session, &self.roots)
    }

    /// Captures some roots. Two such snapshots can be compared in the roots that both hold.
    pub fn scan_roots(
        &self,
        session: &SessionId,
        roots: &[PathBuf],
    ) -> Result<Scan, SnapshotStoreError> {
        let _shared = self.data.lock_shared()?;
        // The project alone needs no list of roots.
        if let [root] = roots
            && *root == self.root
        {
            let RootScan { node, scan } = self.scanner.scan(&self.data, root, roots)?;
            self.data.add_reference(session, SnapshotRoot::Tree(node))?;
            return Ok(scan);
        }
        let (mut nodes, mut unignored) = (Vec::new(), Vec::new());
        let (mut not_covered, mut entries) = (Vec::new(), 0);
        let mut failed = Vec::new();
        for root in roots {
            match self.scanner.scan(&self.data, root, roots) {
                Ok(RootScan { node, scan }) => {
                    nodes.push((root.clone(), node));
                    unignored.push((root.clone(), scan.unignored));
                    not_covered.extend(scan.not_covered);
                    entries += scan.entries;
                }
                Err(error) => failed.push((root.clone(), error)),
            }
        }
        if nodes.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0).1);
        }
        let list = write_roots(&nodes);
        let snapshot = SnapshotRoot::Roots(ObjectHash::of(&list));
        if !self.data.is_last(session, snapshot) {
            let mut budget = self.data.budget()?;
            self.data.objects().put_folder(&list, &mut budget)?;
            self.data.count_written(&budget)?;
            self.data.add_reference(session, snapshot)?;
        }
        let unignored = ObjectHash::of(&write_roots(&unignored));
        let not_scanned = failed
            .into_iter()
            .map(|(root, error)| NotScanned { root, reason: error.to_string() })
            .collect();
        Ok(Scan { snapshot: snapshot.id(), unignored, not_covered, entries, not_scanned })
    }

    /// Returns the changes between two scans in the roots for which `is_meant` returns true and that both hold,
    /// sorted by path within a folder.
    pub fn changes_in(
        &self,
        before: &SnapshotId,
        after: &SnapshotId,
        is_meant: impl Fn(&Path) -> bool,
    ) -> Result<Vec<PathChange>, SnapshotStoreError> {
        let (Some(before_trees), Some(after_trees)) =
            (self.trees(SnapshotRoot::of_id(before)?)?, self.trees(SnapshotRoot::of_id(after)?)?)
        else {
            let (before, after) = (before.clone(), after.clone());
            return Err(SnapshotStoreError::Mismatched { before, after });
        };
        let mut changes = Vec::new();
        for (root, before_trees) in before_trees.iter().filter(|(root, _)| is_meant(root)) {
            // Changes in a root that only one snapshot holds are unknown.
            if let Some((_, after_trees)) = after_trees.iter().find(|(other, _)| other == root) {
                diff::folders(self.data.objects(), root, before_trees, after_trees, &mut changes)?;
            }
        }
        Ok(changes)
    }

    /// Returns the roots of a snapshot of whole folders; `None` for one of single paths.
    pub fn roots_of(
        &self,
        snapshot: &SnapshotId,
    ) -> Result<Option<Vec<PathBuf>>, SnapshotStoreError> {
        let snapshot = SnapshotRoot::of_id(snapshot)?;
        if let SnapshotRoot::Tree(_) = snapshot {
            return Ok(Some(vec![self.root.clone()]));
        }
        let _shared = self.data.lock_shared()?;
        let trees = self.trees(snapshot)?;
        Ok(trees.map(|trees| trees.into_iter().map(|(root, _)| root).collect()))
    }

    /// Returns whether a snapshot says that a root is empty.
    pub fn is_empty(&self, snapshot: &SnapshotId, root: &Path) -> bool {
        let trees = SnapshotRoot::parse(snapshot.as_str()).map(|parsed| self.trees(parsed));
        let Some(Ok(Some(trees))) = trees else { return false };
        trees.iter().any(|(own, node)| own == root && *node == ObjectHash::of(&[]))
    }

    /// Returns the roots of a snapshot with the hashes of their tree objects; `None` for one of single paths.
    pub(super) fn trees(
        &self,
        snapshot: SnapshotRoot,
    ) -> Result<Option<Vec<(PathBuf, ObjectHash)>>, SnapshotStoreError> {
        Ok(match snapshot {
            SnapshotRoot::Tree(node) => Some(vec![(self.root.clone(), node)]),
            SnapshotRoot::Roots(list) => Some(read_root_list(self.data.objects(), &list)?),
            SnapshotRoot::Paths(_) => None,
        })
    }

    /// Returns the innermost root of a snapshot that contains a path.
    pub(super) fn tree_around(
        &self,
        trees: Vec<(PathBuf, ObjectHash)>,
        path: &Path,
    ) -> Option<(PathBuf, ObjectHash)> {
        let around = trees.into_iter().filter(|(root, _)| path.starts_with(root));
        let found = around.max_by_key(|(root, _)| root.as_os_str().len())?;
        // A snapshot of a folder around the project does not cover the project.
        (found.0 == self.root || !path.starts_with(&self.root)).then_some(found)
    }

    /// Saves the indexes for the next process. Losing them only costs time.
    pub fn flush(&self) {
        self.scanner.flush(&self.data);
    }
}

/// Scans roots one by one, with an index of each that makes the next scan fast.
#[derive(Debug)]
pub(super) struct RootScanner {
    /// The project.
    project: PathBuf,
    home: Option<PathBuf>,
    indexes: Arc<RootIndexes>,
}

impl RootScanner {
    pub(super) fn new(project: PathBuf, home: Option<PathBuf>) -> Self {
        Self { project, home, indexes: Arc::default() }
    }

    /// Uses the indexes of another scanner of the same project.
    pub(super) fn share_indexes(&mut self, other: &Self) {
        self.indexes = Arc::clone(&other.indexes);
    }

    /// Returns the error with which a scan of a root would be refused, if any.
    pub(super) fn check(&self, root: &Path) -> Result<(), SnapshotStoreError> {
        refuse(root, self.home.as_ref())
    }

    /// Scans a root, without those of the `roots` that are inside it.
    fn scan(
        &self,
        data: &StoreData,
        root: &Path,
        roots: &[PathBuf],
    ) -> Result<RootScan, SnapshotStoreError> {
        self.check(root)?;
        let generation = data.generation()?;
        let mut indexes = unpoisoned(&self.indexes);
        let cached = indexes.entry(root.to_path_buf()).or_default();
        let file = self.index_file(data, root);
        // The index comes from memory or disk, or starts empty.
        let mut index = cached
            .index
            .take()
            .or_else(|| ScanIndex::load(&file))
            .unwrap_or_else(|| ScanIndex { generation, ..ScanIndex::default() });
        index.catch_up(generation, data.objects());
        // The project is scanned as a root of its own, whichever other roots are scanned.
        let others = roots.iter().chain(std::iter::once(&self.project));
        let inner = others.filter(|other| *other != root && other.starts_with(root));
        let without = std::iter::once(data.folder()).chain(inner.map(PathBuf::as_path)).collect();
        let mut walk = ScanWalk::new(data.objects(), data.limits(), without, data.budget()?);
        let walked = walk.project(root, &mut index).and_then(|walked| {
            let pack = walk.pack.take();
            pack.map_or(Ok(()), |pack| data.objects().end_pack(pack)).map(|()| walked)
        });
        data.count_written(&walk.budget)?;
        let (node, unignored) = walked?;
        let ScanWalk { not_covered, entries, read, .. } = walk;
        cached.unsaved += read;
        if cached.unsaved >= WORTH_SAVING {
            save(data, &index, &file);
            cached.unsaved = 0;
        }
        cached.index = Some(index);
        let snapshot = SnapshotRoot::Tree(node).id();
        let scan = Scan { snapshot, unignored, not_covered, entries, not_scanned: Vec::new() };
        Ok(RootScan { node, scan })
    }

    fn flush(&self, data: &StoreData) {
        for (root, cached) in unpoisoned(&self.indexes).iter_mut() {
            if let Some(index) = cached.index.as_ref().filter(|_| cached.unsaved > 0) {
                save(data, index, &self.index_file(data, root));
                cached.unsaved = 0;
            }
        }
    }

    fn index_file(&self, data: &StoreData, root: &Path) -> PathBuf {
        if root == self.project {
            ScanIndex::file(data.folder())
        } else {
            ScanIndex::file_of(data.folder(), root)
        }
    }
}

fn save(data: &StoreData, index: &ScanIndex, file: &Path) {
    if let Err(error) = index.save(data.folder(), file) {
        tracing::warn!(file = %file.display(), %error, "a snapshot index is not saved");
    }
}
