//! Finds repositories below the roots that no index names: `git add -A` in the root would add each of them,
//! and from then on git enters it from the root.
//!
//! The search walks the directories that `git add` would walk: not into a `.git`, through a link, or into
//! ignored directories. A directory is listed again only if its change time, which no program can set, has
//! changed; all others cost one system call. A walk is made before and after each command, and while
//! commands run only as often as it takes a small part of the time.
//!
//! A directory counts as ignored only if both the present rules and those from before the commands ignore
//! it: a command can write rules as well.
//!
//! Git enters a directory that cannot be listed: it only looks names up. So a directory that a command has closed to
//! its owner is opened again after the command, and then searched like all others.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use crow_fs::{
    Directory, EntryKind, EntryMetadata, EntryName,
    change_time::{is_settled, nanoseconds, since_1970},
    metadata_through_links,
};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{inventory::InventoryScope, repair::open_way};

const GIT: &str = ".git";
const RULES: &str = ".gitignore";
/// Maximum number of directories, those nearest to the roots first.
const DIRECTORIES: usize = 16_384;
/// Maximum size in bytes of a `.gitignore` file.
const RULES_BYTES: u64 = 1 << 20;
/// Pause after a walk while commands run, as a multiple of the walk's duration.
const REST: u32 = 50;

/// Occasion of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// No command runs, so the ignore rules are the user's.
    Between,
    /// The same after a session was killed: what its commands left is searched for.
    Recovery,
    /// A command has ended.
    After,
    /// Commands run.
    During,
}

/// Search for nested repositories, with cached directory listings.
#[derive(Debug, Default)]
pub(super) struct NestedRepositories {
    known: HashMap<PathBuf, KnownDirectory>,
    rules: HashMap<PathBuf, Rules>,
    /// Ignore rules from before the commands.
    rules_before: HashMap<PathBuf, Gitignore>,
    /// Directories that could not be listed before the commands.
    closed_before: HashMap<PathBuf, EntryMetadata>,
    /// The `.git` path of each repository found.
    found: BTreeSet<PathBuf>,
    ended: Option<(Instant, Duration)>,
}

/// Cached listing of a directory.
#[derive(Debug)]
struct KnownDirectory {
    metadata: EntryMetadata,
    /// True if every later change is certain to get another time stamp.
    is_settled: bool,
    folders: Vec<EntryName>,
    has_git: bool,
    has_rules: bool,
}

/// Parsed `.gitignore` file.
#[derive(Debug)]
struct Rules {
    metadata: EntryMetadata,
    is_settled: bool,
    parsed: Gitignore,
}

impl NestedRepositories {
    /// Returns the result of the last walk.
    pub(super) fn found(&self) -> &BTreeSet<PathBuf> {
        &self.found
    }

    /// Searches for repositories, unless the last walk was too recent.
    pub(super) fn search(&mut self, scope: &InventoryScope, moment: Moment) {
        let started = Instant::now();
        if let (Moment::During, Some((ended, took))) = (moment, self.ended)
            && started.duration_since(ended) < took * REST
        {
            return;
        }
        self.walk(scope, moment);
        self.ended = Some((Instant::now(), started.elapsed()));
    }

    fn walk(&mut self, scope: &InventoryScope, moment: Moment) {
        let mut before = std::mem::take(&mut self.known);
        let mut old_rules = std::mem::take(&mut self.rules);
        self.found.clear();
        if moment == Moment::Between {
            self.closed_before.clear();
        }
        // Breadth first, so that the limit cuts off the deepest directories.
        let mut waiting: VecDeque<PathBuf> = scope
            .roots
            .iter()
            .filter(|root| !scope.is_unprotected(&root.join(GIT)))
            .cloned()
            .collect();
        let roots = waiting.clone();
        let now = since_1970(SystemTime::now());
        while let Some(path) = waiting.pop_front() {
            if self.known.len() >= DIRECTORIES {
                tracing::warn!(
                    "not all directories are searched for repositories: there are too many"
                );
                break;
            }
            if self.known.contains_key(&path) {
                continue;
            }
            // Follows links: a link in place of the directory leads to another one.
            let metadata = metadata_through_links(&path);
            // 1) Listing of the directory, from the cache if nothing has changed.
            let is_unchanged = |known: &KnownDirectory| {
                known.is_settled && metadata.as_ref().is_ok_and(|now| *now == known.metadata)
            };
            let listed = match before.remove(&path) {
                Some(former) if is_unchanged(&former) => Ok(former),
                former => KnownDirectory::list(&path, now).or_else(|error| {
                    if error.kind() != io::ErrorKind::PermissionDenied {
                        return Err(error);
                    }
                    self.list_closed(&path, former, metadata?, scope, moment)
                }),
            };
            let Ok(known) = listed else { continue };
            // 2) Rules come before the subdirectories to which they apply.
            if known.has_rules {
                let old = old_rules.remove(&path);
                self.read_rules(&path, old, now);
            }
            if known.has_git && !roots.contains(&path) {
                self.found.insert(path.join(GIT));
            }
            for name in &known.folders {
                let inner = path.join(name.as_os_str());
                if !self.is_left_out(&inner, scope, moment) {
                    waiting.push_back(inner);
                }
            }
            self.known.insert(path, known);
        }
        // These rules are the user's; later walks compare with them.
        if moment == Moment::Between {
            let rules = self.rules.iter();
            self.rules_before =
                rules.map(|(path, rules)| (path.clone(), rules.parsed.clone())).collect();
        }
    }

