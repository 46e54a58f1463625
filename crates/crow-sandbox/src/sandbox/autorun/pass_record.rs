//! What a pass looked at, so that the next one can be left out if nothing of it has changed.
//!
//! Most commands change nothing that could start a program, but to find that out by another pass costs more than the
//! command. A pass is a function of what it looked at: entries that were there, names that were not, lists of names, and
//! where links lead. The record keeps all of these with the inode times that no program can set. If each of them answers
//! as it did, another pass would find the same.
//!
//! - What was there is looked at again by one system call. Any difference ends the record, except in a directory's times,
//!   which change with each of its entries: then the names that the pass asked for are looked at one by one.
//! - What was not there can only come to be by a change of the nearest directory around it that is there.
//! - All directories on the way are in the record, too, so that no path leads elsewhere than it did.
//! - Where links lead is resolved again each time.
//!
//! A record is made only where every time in it is older than the pass by more than a tick of the clock. So whatever
//! changed while the pass looked, or changes later, bears another time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crow_fs::{EntryMetadata, EntryName, metadata_through_links};

use super::{
    entry_state::is_absence, inventory::InventoryScope, pass_view::resolve_link,
    protected_names::may_be_protected,
};
use crow_fs::change_time::{is_settled, nanoseconds, since_1970};

/// The most paths that are looked at again instead of a pass.
const PATHS: usize = 8192;

/// Which names of a directory a pass has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListedNames {
    All(Vec<EntryName>),
    /// Only those that may be protected in a root.
    Protected(Vec<EntryName>),
}

/// What a pass looked at, collected while it does.
#[derive(Debug)]
pub(super) struct PassObservations {
    started: i64,
    entries: HashSet<PathBuf>,
    names: HashMap<PathBuf, ListedNames>,
    /// Where links led to in the end, also if nothing is there yet.
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    /// What paths were without links.
    real_paths: BTreeMap<PathBuf, Option<PathBuf>>,
}

/// All that the result of a pass followed from.
#[derive(Debug)]
pub(super) struct PassRecord {
    present: Vec<PresentEntry>,
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    real_paths: BTreeMap<PathBuf, Option<PathBuf>>,
}

/// An entry that was there.
#[derive(Debug)]
struct PresentEntry {
    path: PathBuf,
    metadata: EntryMetadata,
    /// Whether a later change bears a later time than the one in `metadata`.
    is_settled: bool,
    /// What was looked for in it and was not there.
    absent: Vec<PathBuf>,
    names: Option<ListedNames>,
}

impl ListedNames {
    /// Of the names in a root, those that may be protected.
    pub(super) fn protected(names: &[EntryName]) -> Self {
        Self::Protected(names.iter().filter(|name| may_be_protected(name)).cloned().collect())
    }

    /// Returns whether the same names are in a directory now.
    fn are_unchanged(&self, folder: &Path) -> bool {
        let Ok(now) = crow_fs::read_directory(folder) else { return false };
        let (now, before) = match self {
            Self::All(names) => (Self::All(now), names),
            Self::Protected(names) => (Self::protected(&now), names),
        };
        let (Self::All(now) | Self::Protected(now)) = &now;
        now.len() == before.len() && now.iter().collect::<BTreeSet<_>>() == before.iter().collect()
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
    /// Notes that something was looked for at a path.
    pub(super) fn entry(&mut self, path: PathBuf) {
        self.entries.insert(path);
    }

    /// Notes which names were seen in a directory.
    pub(super) fn names(&mut self, folder: PathBuf, names: ListedNames) {
        self.entries.insert(folder.clone());
        self.names.insert(folder, names);
    }

    /// Notes where a link led to.
    pub(super) fn link(&mut self, path: PathBuf, target: Option<PathBuf>) {
        self.links.insert(path, target);
    }

    /// Notes what a path was without links.
    pub(super) fn real_path(&mut self, path: PathBuf, real: Option<PathBuf>) {
        self.real_paths.insert(path, real);
    }

    /// Returns what tells later whether anything has changed; none if something is too new to tell, or if there is too much.
    pub(super) fn into_record(self, scope: &InventoryScope) -> Option<PassRecord> {
        let Self { started, mut entries, mut names, links, real_paths } = self;
        if entries.len() > PATHS {
            return None;
        }
        // Above a path that is in one of both sets, all are: paths may be thousands of bytes long, and many may lie in one
        // another.
        let mut on_the_way = HashSet::new();
        for path in &entries {
            for above in path.ancestors().skip(1) {
                if entries.contains(above) || !on_the_way.insert(above.to_owned()) {
                    break;
                }
            }
        }
        // No command exchanges these, and others may work there all the time.
        let is_fixed = |path: &Path| on_the_way.contains(path) && !scope.is_writable(path);
        entries.extend(on_the_way.iter().cloned());
        if entries.len() > PATHS {
            return None;
        }
        // Directories come before what is in them, in the order of paths: names of programs are written `folder/./name`,
        // too, which would come before `folder` in the order of bytes.
        let mut entries: Vec<PathBuf> = entries.into_iter().collect();
        entries.sort_unstable();
        let mut present: Vec<PresentEntry> = Vec::new();
        let mut places: HashMap<PathBuf, usize> = HashMap::new();
        for path in entries {
            match metadata_through_links(&path) {
                Ok(metadata) => {
                    let is_settled = is_settled(nanoseconds(metadata.changed), started);
                    // Another directory may have been moved here since the pass: that would be as new.
                    if !is_settled && !is_fixed(&path) {
                        return None;
                    }
                    let (names, absent) = (names.remove(&path), Vec::new());
                    places.insert(path.clone(), present.len());
                    present.push(PresentEntry { path, metadata, is_settled, absent, names });
                }
                Err(error) if is_absence(&error) => {
                    names.remove(&path);
                    let nearest = path.ancestors().skip(1).find_map(|above| places.get(above))?;
                    present[*nearest].absent.push(path);
                }
                // A word of a setting that can be no name.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
                Err(_) => return None,
            }
        }
        names.is_empty().then_some(PassRecord { present, links, real_paths })
    }
}

impl PassRecord {
    /// Returns whether another pass would find the same.
    pub(super) fn is_unchanged(&mut self) -> bool {
        let started = since_1970(SystemTime::now());
        self.present.iter_mut().all(|entry| entry.is_unchanged(started))
            && self.links.iter().all(|(path, target)| resolve_link(path) == *target)
            && self.real_paths.iter().all(|(path, real)| path.canonicalize().ok() == *real)
    }
}

impl PresentEntry {
    fn is_unchanged(&mut self, started: i64) -> bool {
        let Ok(now) = metadata_through_links(&self.path) else { return false };
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
            && self.names.as_ref().is_none_or(|names| names.are_unchanged(&self.path));
        self.metadata = now;
        self.is_settled = is_settled(nanoseconds(now.changed), started);
        is_unchanged
    }
}
