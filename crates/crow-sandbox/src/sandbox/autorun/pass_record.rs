//! Record of everything that a pass (one collection of the inventory) looked at, so that the next pass can
//! be skipped if nothing of it has changed.
//!
//! Most commands change nothing that could start a program, but another pass would cost more than the
//! command itself. The result of a pass depends only on what it looked at: existing entries, missing names,
//! lists of names, and targets of links. The record stores all of these with inode times, which no program
//! can set. If all are unchanged, another pass would give the same result.
//!
//! - Existing entries are checked by one system call each. Any difference invalidates the record, except in
//!   a directory's times, which change with each of its entries: then the names that the pass asked for are
//!   checked one by one.
//! - A missing entry can only appear by a change of the nearest existing directory above it.
//! - All directories above are in the record, too, so every path still leads to the same place.
//! - Targets of links are resolved again each time.
//! - Directories with many entries in the record are held open, and these entries are looked at from there: that
//!   takes half of the time of resolving a long path. An open directory keeps its inode, so as long as the check of its
//!   own path finds the same one, both lead to the same entries.
//!
//! A record is made only if every time in it is older than the pass by more than one tick of the clock. So
//! any change during or after the pass has another time stamp.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName, metadata_through_links};

use super::{
    entry_state::is_absence, inventory::InventoryScope, pass_view::resolve_link,
    protected_names::may_be_protected,
};
use crow_fs::change_time::{is_settled, nanoseconds, since_1970};

/// Maximum number of paths in a record.
const PATHS: usize = 8192;
/// Number of entries of a directory from which it is held open.
const ENTRIES_OF_HELD_DIRECTORY: usize = 6;
/// Maximum number of directories that a record holds open.
const HELD_DIRECTORIES: usize = 64;
/// Number of paths from which a record is checked by two threads: a start of a thread costs as much as some dozens of
/// system calls.
const PATHS_FOR_TWO_THREADS: usize = 256;

/// Names of a directory that a pass has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListedNames {
    All(Vec<EntryName>),
    /// Only the names that may be protected in a root.
    Protected(Vec<EntryName>),
    /// Only the links.
    Links(Vec<EntryName>),
    /// Only the links and the directories.
    LinksAndDirectories(Vec<EntryName>),
}

/// Everything that a pass looks at, collected while it runs.
#[derive(Debug)]
pub(super) struct PassObservations {
    started: i64,
    entries: HashSet<PathBuf>,
    /// The same directory may be listed in several ways.
    names: HashMap<PathBuf, Vec<ListedNames>>,
    /// Final targets of links, also those that do not exist yet.
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Resolved paths; `None` if resolving failed.
    real_paths: BTreeMap<PathBuf, Option<PathBuf>>,
}

/// Everything that the result of a pass depends on.
#[derive(Debug)]
pub(super) struct PassRecord {
    present: Vec<PresentEntry>,
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    real_paths: BTreeMap<PathBuf, Option<PathBuf>>,
}

/// Entry that existed.
#[derive(Debug)]
struct PresentEntry {
    path: PathBuf,
    /// A directory above that is held open, and the path from there.
    held: Option<(Arc<Directory>, PathBuf)>,
    metadata: EntryMetadata,
    /// True if every later change gets a later time stamp than the one in `metadata`.
    is_settled: bool,
    /// Paths below it that were looked for and did not exist.
    absent: Vec<PathBuf>,
    names: Vec<ListedNames>,
}

impl ListedNames {
    /// Selects the names of a root that may be protected.
    pub(super) fn protected(names: &[EntryName]) -> Self {
        Self::Protected(names.iter().filter(|name| may_be_protected(name)).cloned().collect())
    }