    /// Returns what can be known of a directory that its owner cannot list. If a command may have closed it, it is
    /// opened.
    fn list_closed(
        &mut self,
        path: &Path,
        former: Option<KnownDirectory>,
        metadata: EntryMetadata,
        scope: &InventoryScope,
        moment: Moment,
    ) -> io::Result<KnownDirectory> {
        let is_of_user = self.closed_before.get(path) == Some(&metadata);
        match moment {
            Moment::Between => {
                self.closed_before.insert(path.to_owned(), metadata);
            }
            Moment::After | Moment::Recovery if !is_of_user && open_way(scope, path) => {
                return KnownDirectory::list(path, since_1970(SystemTime::now()));
            }
            // While a command runs it may need the directory as it is, for example to test an error.
            Moment::After | Moment::Recovery | Moment::During => {}
        }
        let has = |name: &str| metadata_through_links(&path.join(name)).is_ok();
        Ok(KnownDirectory {
            metadata,
            is_settled: false,
            folders: former.map(|former| former.folders).unwrap_or_default(),
            has_git: has(GIT),
            has_rules: has(RULES),
        })
    }

    fn read_rules(&mut self, folder: &Path, old: Option<Rules>, now: i64) {
        let opened = Directory::open_parent(&folder.join(RULES));
        let Ok((directory, name)) = opened else { return };
        let Ok(metadata) = directory.metadata(&name) else { return };
        let unchanged = old.filter(|old| old.is_settled && old.metadata == metadata);
        let rules = unchanged.or_else(|| {
            let file = directory.open_file(&name).ok()?;
            let bytes = crow_fs::read_file(file, RULES_BYTES).ok()?;
            let mut builder = GitignoreBuilder::new(folder);
            for line in String::from_utf8_lossy(&bytes).lines() {
                // An invalid line ignores nothing.
                drop(builder.add_line(None, line));
            }
            let is_settled = is_settled(nanoseconds(metadata.changed), now);
            Some(Rules { metadata, is_settled, parsed: builder.build().ok()? })
        });
        if let Some(rules) = rules {
            self.rules.insert(folder.to_owned(), rules);
        }
    }

    fn is_left_out(&self, path: &Path, scope: &InventoryScope, moment: Moment) -> bool {
        let now = |folder: &Path| self.rules.get(folder).map(|rules| &rules.parsed);
        let before = |folder: &Path| self.rules_before.get(folder);
        is_ignored(path, scope, now)
            && (matches!(moment, Moment::Between | Moment::Recovery)
                || is_ignored(path, scope, before))
    }
}

impl KnownDirectory {
    fn list(path: &Path, now: i64) -> io::Result<Self> {
        let directory = Directory::open(path)?;
        let metadata = directory.own_metadata()?;
        let mut folders = Vec::new();
        let (mut has_git, mut has_rules) = (false, false);
        for (name, kind) in directory.entries(usize::MAX)? {
            if name.as_os_str() == GIT {
                has_git = true;
            } else if kind == EntryKind::Directory {
                folders.push(name);
            } else if name.as_os_str() == RULES {
                has_rules = true;
            }
        }
        let is_settled = is_settled(nanoseconds(metadata.changed), now);
        Ok(Self { metadata, is_settled, folders, has_git, has_rules })
    }
}

/// Returns true if a directory is ignored. The nearest rules with a match decide.
fn is_ignored<'a>(
    path: &Path,
    scope: &InventoryScope,
    rules: impl Fn(&Path) -> Option<&'a Gitignore>,
) -> bool {
    let is_inside = |folder: &&Path| scope.roots.iter().any(|root| folder.starts_with(root));
    let above = path.ancestors().skip(1).take_while(is_inside);
    let mut matches = above.filter_map(rules).map(|rules| rules.matched(path, true));
    matches.find(|one| !one.is_none()).is_some_and(|one| one.is_ignore())
}
