//! The inventory: every path of a workspace from which a later git, editor or agent of the user would start a program, or
//! take its orders.
//!
//! It is not a list of names that are known to be dangerous, but what follows from the files that are there: git enters a
//! repository by `.git`, which may be a directory, a file or a link; that leads to a common directory, whose settings
//! include other files, name a directory of hooks and programs; its index names further repositories, and so on. All of
//! that is resolved here as git does it (`git_repository.rs`), and each path on the way is an entry, also where nothing is
//! yet. Taken before and after a command, two inventories show what the command opened, whichever door it took.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crow_core::protected::{PROTECTED, PROTECTED_SUFFIXES};
use crow_fs::{Directory, EntryName, FileIdentity};
use serde::{Deserialize, Serialize};

use super::entry_state::{EntryState, StateReader};

/// How many entries are looked at.
const ENTRIES: usize = 16_384;
/// How often a link may lead to another one.
const LINKS: usize = 8;

/// Why a path is in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// Settings of an editor, an agent or a service; a program that something trusted starts.
    Settings,
    /// By which git enters a repository: a `.git`, or the directory of a submodule's repository.
    GitEntrance,
    /// A file that leads git on: `commondir`, `gitdir`.
    GitRedirect,
    /// Settings of git.
    GitSettings,
    /// A directory of hooks, or a file in it.
    GitHook,
    /// What makes a directory a repository without a `.git`.
    BareRepository,
    /// What git does next: the lines of an interrupted rebase.
    GitTodo,
}

/// What is known of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InventoryEntry {
    pub role: Role,
    pub state: EntryState,
    /// Tells the file from one that took its place.
    pub identity: Option<FileIdentity>,
    /// By which path git entered the repository that this belongs to.
    pub entrance: Option<PathBuf>,
    /// Whether it leads out of what commands may change.
    pub leads_outside: bool,
    /// Whether it is a directory that was not looked into, because the kernel seals it.
    pub is_shallow: bool,
}

/// Which paths commands can change, and which of them the user gave free.
#[derive(Debug, Clone, Default)]
pub(in crate::sandbox) struct InventoryScope {
    pub(in crate::sandbox) roots: Vec<PathBuf>,
    /// Places beside the roots that commands may change.
    pub(in crate::sandbox) writable: Vec<PathBuf>,
    /// Paths relative to a root that commands may change although they are in the inventory.
    pub(in crate::sandbox) unprotected: Vec<PathBuf>,
    /// Further files and directories that something trusted starts or reads.
    pub(in crate::sandbox) protected: Vec<PathBuf>,
}

/// All that could start a program, at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    pub entries: BTreeMap<PathBuf, InventoryEntry>,
    /// What is to be kept from commands, with all that is in it: the topmost paths of the inventory.
    pub seals: BTreeSet<PathBuf>,
    /// Directories of repositories: they may change inside, but may not be renamed.
    pub pins: BTreeSet<PathBuf>,
    /// Directories of repositories outside of the workspace that commits write to.
    pub outside: Vec<PathBuf>,
    /// Whether there was more than is looked at.
    pub is_cut: bool,
}

/// Which directories need not be looked into: the kernel keeps commands from changing them.
pub(super) trait SealedPaths {
    /// Returns whether what is at a path is the same that the kernel seals.
    fn is_sealed(&self, path: &Path, identity: FileIdentity) -> bool;
}

/// No kernel seals anything.
pub(super) struct NothingSealed;

impl SealedPaths for NothingSealed {
    fn is_sealed(&self, _path: &Path, _identity: FileIdentity) -> bool {
        false
    }
}

/// Makes an inventory.
pub(super) struct Collector<'a> {
    pub(super) scope: &'a InventoryScope,
    pub(super) reader: &'a mut StateReader,
    sealed: &'a dyn SealedPaths,
    pub(super) inventory: Inventory,
    /// Directories of repositories that were looked at, by the entrance.
    pub(super) repositories: BTreeSet<PathBuf>,
}

impl InventoryScope {
    /// Returns whether commands can change what is at a path.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        self.roots.iter().chain(&self.writable).any(|folder| path.starts_with(folder))
    }

    /// Returns whether the user gave a path free.
    pub(super) fn is_unprotected(&self, path: &Path) -> bool {
        self.roots
            .iter()
            .filter_map(|root| path.strip_prefix(root).ok())
            .any(|relative| self.unprotected.iter().any(|open| relative.starts_with(open)))
    }
}

impl Inventory {
    /// Looks at all that is in scope.
    pub(super) fn collect(
        scope: &InventoryScope,
        reader: &mut StateReader,
        sealed: &dyn SealedPaths,
    ) -> Self {
        let mut collector = Collector {
            scope,
            reader,
            sealed,
            inventory: Self::default(),
            repositories: BTreeSet::new(),
        };
        for root in &scope.roots {
            collector.root(root);
        }
        for path in &scope.protected {
            collector.top(path, Role::Settings, None);
        }
        collector.inventory
    }
}