    /// Returns true if a directory still has the same names.
    fn are_unchanged(&self, folder: &Path) -> bool {
        let Ok(now) = Directory::open(folder).and_then(|directory| directory.entries(usize::MAX))
        else {
            return false;
        };
        let is_link = |kind: EntryKind| kind == EntryKind::Symlink;
        let is_listed = |(name, kind): &&(EntryName, EntryKind)| match self {
            Self::All(_) => true,
            Self::Protected(_) => may_be_protected(name),
            Self::Links(_) => is_link(*kind),
            Self::LinksAndDirectories(_) => is_link(*kind) || *kind == EntryKind::Directory,
        };
        let (Self::All(before)
        | Self::Protected(before)
        | Self::Links(before)
        | Self::LinksAndDirectories(before)) = self;
        let now: BTreeSet<_> = now.iter().filter(is_listed).map(|(name, _)| name).collect();
        now.len() == before.len() && now == before.iter().collect()
    }
}

impl Default for PassObservations {
    fn default() -> Self {
        Self {
            started: since_1970(SystemTime::now()),
            entries: HashSet::new(),
            names: HashMap::new(),
            links: BTreeMap::new(),
            real_paths: BTreeMap::new(),
        }
    }
}

impl PassObservations {
    /// Records that a path was looked at.
    pub(super) fn entry(&mut self, path: PathBuf) {
        self.entries.insert(path);
    }

    /// Records the names that were seen in a directory.
    pub(super) fn names(&mut self, folder: PathBuf, names: ListedNames) {
        self.entries.insert(folder.clone());
        let known = self.names.entry(folder).or_default();
        if !known.contains(&names) {
            known.push(names);
        }
    }

    /// Records the target of a link.
    pub(super) fn link(&mut self, path: PathBuf, target: Option<PathBuf>) {
        self.links.insert(path, target);
    }

    /// Records the resolved form of a path.
    pub(super) fn real_path(&mut self, path: PathBuf, real: Option<PathBuf>) {
        self.real_paths.insert(path, real);
    }

    /// Returns the record; `None` if something changed too recently to be sure, or if there are too many
    /// paths.
    pub(super) fn into_record(self, scope: &InventoryScope) -> Option<PassRecord> {
        let Self { started, mut entries, mut names, links, real_paths } = self;
        if entries.len() > PATHS {
            // 1) Add all parent directories.
            return None;
        }
        // Stops at a parent that is already known, since then all above it are: paths may be thousands of
        // bytes long, and deeply nested.
        let mut on_the_way = HashSet::new();
        for path in &entries {
            for above in path.ancestors().skip(1) {
                if entries.contains(above) || !on_the_way.insert(above.to_owned()) {
                    break;
                }
            }
        }
        // No command can replace these directories, and other programs may work in them all the time.
        let is_fixed = |path: &Path| on_the_way.contains(path) && !scope.is_writable(path);
        entries.extend(on_the_way.iter().cloned());
        if entries.len() > PATHS {
            return None;
        }
        // 2) Look at every path. Sorted by path components, so that directories come before their contents:
        //    programs are also written as `folder/./name`, which would come before `folder` in byte order.
        let mut entries: Vec<PathBuf> = entries.into_iter().collect();
        entries.sort_unstable();
        let mut present: Vec<PresentEntry> = Vec::new();
        let mut positions: HashMap<PathBuf, usize> = HashMap::new();
        for path in entries {
            match metadata_through_links(&path) {
                Ok(metadata) => {
                    let is_settled = is_settled(nanoseconds(metadata.changed), started);
                    // Another directory may have been moved here since the pass, with an equally recent
                    // time.
                    if !is_settled && !is_fixed(&path) {
                        return None;
                    }
                    let names = names.remove(&path).unwrap_or_default();
                    let absent = Vec::new();
                    positions.insert(path.clone(), present.len());
                    let entry =
                        PresentEntry { path, held: None, metadata, is_settled, absent, names };
                    present.push(entry);
                }
                Err(error) if is_absence(&error) => {
                    names.remove(&path);
                    let nearest =
                        path.ancestors().skip(1).find_map(|above| positions.get(above))?;
                    present[*nearest].absent.push(path);
                }
                // A word of a setting that cannot be a file name.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
                Err(_) => return None,
            }
        }
        hold_directories(&mut present);
        names.is_empty().then_some(PassRecord { present, links, real_paths })
    }
}

