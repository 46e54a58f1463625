//! The walk over a root, which brings its index up to date and stores changed files and folders.
//!
//! Every known entry is compared with the stamp of the last scan ([`mark_unchanged`] did most of that in parallel); only
//! entries that look changed are read. The items of an [`IndexFolder`] are updated in place, innermost first, and a
//! folder's tree object is stored again only if one of its items changed. Invariant: `node` and `unignored` of a
//! folder are set only if they describe its current items, so that an aborted scan is repeated.
//!
//! An ignored folder is covered as a whole or left out as a whole; a change of ignore rules makes all entries below
//! it be judged again.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crow_core::ids::SnapshotId;

use super::{
    ContentRef, FileStamp, NotCovered, NotCoveredReason, NotScanned, ObjectHash, SnapshotLimits,
    SnapshotStoreError,
    error::io_error_at,
    ignore_rules::{self, IgnoreRules, IgnoredPathKind, OuterRules},
    index::{IndexFolder, IndexItem, IndexItemKind, IndexStamp, ScanIndex},
    node::{TreeEntry, write_folder},
    objects::Objects,
    own_output::{is_own_output, record_own_output},
    packs::NewPack,
    parallel_stat::mark_unchanged,
    path_stat::{PathKind, PathStat, is_absence},
    read_file::{FileReadOutcome, read_file},
    storage_budget::StorageBudget,
    undo_in_progress,
};
use crow_fs::change_time::{is_settled, since_1970};

/// Greatest depth of folders; deeper ones are not scanned.
const DEEPEST: usize = 128;

/// A snapshot of the project and of the further roots of its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// A hash that is equal for two states that differ only in ignored files.
    pub unignored: ObjectHash,
    /// Entries that the snapshot does not hold, with the reason.
    pub not_covered: Vec<NotCovered>,
    /// The number of files, links and folders that were visited.
    pub entries: usize,
    /// Roots that could not be captured, if others could. Changes in them are unknown.
    pub not_scanned: Vec<NotScanned>,
}

/// The state of one walk.
#[derive(Debug)]
pub(super) struct ScanWalk<'a> {
    pub(super) objects: &'a Objects,
    pub(super) limits: &'a SnapshotLimits,
    pub(super) budget: StorageBudget,
    /// Folders that are skipped even inside the root: the store itself, and other roots.
    pub(super) excluded: Vec<&'a Path>,
    device: u64,
    started: i64,
    pub(super) not_covered: Vec<NotCovered>,
    pub(super) entries: usize,
    /// The number of further files that are captured in the current ignored folder.
    ignored_left: usize,
    /// The number of files and folders that were read; the index is saved from a minimum on.
    pub(super) read: usize,
    /// Collects small contents during the first scan of a project; `None` if each gets a file of its own.
    pub(super) pack: Option<NewPack>,
}

/// The position of the walk.
struct WalkPosition<'a> {
    path: &'a Path,
    rules: IgnoreRules<'a>,
    ignored: bool,
    /// True if the ignore rules changed: all entries below are judged again.
    judge_anew: bool,
    depth: usize,
}

/// The result of visiting a folder.
enum FolderVisit {
    Into,
    /// It no longer exists.
    Gone,
    Unscanned(NotCoveredReason),
}

/// The result of comparing an entry with the index.
enum ItemChange {
    Same,
    Changed,
    Gone,
    /// Its folder cannot be covered.
    NoFolder(NotCoveredReason),
}

impl ItemChange {
    fn changed_if(changed: bool) -> Self {
        if changed { Self::Changed } else { Self::Same }
    }
}

impl<'a> ScanWalk<'a> {
    pub(crate) fn new(
        objects: &'a Objects,
        limits: &'a SnapshotLimits,
        without: Vec<&'a Path>,
        budget: StorageBudget,
    ) -> Self {
        // The system's clock, not the session's: it is compared with file times.
        let now = since_1970(SystemTime::now());
        Self {
            objects,
            limits,
            budget,
            excluded: without,
            device: 0,
            started: now,
            not_covered: Vec::new(),
            entries: 0,
            ignored_left: 0,
            read: 0,
            pack: None,
        }
    }

