//! Inventory of every path in a workspace from which git, an editor or an agent would later start a program
//! or take instructions.
//!
//! It is no fixed list of dangerous names, but derived from the files that exist: git enters a repository
//! by `.git`, which may be a directory, a file or a link; that leads to a common directory, whose settings
//! include other files, name a hooks directory and programs; its index names further repositories, and so
//! on. All of this is resolved here as git does it (`git_repository.rs`), and each path on the way gets an
//! entry, also if nothing exists there yet. The difference of two inventories, before and after a command,
//! shows what the command opened up, by whatever route.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
};

use crow_core::protected::AGENT_INSTRUCTIONS;
use crow_fs::{Directory, EntryKind, EntryName, FileIdentity, LinkTrail};
use serde::{Deserialize, Serialize};

use super::{
    entry_state::{EntryObservation, EntryState, StateReader},
    pass_record::ListedNames,
    pass_view::PassView,
};
use crate::sandbox::config::UserGit;

/// Maximum number of entries.
const ENTRIES: usize = 16_384;
/// Maximum nesting depth of directories and repositories.
const LAYERS: usize = 64;
/// Maximum number of entries of a directory of hooks outside the workspace whose links are followed.
const MOST_HOOKS: usize = 1024;

/// Reason why a path is in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InventoryRole {
    /// Settings of an editor, an agent or a service; or a program that something trusted starts.
    Settings,
    /// Path by which git enters a repository: a `.git`, or the directory of a submodule's repository.
    GitEntrance,
    /// File that redirects git: `commondir`, `gitdir`.
    GitRedirect,
    /// Git configuration file.
    GitSettings,
    /// Hooks directory, or a file in it.
    GitHook,
    /// File that makes a directory a repository without a `.git`.
    BareRepository,
    /// State file of an interrupted rebase or cherry-pick.
    GitTodo,
}

/// Entry of the inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InventoryEntry {
    pub role: InventoryRole,
    pub state: EntryState,
    /// Device and inode, which distinguish the file from a replacement.
    pub identity: Option<FileIdentity>,
    /// Path by which git entered the repository of this entry.
    pub entrance: Option<PathBuf>,
    /// True if it leads out of what commands may change. A `commondir` must lead to the repository that has the
    /// worktree.
    pub leads_outside: bool,
    /// True for a directory that was not read, because the kernel seals it.
    pub is_shallow: bool,
    /// True for a directory that was not read completely, because there are too many entries.
    pub is_cut: bool,
}

/// Paths that commands can change, and exceptions made by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::sandbox) struct InventoryScope {
    pub(in crate::sandbox) roots: Vec<PathBuf>,
    /// Further paths that commands may change.
    pub(in crate::sandbox) writable: Vec<PathBuf>,
    /// Paths relative to a root that commands may change although they are in the inventory.
    pub(in crate::sandbox) unprotected: Vec<PathBuf>,
    /// Further files and directories that something trusted starts or reads.
    pub(in crate::sandbox) protected: Vec<PathBuf>,
    /// Links on the way to files of the user, without what they lead to.
    pub(in crate::sandbox) links: Vec<PathBuf>,
    /// Location of the user's own git settings.
    pub(in crate::sandbox) git: UserGit,
}

/// All paths that could start a program, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    pub entries: BTreeMap<PathBuf, InventoryEntry>,
    /// Paths to seal with everything below: the topmost paths of the inventory.
    pub seals: BTreeSet<PathBuf>,
    /// Further paths to seal for background jobs: git itself writes and removes these, so for other
    /// commands they are only compared.
    pub job_seals: BTreeSet<PathBuf>,
    /// Git directories: their contents may change, but they must not be renamed.
    pub pins: BTreeSet<PathBuf>,
    /// Git directories outside of the workspace that commits write to.
    pub external_git_directories: Vec<PathBuf>,
    /// Modes of the roots.
    pub roots: BTreeMap<PathBuf, u32>,
    /// True if a limit cut the inventory short.
    pub is_cut: bool,
    /// Missing paths that something names, collected on request: files, and (in `absent`) those that may
    /// become directories.
    pub absent_files: BTreeSet<PathBuf>,
    pub absent: BTreeSet<PathBuf>,
}

/// Purpose of an inventory.
#[derive(Debug, Clone, Copy)]
pub(super) enum InventoryPurpose<'a> {
    /// To be compared with another one.
    Comparison,
    /// To find out which of these paths, once a tool has written them, start programs. Missing paths that something
    /// names are collected as well.
    PlannedWrites(&'a [PathBuf]),
}