impl Collector<'_> {
    fn root(&mut self, root: &Path) {
        let Ok(directory) = Directory::open(root) else { return };
        for path in PROTECTED.iter().map(|name| root.join(name)) {
            if self.scope.is_unprotected(&path) {
                continue;
            }
            match path.file_name().map(EntryName::new) {
                Some(Ok(name)) if path.parent() == Some(root) => {
                    self.top_in(&directory, &name, &path, Role::Settings, None);
                }
                // In a directory of the root.
                _ => self.top(&path, Role::Settings, None),
            }
        }
        for name in directory.names().unwrap_or_default() {
            let bytes = name.as_os_str().as_encoded_bytes();
            if PROTECTED_SUFFIXES.iter().any(|suffix| bytes.ends_with(suffix.as_bytes())) {
                let path = root.join(name.as_os_str());
                self.top_in(&directory, &name, &path, Role::Settings, None);
            }
        }
        if !self.scope.is_unprotected(&root.join(".git")) {
            self.worktree(root);
        }
    }

    /// Adds a path with all that is in it, and where it leads if it is a link.
    pub(super) fn top(&mut self, path: &Path, role: Role, entrance: Option<&Path>) {
        // What is behind a link was resolved, or is not there.
        if let Ok((directory, name)) = Directory::open_parent(path) {
            self.top_in(&directory, &name, path, role, entrance);
        }
    }

    pub(super) fn top_in(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
        role: Role,
        entrance: Option<&Path>,
    ) {
        if self.scope.is_unprotected(path) || !self.scope.is_writable(path) {
            return;
        }
        let found = self.reader.look(directory, name, path);
        match found.0 {
            // There are many names and few files: what comes to be is new by not being here.
            EntryState::Absent => {}
            EntryState::Symlink { .. } => self.top_behind_link(path, role, found, entrance),
            EntryState::File { .. }
            | EntryState::Directory { .. }
            | EntryState::Special
            | EntryState::Unreadable => {
                self.inventory.seals.insert(path.to_owned());
                self.tree(directory, name, path, role, found, entrance);
            }
        }
    }

    /// Adds a link, and what it leads to if commands can change that.
    fn top_behind_link(
        &mut self,
        path: &Path,
        role: Role,
        found: (EntryState, Option<FileIdentity>),
        entrance: Option<&Path>,
    ) {
        let target = resolve_link(path).filter(|target| self.scope.is_writable(target));
        self.insert(path, role, found, entrance);
        if let Some(entry) = self.inventory.entries.get_mut(path) {
            entry.leads_outside = target.is_none();
        }
        let Some(target) = target else { return };
        let Ok((directory, name)) = Directory::open_parent(&target) else { return };
        let found = self.reader.look(&directory, &name, &target);
        if !matches!(found.0, EntryState::Absent | EntryState::Symlink { .. }) {
            self.inventory.seals.insert(target.clone());
        }
        self.tree(&directory, &name, &target, role, found, entrance);
    }

    fn tree(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
        role: Role,
        found: (EntryState, Option<FileIdentity>),
        entrance: Option<&Path>,
    ) {
        let is_directory = matches!(found.0, EntryState::Directory { .. });
        let is_sealed = found.1.is_some_and(|identity| self.sealed.is_sealed(path, identity));
        self.insert(path, role, found, entrance);
        if is_directory
            && is_sealed
            && let Some(entry) = self.inventory.entries.get_mut(path)
        {
            entry.is_shallow = true;
        }
        if !is_directory || is_sealed {
            return;
        }
        let Ok(inner) = directory.open_beneath(Path::new(name.as_os_str())) else { return };
        for name in inner.names().unwrap_or_default() {
            if self.inventory.entries.len() >= ENTRIES {
                self.inventory.is_cut = true;
                return;
            }
            // Git never runs its examples.
            let is_example =
                role == Role::GitHook && name.as_os_str().as_encoded_bytes().ends_with(b".sample");
            if is_example {
                continue;
            }
            let path = path.join(name.as_os_str());
            let found = self.reader.look(&inner, &name, &path);
            self.tree(&inner, &name, &path, role, found, entrance);
        }
    }

    pub(super) fn insert(
        &mut self,
        path: &Path,
        role: Role,
        (state, identity): (EntryState, Option<FileIdentity>),
        entrance: Option<&Path>,
    ) {
        if self.scope.is_unprotected(path) {
            return;
        }
        let entrance = entrance.map(Path::to_owned);
        let entry = InventoryEntry {
            role,
            state,
            identity,
            entrance,
            leads_outside: false,
            is_shallow: false,
        };
        // What was added first, from nearer to the root, says why it is here.
        self.inventory.entries.entry(path.to_owned()).or_insert(entry);
    }
}

/// Returns where a link leads in the end, as far as that exists. Reads nothing but links.
pub(super) fn resolve_link(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(real) = path.canonicalize() {
            return Some(real);
        }
        // It leads to nothing yet: to where something could be made.
        let target = crow_fs::read_link(&path).ok()?;
        let next = path.parent()?.join(target);
        let (parent, name) = (next.parent()?.canonicalize().ok()?, next.file_name()?.to_owned());
        path = parent.join(name);
        if crow_fs::metadata(&path).is_err() {
            return Some(path);
        }
    }
    None
}
