//! The inventory: every path of a workspace from which a later git, editor or agent of the user would start a program, or
//! take its orders.
//!
//! It is not a list of names that are known to be dangerous, but what follows from the files that are there: git enters a
//! repository by `.git`, which may be a directory, a file or a link; that leads to a common directory, whose settings
//! include other files, name a directory of hooks and programs; its index names further repositories, and so on. All of
//! that is resolved here as git does it (`git_repository.rs`), and each path on the way is an entry, also where nothing is
//! yet. Taken before and after a command, two inventories show what the command opened, whichever door it took.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
};

use crow_core::protected::{AGENT_INSTRUCTIONS, PROTECTED};
use crow_fs::{Directory, EntryKind, EntryName, FileIdentity};
use serde::{Deserialize, Serialize};

use super::{
    entry_state::{EntryObservation, EntryState, StateReader},
    git_config::GitSetting,
    pass_record::ListedNames,
    pass_view::PassView,
    protected_names::{first_name, has_protected_suffix, protected_beginning},
};
use crate::sandbox::config::UserGit;

/// How many entries are looked at.
const ENTRIES: usize = 16_384;
/// How deep directories and repositories may lie in one another.
const LAYERS: usize = 64;

/// Why a path is in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InventoryRole {
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
    /// What git does next when a rebase or a cherry-pick goes on that has stopped.
    GitTodo,
}

/// What is known of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InventoryEntry {
    pub role: InventoryRole,
    pub state: EntryState,
    /// Tells the file from one that took its place.
    pub identity: Option<FileIdentity>,
    /// By which path git entered the repository that this belongs to.
    pub entrance: Option<PathBuf>,
    /// Whether it leads out of what commands may change.
    pub leads_outside: bool,
    /// Whether it is a directory that was not looked into, because the kernel seals it.
    pub is_shallow: bool,
    /// Whether it is a directory that was not looked into to its end, because there is too much.
    pub is_cut: bool,
}

/// Which paths commands can change, and which of them the user gave free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::sandbox) struct InventoryScope {
    pub(in crate::sandbox) roots: Vec<PathBuf>,
    /// Places beside the roots that commands may change.
    pub(in crate::sandbox) writable: Vec<PathBuf>,
    /// Paths relative to a root that commands may change although they are in the inventory.
    pub(in crate::sandbox) unprotected: Vec<PathBuf>,
    /// Further files and directories that something trusted starts or reads.
    pub(in crate::sandbox) protected: Vec<PathBuf>,
    /// Where the user's own settings of git are.
    pub(in crate::sandbox) git: UserGit,
}

/// All that could start a program, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    pub entries: BTreeMap<PathBuf, InventoryEntry>,
    /// What is to be kept from commands, with all that is in it: the topmost paths of the inventory.
    pub seals: BTreeSet<PathBuf>,
    /// The same for commands beside which the user works: git writes and removes these itself, so for others they are only
    /// compared.
    pub job_seals: BTreeSet<PathBuf>,
    /// Directories of repositories: they may change inside, but may not be renamed.
    pub pins: BTreeSet<PathBuf>,
    /// Directories of repositories outside of the workspace that commits write to.
    pub outside: Vec<PathBuf>,
    /// The modes of the roots.
    pub roots: BTreeMap<PathBuf, u32>,
    /// Whether there was more than is looked at.
    pub is_cut: bool,
    /// What is named and not there, if that was asked for: files, and what may become a directory as well.
    pub absent_files: BTreeSet<PathBuf>,
    pub absent: BTreeSet<PathBuf>,
}

/// What the kernel keeps commands from changing.
pub(super) trait SealedPaths {
    /// Returns whether what is at a path is the same that the kernel seals, with all that is in it: it need not be looked into.
    fn is_sealed(&self, path: &Path, identity: FileIdentity) -> bool;

    /// Returns whether no command can have changed or made what is at a path.
    fn is_kept(&self, path: &Path) -> bool;
}

/// No kernel seals anything.
pub(super) struct NothingSealed;

impl SealedPaths for NothingSealed {
    fn is_sealed(&self, _path: &Path, _identity: FileIdentity) -> bool {
        false
    }

    fn is_kept(&self, _path: &Path) -> bool {
        false
    }
}