/// Paths that the kernel prevents commands from changing.
pub(super) trait SealedPaths {
    /// Returns true if the file at `path` is the one that the kernel seals, with everything below: it need
    /// not be read.
    fn is_sealed(&self, path: &Path, identity: FileIdentity) -> bool;

    /// Returns true if no command can have changed or created what is at a path.
    fn is_unchangeable(&self, path: &Path) -> bool;
}

/// Case without any kernel seals.
pub(super) struct NothingSealed;

impl SealedPaths for NothingSealed {
    fn is_sealed(&self, _path: &Path, _identity: FileIdentity) -> bool {
        false
    }

    fn is_unchangeable(&self, _path: &Path) -> bool {
        false
    }
}

/// Builds an inventory: adds paths with what is below them and behind their links. Knows nothing of git.
pub(super) struct InventoryBuilder<'a> {
    pub(super) scope: &'a InventoryScope,
    pub(super) reader: &'a mut StateReader,
    sealed: &'a dyn SealedPaths,
    pub(super) inventory: Inventory,
    pub(super) view: PassView,
    /// Cached observations by path.
    found: HashMap<PathBuf, EntryObservation>,
    purpose: InventoryPurpose<'a>,
    /// Current nesting depth of directories and repositories.
    layer: usize,
    /// True while examining a repository that commands may remove, so that nothing in it is sealed.
    pub(super) is_removable: bool,
}

impl InventoryScope {
    /// Returns true if commands can change what is at a path.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        self.roots.iter().chain(&self.writable).any(|folder| path.starts_with(folder))
    }

    /// Returns true if the user excluded a path from protection.
    pub(super) fn is_unprotected(&self, path: &Path) -> bool {
        self.roots
            .iter()
            .filter_map(|root| path.strip_prefix(root).ok())
            .any(|relative| self.unprotected.iter().any(|open| relative.starts_with(open)))
    }
}

impl Inventory {
    /// Returns the directories that were not read, because the kernel seals them.
    pub(super) fn shallow_entries(&self) -> impl Iterator<Item = (&PathBuf, Option<FileIdentity>)> {
        let shallow = self.entries.iter().filter(|(_, entry)| entry.is_shallow);
        shallow.map(|(path, entry)| (path, entry.identity))
    }
}

impl<'a> InventoryBuilder<'a> {
    /// Creates an empty inventory.
    pub(super) fn new(
        scope: &'a InventoryScope,
        reader: &'a mut StateReader,
        sealed: &'a dyn SealedPaths,
        purpose: InventoryPurpose<'a>,
    ) -> Self {
        Self {
            scope,
            reader,
            sealed,
            inventory: Inventory::default(),
            view: PassView::default(),
            found: HashMap::new(),
            purpose,
            layer: 0,
            is_removable: false,
        }
    }

    /// Finishes the inventory, and keeps what it was derived from in the reader.
    pub(super) fn finish(self) -> Inventory {
        let Self { scope, reader, inventory, view, found, .. } = self;
        let mut observations = view.into_observations();
        for path in found.into_keys() {
            observations.entry(path);
        }
        reader.keep_pass(scope, observations, &inventory);
        inventory
    }

    /// Returns the state of an entry of a directory, cached.
    pub(super) fn observe_entry(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
    ) -> EntryObservation {
        if let Some(found) = self.found.get(path) {
            return found.clone();
        }
        let found = self.reader.observe(directory, name, path);
        self.found.insert(path.to_owned(), found.clone());
        found
    }