    /// Walks over the project, updates the index, and returns the hashes of the root folder, with and without ignored
    /// entries.
    pub(super) fn project(
        &mut self,
        root: &Path,
        index: &mut ScanIndex,
    ) -> Result<(ObjectHash, ObjectHash), SnapshotStoreError> {
        let now = match PathStat::at(root) {
            Ok(now) => now,
            // A removed project is scanned as an empty one, so that an undo can bring it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                index.root = IndexFolder::default();
                let empty = self.objects.put_folder(&[], &mut self.budget)?;
                return Ok((empty, empty));
            }
            Err(error) => return Err(io_error_at(root)(error)),
        };
        if now.kind != PathKind::Folder {
            return Err(io_error_at(root)(io::ErrorKind::NotADirectory.into()));
        }
        self.device = now.device;
        self.pack = index.root.node.is_none().then(NewPack::default);
        mark_unchanged(root, &index.root, now.device);
        let outer = OuterRules::read(root);
        let position = WalkPosition {
            path: root,
            rules: IgnoreRules::of_root(&outer, root),
            ignored: false,
            judge_anew: index.outer_rules != Some(outer.hash),
            depth: 0,
        };
        index.outer_rules = Some(outer.hash);
        let folder = &mut index.root;
        // The root itself must be covered; a folder below may be left out.
        match (self.folder(&position, folder, now.stamp)?, folder.node, folder.unignored) {
            (FolderVisit::Into, Some(node), Some(unignored)) => Ok((node, unignored)),
            (FolderVisit::Unscanned(NotCoveredReason::TooManyFiles), ..) => {
                let (path, limit) = (root.to_path_buf(), self.limits.entries);
                Err(SnapshotStoreError::TooManyFiles { path, limit })
            }
            (FolderVisit::Gone, ..) => Err(io_error_at(root)(io::ErrorKind::NotFound.into())),
            _ => Err(io_error_at(root)(io::ErrorKind::PermissionDenied.into())),
        }
    }

    fn folder(
        &mut self,
        position: &WalkPosition<'_>,
        folder: &mut IndexFolder,
        stamp: FileStamp,
    ) -> Result<FolderVisit, SnapshotStoreError> {
        let mut changed = folder.node.is_none() || folder.unignored.is_none();
        // Names are reread only if the folder's stamp changed or the rules did.
        if position.judge_anew || !folder.stamp.is_some_and(|seen| seen.proves_unchanged(&stamp)) {
            self.read += 1;
            match self.names(position.path) {
                Ok(names) => changed |= folder.merge(names),
                Err(outcome) => return Ok(outcome),
            }
            folder.stamp = Some(self.seen(stamp));
        }
        self.entries += folder.items.len();
        if self.entries > self.limits.entries {
            return Ok(FolderVisit::Unscanned(NotCoveredReason::TooManyFiles));
        }
        let judge_anew = self.rules_changed(position, folder, &mut changed)? || position.judge_anew;
        let mut path = position.path.to_path_buf();
        let mut gone = false;
        // Visit the items; proven ones need neither stat nor read.
        for item in &mut folder.items {
            if !judge_anew && !position.ignored && item.is_proven_leaf() {
                continue;
            }
            path.push(&item.name);
            match self.item(position, judge_anew, &path, item)? {
                ItemChange::Same => {}
                ItemChange::Changed => changed = true,
                ItemChange::Gone => {
                    item.kind = IndexItemKind::New;
                    gone = true;
                }
                ItemChange::NoFolder(why) => return Ok(FolderVisit::Unscanned(why)),
            }
            path.pop();
        }
        if gone {
            folder.items.retain(|item| !matches!(item.kind, IndexItemKind::New));
        }
        if changed || gone {
            self.store_folder(folder)?;
        }
        Ok(FolderVisit::Into)
    }

    /// Scans the rule file before any item is judged by it, and returns whether the rules changed.
    fn rules_changed(
        &mut self,
        position: &WalkPosition<'_>,
        folder: &mut IndexFolder,
        changed: &mut bool,
    ) -> Result<bool, SnapshotStoreError> {
        let name = OsStr::new(ignore_rules::FILE);
        let at = folder.items.binary_search_by(|item| item.name.as_os_str().cmp(name));
        let mut now = None;
        if let Some(item) = at.ok().and_then(|at| folder.items.get_mut(at)) {
            // The item is visited again with the others, so its effects on the counts are undone here.
            let (left, covered) = (self.ignored_left, self.not_covered.len());
            let found =
                self.item(position, position.judge_anew, &position.path.join(name), item)?;
            self.not_covered.truncate(covered);
            self.ignored_left = left;
            now = match (&found, &item.kind) {
                (ItemChange::Same | ItemChange::Changed, IndexItemKind::File { content, .. }) => {
                    Some(*content)
                }
                _ => None,
            };
            *changed |= matches!(found, ItemChange::Changed);
        }
        Ok(std::mem::replace(&mut folder.rules, now) != now)
    }

    fn item(
        &mut self,
        position: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
    ) -> Result<ItemChange, SnapshotStoreError> {
        // An item that the parallel pass proved unchanged is not asked for again.
        let as_before = item.unchanged.take() && !judge_anew;
        let known = if as_before { PathStat::as_before(item, self.device) } else { None };
        let now = match known.map_or_else(|| PathStat::at(path), Ok) {
            Ok(now) => now,
            Err(error) if is_absence(&error) => return Ok(ItemChange::Gone),
            Err(_) => return Ok(ItemChange::NoFolder(NotCoveredReason::Unreadable)),
        };
        let kind = if now.kind == PathKind::Folder {
            IgnoredPathKind::Folder
        } else {
            IgnoredPathKind::File
        };
        let known = match &item.kind {
            IndexItemKind::New => false,
            IndexItemKind::File { .. } | IndexItemKind::Link { .. } => {
                kind == IgnoredPathKind::File
            }
            IndexItemKind::Folder { .. } | IndexItemKind::Unscanned { .. } => {
                kind == IgnoredPathKind::Folder
            }
        };
        // Judge new items, and all of them after a change of the rules.
        let was_ignored = item.ignored;
        if judge_anew || !known {
            item.ignored = position.ignored || position.rules.ignore(path, kind);
        }
        // Files in an ignored folder count against its limit.
        if position.ignored && kind == IgnoredPathKind::File {
            let Some(left) = self.ignored_left.checked_sub(1) else {
                return Ok(ItemChange::NoFolder(NotCoveredReason::IgnoredFolder));
            };
            self.ignored_left = left;
        }
        let judged_otherwise = item.ignored != was_ignored;
        let found = match now.kind {
            PathKind::Folder => self.subfolder(position, judge_anew, path, item, now)?,
            PathKind::Link => link(path, item),
            PathKind::File if is_own_output(now.device, now.stamp.inode) => {
                ItemChange::changed_if(record_own_output(item, now.stamp))
            }
            PathKind::File => self.file(path, item, now.stamp, judged_otherwise)?,
            PathKind::Special => ItemChange::Gone,
        };
        let only_judged = judged_otherwise && matches!(found, ItemChange::Same);
        Ok(if only_judged { ItemChange::Changed } else { found })
    }

    fn file(
        &mut self,
        path: &Path,
        item: &mut IndexItem,
        stamp: FileStamp,
        judged_otherwise: bool,
    ) -> Result<ItemChange, SnapshotStoreError> {
        let before = item.child();
        let still = matches!(&item.kind, IndexItemKind::File { stamp: known, .. } if !judged_otherwise && known.proves_unchanged(&stamp));
        if !still {
            let limit = if item.ignored {
                self.limits.ignored_file_bytes.min(self.limits.file_bytes)
            } else {
                self.limits.file_bytes
            };
            let Some((content, stamp)) = self.content(path, stamp, limit)? else {
                return Ok(ItemChange::Gone);
            };
            item.kind = IndexItemKind::File { stamp: self.seen(stamp), content };
        }
        if let IndexItemKind::File { content: ContentRef::NotStored { why, .. }, .. } = &item.kind {
            self.not_covered.push(NotCovered { path: path.to_path_buf(), why: *why });
        }
        Ok(ItemChange::changed_if(!still && before != item.child()))
    }

    /// Stores the content of a file. Returns `None` if it is no regular file any more.
    fn content(
        &mut self,
        path: &Path,
        stamp: FileStamp,
        limit: u64,
    ) -> Result<Option<(ContentRef, FileStamp)>, SnapshotStoreError> {
        self.read += 1;
        let not_stored = |why| Ok(Some((ContentRef::NotStored { why, stamp }, stamp)));
        if stamp.size > limit {
            return not_stored(NotCoveredReason::TooLarge);
        }
        match read_file(path, limit) {
            Ok(FileReadOutcome::Whole { bytes, stamp }) => {
                let put = match &mut self.pack {
                    Some(pack) => self.objects.put_into(pack, &bytes, &mut self.budget)?,
                    None => self.objects.put_content(&bytes, &mut self.budget)?,
                };
                match put {
                    Ok(hash) => Ok(Some((ContentRef::Stored(hash), stamp))),
                    Err(why) => not_stored(why),
                }
            }
            Ok(FileReadOutcome::TooLarge) => not_stored(NotCoveredReason::TooLarge),
            Ok(FileReadOutcome::Special) => Ok(None),
            Err(error) if is_absence(&error) => Ok(None),
            Err(_) => not_stored(NotCoveredReason::Unreadable),
        }
    }

    fn subfolder(
        &mut self,
        position: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
        now: PathStat,
    ) -> Result<ItemChange, SnapshotStoreError> {
        if self.excluded.contains(&path) {
            return Ok(ItemChange::Gone);
        }
        if item.name == ignore_rules::GIT {
            let (before, why) = (item.child(), NotCoveredReason::Repository);
            item.kind = IndexItemKind::Unscanned { stamp: self.seen(now.stamp), why };
            return Ok(ItemChange::changed_if(before != item.child()));
        }
        let (stamp, before) = (now.stamp, (item.child(), item.unignored()));
        let (covered, entries) = (self.not_covered.len(), self.entries);
        let first_ignored = item.ignored && !position.ignored;
        // Reasons to leave the folder out before it is entered.
        let why = if now.device != self.device {
            Some(NotCoveredReason::OtherFileSystem)
        } else if position.depth >= DEEPEST {
            Some(NotCoveredReason::TooDeep)
        } else if first_ignored {
            self.too_many_ignored(path, item, &stamp)
        } else {
            None
        };
        if first_ignored {
            self.ignored_left = self.limits.ignored_folder_files;
        }
        let visit = match why {
            Some(why) => FolderVisit::Unscanned(why),
            None => self.enter(position, judge_anew, path, item, stamp)?,
        };
        match visit {
            FolderVisit::Into => {
                Ok(ItemChange::changed_if(before != (item.child(), item.unignored())))
            }
            FolderVisit::Gone => {
                self.not_covered.truncate(covered);
                self.entries = entries;
                Ok(ItemChange::Gone)
            }
            // The whole ignored folder is left out, not only the part beyond the limit.
            FolderVisit::Unscanned(why @ NotCoveredReason::IgnoredFolder) if !first_ignored => {
                Ok(ItemChange::NoFolder(why))
            }
            FolderVisit::Unscanned(why) => {
                self.not_covered.truncate(covered);
                self.entries = entries;
                self.not_covered.push(NotCovered { path: path.to_path_buf(), why });
                item.kind = IndexItemKind::Unscanned { stamp: self.seen(stamp), why };
                Ok(ItemChange::changed_if(before != (item.child(), None)))
            }
        }
    }

    /// Visits a subfolder.
    fn enter(
        &mut self,
        position: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
        stamp: FileStamp,
    ) -> Result<FolderVisit, SnapshotStoreError> {
        let mut folder = match std::mem::replace(&mut item.kind, IndexItemKind::New) {
            IndexItemKind::Folder { folder, .. } => folder,
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Link { .. }
            | IndexItemKind::Unscanned { .. } => Box::default(),
        };
        let inner = WalkPosition {
            path,
            rules: IgnoreRules::of_folder(&position.rules, path),
            ignored: item.ignored,
            judge_anew,
            depth: position.depth + 1,
        };
        let visit = self.folder(&inner, &mut folder, stamp)?;
        item.kind = IndexItemKind::Folder { mode: stamp.mode, folder };
        Ok(visit)
    }

    /// Returns whether an ignored folder holds too many files. The answer is reused until the folder changes.
    fn too_many_ignored(
        &self,
        path: &Path,
        item: &IndexItem,
        stamp: &FileStamp,
    ) -> Option<NotCoveredReason> {
        let too_many = match &item.kind {
            IndexItemKind::Unscanned { stamp: seen, why: NotCoveredReason::IgnoredFolder }
                if seen.proves_unchanged(stamp) =>
            {
                true
            }
            // The walk itself counts it again.
            IndexItemKind::Folder { .. } => false,
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Link { .. }
            | IndexItemKind::Unscanned { .. } => {
                ignore_rules::exceeds_entry_limit(path, self.limits.ignored_folder_files)
            }
        };
        too_many.then_some(NotCoveredReason::IgnoredFolder)
    }

    fn store_folder(&mut self, folder: &mut IndexFolder) -> Result<(), SnapshotStoreError> {
        // Cleared first: if storing fails, the next scan must not use the old hash.
        folder.node = None;
        let all =
            folder.items.iter().filter_map(|item| Some((item.name.as_os_str(), item.child()?)));
        let node = self.objects.put_folder(&write_folder(all), &mut self.budget)?;
        let differs = |item: &IndexItem| item.ignored || item.unignored() != item.node();
        folder.unignored = Some(if folder.items.iter().any(differs) {
            let unignored = folder.items.iter().filter(|item| !item.ignored).filter_map(|item| {
                let child = match item.child()? {
                    TreeEntry::Folder { mode, .. } => {
                        TreeEntry::Folder { mode, node: item.unignored()? }
                    }
                    leaf @ TreeEntry::Leaf(_) => leaf,
                };
                Some((item.name.as_os_str(), child))
            });
            ObjectHash::of(&write_folder(unignored))
        } else {
            node
        });
        folder.node = Some(node);
        Ok(())
    }

    /// Returns the index stamp of an entry. It is settled only if a later change would have got another time.
    fn seen(&self, stamp: FileStamp) -> IndexStamp {
        IndexStamp { stamp, settled: is_settled(stamp.changed, self.started) }
    }

    /// Reads the names in a folder, sorted.
    fn names(&self, path: &Path) -> Result<Vec<OsString>, FolderVisit> {
        let unreadable = |error: io::Error| {
            let is_gone = is_absence(&error);
            if is_gone {
                FolderVisit::Gone
            } else {
                FolderVisit::Unscanned(NotCoveredReason::Unreadable)
            }
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            // A repository's folder is recorded without its content; the `.git` file of a linked worktree is left
            // out, too.
            let is_left_out =
                name == ignore_rules::GIT && !entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_left_out && !undo_in_progress::is_own(&name) {
                names.push(name);
            }
            if self.entries.saturating_add(names.len()) > self.limits.entries {
                return Err(FolderVisit::Unscanned(NotCoveredReason::TooManyFiles));
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn link(path: &Path, item: &mut IndexItem) -> ItemChange {
    let target = crow_fs::read_link(path).map(PathBuf::into_os_string);
    target.map_or(ItemChange::Gone, |target| ItemChange::changed_if(item.set_link(target)))
}
