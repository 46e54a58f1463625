//! The walk over the project. Every known file is looked at; only what looks changed is read.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crow_core::ids::SnapshotId;

use super::{
    ContentRef, FileStamp, NotCovered, NotScanned, ObjectHash, SnapshotLimits, SnapshotStoreError,
    WhyNotCovered,
    error::at,
    ignore_rules::{self, IgnoreRules, IgnoredPathKind, OuterRules},
    index::{IndexFolder, IndexItem, IndexItemKind, IndexStamp, ScanIndex},
    node::{TreeEntry, write_folder},
    objects::Objects,
    own_output::{is_own_output, see_own_output},
    packs::NewPack,
    parallel_stat::prove,
    path_stat::{PathKind, PathStat, is_absence},
    read_file::{FileReadOutcome, read_file},
    storage_budget::StorageBudget,
    undo_in_progress,
};
use crow_fs::change_time::{is_settled, since_1970};

/// Deeper folders are not looked into.
const DEEPEST: usize = 128;

/// The state of the whole project, and of the further roots of its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The same for two states that differ in ignored files alone.
    pub unignored: ObjectHash,
    /// Entries that it does not hold, with the reason.
    pub not_covered: Vec<NotCovered>,
    /// The number of files, links and folders that were visited.
    pub entries: usize,
    /// The roots that could not be captured, of several. What changes in them is not known.
    pub not_scanned: Vec<NotScanned>,
}

/// One walk.
#[derive(Debug)]
pub(super) struct ScanWalk<'a> {
    pub(super) objects: &'a Objects,
    pub(super) limits: &'a SnapshotLimits,
    pub(super) budget: StorageBudget,
    /// Folders that are skipped although they may lie in the root: the store itself, and other roots.
    pub(super) without: Vec<&'a Path>,
    device: u64,
    started: i64,
    pub(super) not_covered: Vec<NotCovered>,
    pub(super) entries: usize,
    /// The number of further files that are captured in the current ignored folder.
    ignored_left: usize,
    /// The number of files and folders that were read; from a bound on the index is saved.
    pub(super) read: usize,
    /// Collects small contents during the first scan of a project; `None` if each gets a file of its own.
    pub(super) pack: Option<NewPack>,
}

/// The position of the walk.
struct WalkPosition<'a> {
    path: &'a Path,
    rules: IgnoreRules<'a>,
    ignored: bool,
    /// The rules for ignored files changed: all entries below are judged again.
    judge_anew: bool,
    depth: usize,
}

/// The result of visiting a folder.
enum FolderVisit {
    Into,
    /// It is no longer there.
    Gone,
    LeftOut(WhyNotCovered),
}