/// Opens the directories that have the most entries in a record, so that these entries can be looked at from there.
fn hold_directories(present: &mut [PresentEntry]) {
    let mut counts: HashMap<&Path, usize> = HashMap::new();
    for entry in &*present {
        *counts.entry(entry.path.parent().unwrap_or(&entry.path)).or_default() += 1;
    }
    let has_many = |entry: &&PresentEntry| {
        entry.metadata.is_directory()
            && counts
                .get(entry.path.as_path())
                .is_some_and(|count| *count >= ENTRIES_OF_HELD_DIRECTORY)
    };
    let held = present.iter().filter(has_many).take(HELD_DIRECTORIES).filter_map(|entry| {
        let directory = Directory::open(&entry.path).ok()?;
        // Another directory may have been moved here meanwhile.
        let is_same =
            directory.identity().is_ok_and(|identity| identity == entry.metadata.identity);
        is_same.then(|| (entry.path.clone(), Arc::new(directory)))
    });
    let mut held = held.collect::<Vec<_>>().into_iter().peekable();
    // Directories come before their contents: those around an entry are a stack.
    let mut around: Vec<(PathBuf, Arc<Directory>)> = Vec::new();
    for entry in present {
        while around.pop_if(|(above, _)| path_below(&entry.path, above).is_none()).is_some() {}
        entry.held = around.last().and_then(|(above, directory)| {
            Some((Arc::clone(directory), path_below(&entry.path, above)?.to_owned()))
        });
        around.extend(held.next_if(|(path, _)| *path == entry.path));
    }
}

/// Returns the part of a path below a directory that is written the same way. Compares bytes: a path may have 2,000
/// components, and is compared with every directory around it.
fn path_below<'a>(path: &'a Path, directory: &Path) -> Option<&'a Path> {
    let below = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes())?;
    let below = below.strip_prefix(b"/")?;
    (!below.starts_with(b"/")).then(|| Path::new(OsStr::from_bytes(below)))
}

impl PassRecord {
    /// Returns true if another pass would give the same result.
    pub(super) fn is_unchanged(&mut self) -> bool {
        let started = since_1970(SystemTime::now());
        let are_unchanged = |entries: &mut [PresentEntry]| {
            entries.iter_mut().all(|entry| entry.is_unchanged(started))
        };
        let are_present_unchanged = if self.present.len() < PATHS_FOR_TWO_THREADS {
            are_unchanged(&mut self.present)
        } else {
            let half = self.present.len() / 2;
            let (first, second) = self.present.split_at_mut(half);
            thread::scope(|scope| {
                let other = thread::Builder::new().spawn_scoped(scope, || are_unchanged(second));
                let is_first_unchanged = are_unchanged(first);
                // Without a thread another pass is taken.
                let is_second_unchanged =
                    other.is_ok_and(|other| other.join().is_ok_and(|unchanged| unchanged));
                is_first_unchanged && is_second_unchanged
            })
        };
        are_present_unchanged
            && self.links.iter().all(|(path, target)| resolve_link(path) == *target)
            && self.real_paths.iter().all(|(path, real)| path.canonicalize().ok() == *real)
    }
}

impl PresentEntry {
    fn is_unchanged(&mut self, started: i64) -> bool {
        let found = match &self.held {
            Some((directory, below)) => directory.metadata_through_links(below),
            None => metadata_through_links(&self.path),
        };
        let Ok(now) = found else { return false };
        if self.is_settled && now == self.metadata {
            return true;
        }
        let is_same_directory = now.is_directory()
            && self.metadata.is_directory()
            && (now.identity, now.mode, now.user, now.group)
                == (
                    self.metadata.identity,
                    self.metadata.mode,
                    self.metadata.user,
                    self.metadata.group,
                );
        let is_unchanged = is_same_directory
            && self
                .absent
                .iter()
                .all(|path| metadata_through_links(path).is_err_and(|error| is_absence(&error)))
            && self.names.iter().all(|names| names.are_unchanged(&self.path));
        self.metadata = now;
        self.is_settled = is_settled(nanoseconds(now.changed), started);
        is_unchanged
    }
}