/// Makes an inventory.
pub(super) struct InventoryBuilder<'a> {
    pub(super) scope: &'a InventoryScope,
    pub(super) reader: &'a mut StateReader,
    sealed: &'a dyn SealedPaths,
    pub(super) inventory: Inventory,
    /// Directories of repositories that were looked at, by the entrance.
    pub(super) repositories: BTreeSet<PathBuf>,
    /// The user's own settings of git.
    pub(super) user_settings: Vec<GitSetting>,
    pub(super) view: PassView,
    /// What was found at paths.
    found: HashMap<PathBuf, EntryObservation>,
    wants_absent: bool,
    /// In how many directories and repositories this is.
    layer: usize,
    /// Whether commands may remove the repository that is looked at, so that nothing in it is sealed.
    pub(super) is_removable: bool,
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
    /// Returns the directories that were not looked into, because the kernel seals them.
    pub(super) fn shallow_entries(&self) -> impl Iterator<Item = (&PathBuf, Option<FileIdentity>)> {
        let shallow = self.entries.iter().filter(|(_, entry)| entry.is_shallow);
        shallow.map(|(path, entry)| (path, entry.identity))
    }

    /// Looks at all that is in scope, or finds that nothing of it has changed since the last look.
    pub(super) fn collect(
        scope: &InventoryScope,
        reader: &mut StateReader,
        sealed: &dyn SealedPaths,
    ) -> Self {
        if let Some(unchanged) = reader.unchanged_inventory(scope, sealed) {
            return unchanged;
        }
        let mut collector = InventoryBuilder {
            scope,
            reader,
            sealed,
            inventory: Self::default(),
            repositories: BTreeSet::new(),
            user_settings: Vec::new(),
            view: PassView::default(),
            found: HashMap::new(),
            wants_absent: false,
            layer: 0,
            is_removable: false,
        };
        let inventory = collector.run();
        let InventoryBuilder { view, found, .. } = collector;
        let mut observations = view.into_observations();
        for path in found.into_keys() {
            observations.entry(path);
        }
        reader.keep_pass(scope, observations, &inventory);
        inventory
    }

    /// Looks at all that is in scope, and notes what is named and not there.
    pub(super) fn collect_with_absent(scope: &InventoryScope, reader: &mut StateReader) -> Self {
        let mut collector = InventoryBuilder {
            scope,
            reader,
            sealed: &NothingSealed,
            inventory: Self::default(),
            repositories: BTreeSet::new(),
            user_settings: Vec::new(),
            view: PassView::default(),
            found: HashMap::new(),
            wants_absent: true,
            layer: 0,
            is_removable: false,
        };
        collector.run()
    }
}