    /// Returns the paths that a tool is about to write.
    pub(super) fn planned_writes(&self) -> &'a [PathBuf] {
        match self.purpose {
            InventoryPurpose::Comparison => &[],
            InventoryPurpose::PlannedWrites(paths) => paths,
        }
    }

    /// Returns true if something exists at a path, or will after the planned writes.
    pub(super) fn will_be_there(&self, path: &Path) -> bool {
        self.view.is_there(path)
            || self.planned_writes().iter().any(|written| written.starts_with(path))
    }

    /// Records a missing path that something names.
    pub(super) fn note_absent(&mut self, path: &Path) {
        if self.wants(path) {
            self.inventory.absent.insert(path.to_owned());
        }
    }

    /// Records a missing path that may be a program if it becomes a file.
    pub(super) fn note_absent_file(&mut self, path: &Path) {
        if self.wants(path) {
            self.inventory.absent_files.insert(path.to_owned());
        }
    }

    fn wants(&self, path: &Path) -> bool {
        matches!(self.purpose, InventoryPurpose::PlannedWrites(_))
            && self.scope.is_writable(path)
            && !self.scope.is_unprotected(path)
    }

    /// Adds a path with everything below, and its target if it is a link.
    pub(super) fn add(&mut self, path: &Path, role: InventoryRole, entrance: Option<&Path>) {
        // Parents with links were resolved before; a remaining one means that nothing exists there.
        match self.view.parent(path) {
            Ok((directory, name)) => self.add_in(&directory, &name, path, role, entrance),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.insert_unreadable(path, role, entrance);
            }
            Err(_) => self.note_absent(path),
        }
    }

    /// Adds only what is at a path itself: a link through which the user's programs read their files.
    pub(super) fn add_link(&mut self, path: &Path) {
        if self.scope.is_unprotected(path) || !self.scope.is_writable(path) {
            return;
        }
        match self.view.parent(path) {
            Ok((directory, name)) => {
                let found = self.observe_entry(&directory, &name, path);
                if found.state != EntryState::Absent {
                    self.insert(path, InventoryRole::Settings, found, None);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.insert_unreadable(path, InventoryRole::Settings, None);
            }
            Err(_) => self.note_absent(path),
        }
    }

    /// Adds what is behind links on the way of a path that lies outside of the workspace or leads there, and these
    /// links. A path without links is left out.
    pub(super) fn add_behind_links(
        &mut self,
        path: &Path,
        role: InventoryRole,
        entrance: Option<&Path>,
    ) {
        // The view records that the pass depends on where the path leads.
        let real = self.view.physical(path);
        let Some(trail) = LinkTrail::follow(path).filter(|trail| !trail.links.is_empty()) else {
            return;
        };
        for link in &trail.links {
            self.view.observe(link);
            self.add_link(link);
        }
        if self.scope.is_writable(&real) {
            self.add(&real, role, entrance);
        }
    }

    /// Adds the files of the workspace to which links in a directory of hooks elsewhere lead.
    pub(super) fn add_links_of_hooks(&mut self, folder: &Path, entrance: Option<&Path>) {
        if self.scope.is_writable(folder) {
            return;
        }
        for name in self.view.names_in(folder).iter().take(MOST_HOOKS) {
            let path = folder.join(name.as_os_str());
            self.add_behind_links(&path, InventoryRole::GitHook, entrance);
        }
    }

    pub(super) fn add_in(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
        role: InventoryRole,
        entrance: Option<&Path>,
    ) {
        if self.scope.is_unprotected(path) || !self.scope.is_writable(path) {
            return;
        }
        let found = self.observe_entry(directory, name, path);
        match found.state {
            // Missing paths get no entry: there are many names and few files, and a new file is noticed by
            // its new entry.
            EntryState::Absent => self.note_absent(path),
            EntryState::Symlink { .. } => self.top_behind_link(path, role, found, entrance),
            EntryState::File { .. }
            | EntryState::Directory { .. }
            | EntryState::Special
            | EntryState::Unreadable => {
                self.seal(path, role);
                self.add_tree(directory, name, path, role, found, entrance);
            }
        }
    }

    /// Marks a path to be sealed: for all commands, or only for jobs if git must be able to change it for
    /// the others.
    pub(super) fn seal(&mut self, path: &Path, role: InventoryRole) {
        let is_written_by_git = role == InventoryRole::GitTodo || self.is_removable;
        let Inventory { seals, job_seals, .. } = &mut self.inventory;
        let seals = if is_written_by_git { job_seals } else { seals };
        seals.insert(path.to_owned());
    }

    /// Marks an existing directory whose contents may change, but that must not be renamed.
    pub(super) fn pin(&mut self, path: &Path) {
        if !self.is_removable && self.view.is_there(path) {
            self.inventory.pins.insert(path.to_owned());
        }
    }

    /// Adds a link, and its target if commands can change that.
    fn top_behind_link(
        &mut self,
        path: &Path,
        role: InventoryRole,
        found: EntryObservation,
        entrance: Option<&Path>,
    ) {
        let target = self.view.resolve_link(path).filter(|target| self.scope.is_writable(target));
        self.insert(path, role, found, entrance);
        if let Some(entry) = self.inventory.entries.get_mut(path) {
            entry.leads_outside = target.is_none();
        }
        let Some(target) = target else { return };
        let Ok((directory, name)) = self.view.parent(&target) else { return };
        let found = self.observe_entry(&directory, &name, &target);
        if !matches!(found.state, EntryState::Absent | EntryState::Symlink { .. }) {
            self.seal(&target, role);
        }
        self.add_tree(&directory, &name, &target, role, found, entrance);
    }

    fn add_tree(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
        role: InventoryRole,
        found: EntryObservation,
        entrance: Option<&Path>,
    ) {
        let is_directory = matches!(found.state, EntryState::Directory { .. });
        let is_sealed =
            found.identity.is_some_and(|identity| self.sealed.is_sealed(path, identity));
        self.insert(path, role, found, entrance);
        if !is_directory {
            return;
        }
        let Ok(inner) = directory.open_beneath(Path::new(name.as_os_str())) else { return };
        if is_sealed && self.is_whole(&inner, path, LAYERS) {
            if let Some(entry) = self.inventory.entries.get_mut(path) {
                entry.is_shallow = true;
            }
            return;
        }
        let is_too_deep = self.enter_layer();
        self.names_of_tree(&inner, path, role, entrance, is_too_deep);
        self.leave_layer();
    }

    /// Enters a directory or a repository. Returns true if that is too deep.
    pub(super) fn enter_layer(&mut self) -> bool {
        self.layer += 1;
        self.layer > LAYERS
    }

    pub(super) fn leave_layer(&mut self) {
        self.layer -= 1;
    }

    fn names_of_tree(
        &mut self,
        inner: &Directory,
        path: &Path,
        role: InventoryRole,
        entrance: Option<&Path>,
        is_too_deep: bool,
    ) {
        let names = inner.names().unwrap_or_default();
        self.view.observe_names(path, ListedNames::All(names.clone()));
        for name in names {
            if is_too_deep || self.inventory.entries.len() >= ENTRIES {
                self.inventory.is_cut = true;
                // A directory that was not read completely must not count as harmless.
                if let Some(entry) = self.inventory.entries.get_mut(path) {
                    entry.is_cut = true;
                }
                return;
            }
            // Git never runs its sample hooks.
            let is_example = role == InventoryRole::GitHook
                && name.as_os_str().as_encoded_bytes().ends_with(b".sample");
            if is_example {
                continue;
            }
            let path = path.join(name.as_os_str());
            let found = self.observe_entry(inner, &name, &path);
            if matches!(found.state, EntryState::Symlink { .. }) {
                self.file_behind_link(&path, role, entrance);
            }
            self.add_tree(inner, &name, &path, role, found, entrance);
        }
    }

    /// Adds the file that a link in a directory leads to, also if it does not exist yet:
    /// `.git/hooks/pre-commit` is often a link to a script of the project.
    fn file_behind_link(&mut self, link: &Path, role: InventoryRole, entrance: Option<&Path>) {
        let Some(target) = self.view.resolve_link(link) else { return };
        // Links of agents' instruction files may lead to files that commands may change.
        if target
            .file_name()
            .is_some_and(|name| AGENT_INSTRUCTIONS.iter().any(|known| name == *known))
        {
            return;
        }
        let is_directory = self.view.metadata(&target).is_ok_and(|found| found.is_directory());
        if !is_directory && !self.inventory.entries.contains_key(&target) {
            self.add(&target, role, entrance);
        }
    }

    /// Adds a path that cannot be examined, because a directory above it is not accessible.
    pub(super) fn insert_unreadable(
        &mut self,
        path: &Path,
        role: InventoryRole,
        entrance: Option<&Path>,
    ) {
        if self.scope.is_writable(path) {
            self.insert(path, role, EntryState::Unreadable.into(), entrance);
        }
    }

    pub(super) fn insert(
        &mut self,
        path: &Path,
        role: InventoryRole,
        found: EntryObservation,
        entrance: Option<&Path>,
    ) {
        if self.scope.is_unprotected(path) {
            return;
        }
        let entrance = entrance.map(Path::to_owned);
        let entry = InventoryEntry {
            role,
            state: found.state,
            identity: found.identity,
            entrance,
            leads_outside: false,
            is_shallow: false,
            is_cut: false,
        };
        // The first insertion, from nearer to the root, determines the role.
        self.inventory.entries.entry(path.to_owned()).or_insert(entry);
    }

    /// Returns true if sealing a directory protects everything in it: no link leads out of it, and no file
    /// has a second hard link.
    fn is_whole(&self, directory: &Directory, path: &Path, layers: usize) -> bool {
        let Some(layers) = layers.checked_sub(1) else { return false };
        let Ok(names) = directory.names() else { return false };
        self.view.observe_names(path, ListedNames::All(names.clone()));
        names.iter().all(|name| {
            let path = path.join(name.as_os_str());
            self.view.observe(&path);
            directory.metadata(name).is_ok_and(|found| match found.kind {
                EntryKind::File => found.links == 1,
                EntryKind::Directory => directory
                    .open_beneath(Path::new(name.as_os_str()))
                    .is_ok_and(|inner| self.is_whole(&inner, &path, layers)),
                EntryKind::Special => true,
                EntryKind::Symlink => false,
            })
        })
    }
}