/// The result of comparing an entry with the index.
enum ItemChange {
    Same,
    Changed,
    Gone,
    /// The folder that it is in cannot be covered.
    NoFolder(WhyNotCovered),
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
        // The clock of the system, not of the session: it is compared with the times of files.
        let now = since_1970(SystemTime::now());
        Self {
            objects,
            limits,
            budget,
            without,
            device: 0,
            started: now,
            not_covered: Vec::new(),
            entries: 0,
            ignored_left: 0,
            read: 0,
            pack: None,
        }
    }

    /// Walks over the project, brings the index up to date and returns the object of the root folder.
    pub(super) fn project(
        &mut self,
        root: &Path,
        index: &mut ScanIndex,
    ) -> Result<(ObjectHash, ObjectHash), SnapshotStoreError> {
        let now = match PathStat::at(root) {
            Ok(now) => now,
            // A project that was removed whole is an empty one: that is what brings it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                index.root = IndexFolder::default();
                let empty = self.objects.put_folder(&[], &mut self.budget)?;
                return Ok((empty, empty));
            }
            Err(error) => return Err(at(root)(error)),
        };
        if now.is != PathKind::Folder {
            return Err(at(root)(io::ErrorKind::NotADirectory.into()));
        }
        self.device = now.device;
        self.pack = index.root.node.is_none().then(NewPack::default);
        prove(root, &index.root, now.device);
        let outer = OuterRules::read(root);
        let place = WalkPosition {
            path: root,
            rules: IgnoreRules::of_root(&outer, root),
            ignored: false,
            judge_anew: index.outer_rules != Some(outer.hash),
            depth: 0,
        };
        index.outer_rules = Some(outer.hash);
        let folder = &mut index.root;
        match (self.folder(&place, folder, now.stamp)?, folder.node, folder.unignored) {
            (FolderVisit::Into, Some(node), Some(unignored)) => Ok((node, unignored)),
            (FolderVisit::LeftOut(WhyNotCovered::TooManyFiles), ..) => {
                let (path, limit) = (root.to_path_buf(), self.limits.entries);
                Err(SnapshotStoreError::TooManyFiles { path, limit })
            }
            (FolderVisit::Gone, ..) => Err(at(root)(io::ErrorKind::NotFound.into())),
            _ => Err(at(root)(io::ErrorKind::PermissionDenied.into())),
        }
    }

    fn folder(
        &mut self,
        place: &WalkPosition<'_>,
        folder: &mut IndexFolder,
        stamp: FileStamp,
    ) -> Result<FolderVisit, SnapshotStoreError> {
        let mut changed = folder.node.is_none() || folder.unignored.is_none();
        if place.judge_anew || !folder.seen.is_some_and(|seen| seen.still(&stamp)) {
            self.read += 1;
            match self.names(place.path) {
                Ok(names) => changed |= folder.merge(names),
                Err(looked) => return Ok(looked),
            }
            folder.seen = Some(self.seen(stamp));
        }
        self.entries += folder.items.len();
        if self.entries > self.limits.entries {
            return Ok(FolderVisit::LeftOut(WhyNotCovered::TooManyFiles));
        }
        let judge_anew = self.rules_changed(place, folder, &mut changed)? || place.judge_anew;
        let mut path = place.path.to_path_buf();
        let mut gone = false;
        for item in &mut folder.items {
            if !judge_anew && !place.ignored && item.is_proven_leaf() {
                continue;
            }
            path.push(&item.name);
            match self.item(place, judge_anew, &path, item)? {
                ItemChange::Same => {}
                ItemChange::Changed => changed = true,
                ItemChange::Gone => {
                    item.what = IndexItemKind::New;
                    gone = true;
                }
                ItemChange::NoFolder(why) => return Ok(FolderVisit::LeftOut(why)),
            }
            path.pop();
        }
        if gone {
            folder.items.retain(|item| !matches!(item.what, IndexItemKind::New));
        }
        if changed || gone {
            self.store_folder(folder)?;
        }
        Ok(FolderVisit::Into)
    }

    /// Looks at the rules for ignored files before anything is judged by them.
    fn rules_changed(
        &mut self,
        place: &WalkPosition<'_>,
        folder: &mut IndexFolder,
        changed: &mut bool,
    ) -> Result<bool, SnapshotStoreError> {
        let name = OsStr::new(ignore_rules::FILE);
        let at = folder.items.binary_search_by(|item| item.name.as_os_str().cmp(name));
        let mut now = None;
        if let Some(item) = at.ok().and_then(|at| folder.items.get_mut(at)) {
            // It is looked at once more with the others; it counts once.
            let (left, covered) = (self.ignored_left, self.not_covered.len());
            let found = self.item(place, place.judge_anew, &place.path.join(name), item)?;
            self.not_covered.truncate(covered);
            self.ignored_left = left;
            now = match (&found, &item.what) {
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
        place: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
    ) -> Result<ItemChange, SnapshotStoreError> {
        let as_before = item.proof.take() && !judge_anew;
        let known = if as_before { PathStat::as_before(item, self.device) } else { None };
        let now = match known.map_or_else(|| PathStat::at(path), Ok) {
            Ok(now) => now,
            Err(error) if is_absence(&error) => return Ok(ItemChange::Gone),
            Err(_) => return Ok(ItemChange::NoFolder(WhyNotCovered::Unreadable)),
        };
        let kind = if now.is == PathKind::Folder {
            IgnoredPathKind::Folder
        } else {
            IgnoredPathKind::File
        };
        let known = match &item.what {
            IndexItemKind::New => false,
            IndexItemKind::File { .. } | IndexItemKind::Link { .. } => {
                kind == IgnoredPathKind::File
            }
            IndexItemKind::Folder { .. } | IndexItemKind::LeftOut { .. } => {
                kind == IgnoredPathKind::Folder
            }
        };
        let was_ignored = item.ignored;
        if judge_anew || !known {
            item.ignored = place.ignored || place.rules.ignore(path, kind);
        }
        if place.ignored && kind == IgnoredPathKind::File {
            let Some(left) = self.ignored_left.checked_sub(1) else {
                return Ok(ItemChange::NoFolder(WhyNotCovered::IgnoredFolder));
            };
            self.ignored_left = left;
        }
        let judged_otherwise = item.ignored != was_ignored;
        let found = match now.is {
            PathKind::Folder => self.subfolder(place, judge_anew, path, item, now)?,
            PathKind::Link => link(path, item),
            PathKind::File if is_own_output(now.device, now.stamp.inode) => {
                ItemChange::changed_if(see_own_output(item, now.stamp))
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
        let still = matches!(&item.what, IndexItemKind::File { seen, .. } if !judged_otherwise && seen.still(&stamp));
        if !still {
            let limit = if item.ignored {
                self.limits.ignored_file_bytes.min(self.limits.file_bytes)
            } else {
                self.limits.file_bytes
            };
            let Some((content, stamp)) = self.content(path, stamp, limit)? else {
                return Ok(ItemChange::Gone);
            };
            item.what = IndexItemKind::File { seen: self.seen(stamp), content };
        }
        if let IndexItemKind::File { content: ContentRef::NotStored { why, .. }, .. } = &item.what {
            self.not_covered.push(NotCovered { path: path.to_path_buf(), why: *why });
        }
        Ok(ItemChange::changed_if(!still && before != item.child()))
    }

    /// Stores what is in a file. Nothing comes back if there is no file any more.
    fn content(
        &mut self,
        path: &Path,
        stamp: FileStamp,
        limit: u64,
    ) -> Result<Option<(ContentRef, FileStamp)>, SnapshotStoreError> {
        self.read += 1;
        let not_stored = |why| Ok(Some((ContentRef::NotStored { why, stamp }, stamp)));
        if stamp.size > limit {
            return not_stored(WhyNotCovered::TooLarge);
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
            Ok(FileReadOutcome::TooLarge) => not_stored(WhyNotCovered::TooLarge),
            Ok(FileReadOutcome::Special) => Ok(None),
            Err(error) if is_absence(&error) => Ok(None),
            Err(_) => not_stored(WhyNotCovered::Unreadable),
        }
    }

    fn subfolder(
        &mut self,
        place: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
        now: PathStat,
    ) -> Result<ItemChange, SnapshotStoreError> {
        if self.without.contains(&path) {
            return Ok(ItemChange::Gone);
        }
        if item.name == ignore_rules::GIT {
            let (before, why) = (item.child(), WhyNotCovered::Repository);
            item.what = IndexItemKind::LeftOut { seen: self.seen(now.stamp), why };
            return Ok(ItemChange::changed_if(before != item.child()));
        }
        let (stamp, before) = (now.stamp, (item.child(), item.unignored()));
        let (covered, entries) = (self.not_covered.len(), self.entries);
        let first_ignored = item.ignored && !place.ignored;
        let why = if now.device != self.device {
            Some(WhyNotCovered::OtherFileSystem)
        } else if place.depth >= DEEPEST {
            Some(WhyNotCovered::TooDeep)
        } else if first_ignored {
            self.too_many_ignored(path, item, &stamp)
        } else {
            None
        };
        if first_ignored {
            self.ignored_left = self.limits.ignored_folder_files;
        }
        let looked = match why {
            Some(why) => FolderVisit::LeftOut(why),
            None => self.enter(place, judge_anew, path, item, stamp)?,
        };
        match looked {
            FolderVisit::Into => {
                Ok(ItemChange::changed_if(before != (item.child(), item.unignored())))
            }
            FolderVisit::Gone => {
                self.not_covered.truncate(covered);
                self.entries = entries;
                Ok(ItemChange::Gone)
            }
            // The whole ignored folder is left out, not the part that was one file too many.
            FolderVisit::LeftOut(why @ WhyNotCovered::IgnoredFolder) if !first_ignored => {
                Ok(ItemChange::NoFolder(why))
            }
            FolderVisit::LeftOut(why) => {
                self.not_covered.truncate(covered);
                self.entries = entries;
                self.not_covered.push(NotCovered { path: path.to_path_buf(), why });
                item.what = IndexItemKind::LeftOut { seen: self.seen(stamp), why };
                Ok(ItemChange::changed_if(before != (item.child(), None)))
            }
        }
    }

    /// Looks into a folder in a folder.
    fn enter(
        &mut self,
        place: &WalkPosition<'_>,
        judge_anew: bool,
        path: &Path,
        item: &mut IndexItem,
        stamp: FileStamp,
    ) -> Result<FolderVisit, SnapshotStoreError> {
        let mut folder = match std::mem::replace(&mut item.what, IndexItemKind::New) {
            IndexItemKind::Folder { folder, .. } => folder,
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Link { .. }
            | IndexItemKind::LeftOut { .. } => Box::default(),
        };
        let inner = WalkPosition {
            path,
            rules: IgnoreRules::of_folder(&place.rules, path),
            ignored: item.ignored,
            judge_anew,
            depth: place.depth + 1,
        };
        let looked = self.folder(&inner, &mut folder, stamp)?;
        item.what = IndexItemKind::Folder { mode: stamp.mode, folder };
        Ok(looked)
    }

    /// Returns whether an ignored folder holds more than is covered. What was found once holds until the folder changes.
    fn too_many_ignored(
        &self,
        path: &Path,
        item: &IndexItem,
        stamp: &FileStamp,
    ) -> Option<WhyNotCovered> {
        let too_many = match &item.what {
            IndexItemKind::LeftOut { seen, why: WhyNotCovered::IgnoredFolder }
                if seen.still(stamp) =>
            {
                true
            }
            // It is counted again while it is walked over.
            IndexItemKind::Folder { .. } => false,
            IndexItemKind::New
            | IndexItemKind::File { .. }
            | IndexItemKind::Link { .. }
            | IndexItemKind::LeftOut { .. } => {
                ignore_rules::holds_more_than(path, self.limits.ignored_folder_files)
            }
        };
        too_many.then_some(WhyNotCovered::IgnoredFolder)
    }

    fn store_folder(&mut self, folder: &mut IndexFolder) -> Result<(), SnapshotStoreError> {
        // Should storing fail, the next scan must not believe the old one.
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

    /// A stamp proves that nothing changed since only if the change would have got another time.
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
                FolderVisit::LeftOut(WhyNotCovered::Unreadable)
            }
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            // That a repository is there is known, and no more; the file of a linked one is its own, too.
            let is_left_out =
                name == ignore_rules::GIT && !entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_left_out && !undo_in_progress::is_own(&name) {
                names.push(name);
            }
            if self.entries.saturating_add(names.len()) > self.limits.entries {
                return Err(FolderVisit::LeftOut(WhyNotCovered::TooManyFiles));
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