impl InventoryBuilder<'_> {
    fn run(&mut self) -> Inventory {
        self.user_settings();
        let scope = self.scope;
        let collector = self;
        for root in &scope.roots {
            collector.root(root);
        }
        for path in &scope.protected {
            collector.top(path, InventoryRole::Settings, None);
        }
        for entrance in collector.reader.nested() {
            collector.removable(|this| this.enter(&entrance));
        }
        collector.script_targets();
        std::mem::take(&mut collector.inventory)
    }

    /// Looks at an entry of a directory.
    pub(super) fn look_in(
        &mut self,
        directory: &Directory,
        name: &EntryName,
        path: &Path,
    ) -> EntryObservation {
        if let Some(found) = self.found.get(path) {
            return found.clone();
        }
        let found = self.reader.look(directory, name, path);
        self.found.insert(path.to_owned(), found.clone());
        found
    }

    /// Notes a path that is named by something and not there.
    fn note_absent(&mut self, path: &Path) {
        if self.wants(path) {
            self.inventory.absent.insert(path.to_owned());
        }
    }

    /// Notes a path that may be a program if it becomes a file.
    pub(super) fn note_absent_file(&mut self, path: &Path) {
        if self.wants(path) {
            self.inventory.absent_files.insert(path.to_owned());
        }
    }

    fn wants(&self, path: &Path) -> bool {
        self.wants_absent && self.scope.is_writable(path) && !self.scope.is_unprotected(path)
    }

    fn root(&mut self, root: &Path) {
        let Ok(directory) = self.view.directory(root) else { return };
        if let Ok(found) = directory.own_metadata() {
            self.inventory.roots.insert(root.to_owned(), found.mode);
        }
        let listed = directory.names();
        self.view
            .observe_names(root, ListedNames::protected(listed.as_deref().unwrap_or_default()));
        // Of hundreds of names few are there.
        let present = listed.as_ref().ok().filter(|_| !self.wants_absent).map(|names| {
            let names = names.iter().filter_map(|name| name.as_os_str().to_str());
            names.filter_map(protected_beginning).collect::<BTreeSet<_>>()
        });
        let may_be_there = |path: &str| {
            let first = first_name(path).to_ascii_lowercase();
            let is_present = |present: &BTreeSet<&str>| present.contains(first.as_str());
            present.as_ref().is_none_or(is_present)
        };
        let names = listed.unwrap_or_default();
        for path in PROTECTED.iter().filter(|path| may_be_there(path)).map(|name| root.join(name)) {
            if self.scope.is_unprotected(&path) {
                continue;
            }
            match path.file_name().map(EntryName::new) {
                Some(Ok(name)) if path.parent() == Some(root) => {
                    self.top_in(&directory, &name, &path, InventoryRole::Settings, None);
                }
                // In a directory of the root.
                _ => self.top(&path, InventoryRole::Settings, None),
            }
        }
        for name in &names {
            if has_protected_suffix(name) {
                let path = root.join(name.as_os_str());
                self.top_in(&directory, name, &path, InventoryRole::Settings, None);
            }
        }
        if !self.scope.is_unprotected(&root.join(".git")) {
            self.worktree(root);
        }
    }

    /// Adds a path with all that is in it, and where it leads if it is a link.
    pub(super) fn top(&mut self, path: &Path, role: InventoryRole, entrance: Option<&Path>) {
        // What is behind a link was resolved, or is not there.
        match self.view.parent(path) {
            Ok((directory, name)) => self.top_in(&directory, &name, path, role, entrance),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.insert_unreadable(path, role, entrance);
            }
            Err(_) => self.note_absent(path),
        }
    }

    pub(super) fn top_in(
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
        let found = self.look_in(directory, name, path);
        match found.state {
            // There are many names and few files: what comes to be is new by not being here.
            EntryState::Absent => self.note_absent(path),
            EntryState::Symlink { .. } => self.top_behind_link(path, role, found, entrance),
            EntryState::File { .. }
            | EntryState::Directory { .. }
            | EntryState::Special
            | EntryState::Unreadable => {
                self.seal(path, role);
                self.tree(directory, name, path, role, found, entrance);
            }
        }
    }

    /// Notes that commands are to be kept from what is at a path, if git need not change it for them.
    pub(super) fn seal(&mut self, path: &Path, role: InventoryRole) {
        let is_written_by_git = role == InventoryRole::GitTodo || self.is_removable;
        let Inventory { seals, job_seals, .. } = &mut self.inventory;
        let seals = if is_written_by_git { job_seals } else { seals };
        seals.insert(path.to_owned());
    }

    /// Notes that a directory may change inside, but may not be renamed.
    pub(super) fn pin(&mut self, path: &Path) {
        if !self.is_removable {
            self.inventory.pins.insert(path.to_owned());
        }
    }

    /// Looks at a repository that commands may remove.
    pub(super) fn removable(&mut self, act: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_removable, true);
        act(self);
        self.is_removable = before;
    }

    /// Adds a link, and what it leads to if commands can change that.
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
        let found = self.look_in(&directory, &name, &target);
        if !matches!(found.state, EntryState::Absent | EntryState::Symlink { .. }) {
            self.seal(&target, role);
        }
        self.tree(&directory, &name, &target, role, found, entrance);
    }

    fn tree(
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
        self.deeper(|this, is_too_deep| {
            this.names_of_tree(&inner, path, role, entrance, is_too_deep);
        });
    }

    /// Does something one layer deeper. It is told if that is too deep.
    pub(super) fn deeper(&mut self, act: impl FnOnce(&mut Self, bool)) {
        self.layer += 1;
        let is_too_deep = self.layer > LAYERS;
        act(self, is_too_deep);
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
                // What was not looked into is not believed to be harmless.
                if let Some(entry) = self.inventory.entries.get_mut(path) {
                    entry.is_cut = true;
                }
                return;
            }
            // Git never runs its examples.
            let is_example = role == InventoryRole::GitHook
                && name.as_os_str().as_encoded_bytes().ends_with(b".sample");
            if is_example {
                continue;
            }
            let path = path.join(name.as_os_str());
            let found = self.look_in(inner, &name, &path);
            if matches!(found.state, EntryState::Symlink { .. }) {
                self.file_behind_link(&path, role, entrance);
            }
            self.tree(inner, &name, &path, role, found, entrance);
        }
    }

    /// Adds the file that a link in a directory leads to, also if it is not there yet: `.git/hooks/pre-commit` is often a link
    /// to a script of the project.
    fn file_behind_link(&mut self, link: &Path, role: InventoryRole, entrance: Option<&Path>) {
        let Some(target) = self.view.resolve_link(link) else { return };
        // Agents are instructed by links to files that commands may change.
        if target
            .file_name()
            .is_some_and(|name| AGENT_INSTRUCTIONS.iter().any(|known| name == *known))
        {
            return;
        }
        let is_directory = self.view.metadata(&target).is_ok_and(|found| found.is_directory());
        if !is_directory && !self.inventory.entries.contains_key(&target) {
            self.top(&target, role, entrance);
        }
    }

    /// Adds a path that nobody can look at, because a directory on the way is closed.
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
        // What was added first, from nearer to the root, says why it is here.
        self.inventory.entries.entry(path.to_owned()).or_insert(entry);
    }

    /// Returns whether a seal of a directory holds all that is in it: no link leads out of it, and no file has a second name.
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
