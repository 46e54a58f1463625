//! Takes an inventory: walks from the roots of the workspace and the user's settings through every repository.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crow_core::protected::PROTECTED;
use crow_fs::EntryName;

use super::{
    entry_state::StateReader,
    git_config::GitSetting,
    inventory::{
        Inventory, InventoryBuilder, InventoryPurpose, InventoryRole, InventoryScope,
        NothingSealed, SealedPaths,
    },
    pass_record::ListedNames,
    protected_names::{first_name, has_protected_suffix, protected_beginning},
};

/// Maximum size of all scripts and settings of a project that are searched for programs, in bytes.
const TEXT_BYTES: usize = 2 << 20;
/// Number of bytes that each one counts at least.
const LEAST_TEXT_BYTES: usize = 256;

/// A walk through the workspace and its repositories, which adds the paths that it finds to an inventory. Resolves
/// repositories as git does.
pub(super) struct InventoryWalk<'a> {
    pub(super) paths: InventoryBuilder<'a>,
    /// Entrances of the repositories that were already examined.
    pub(super) repositories: BTreeSet<PathBuf>,
    /// Room for scripts and settings of the project that are searched for programs.
    pub(super) text_room: TextRoom,
    /// Folders of which all programs were added.
    pub(super) searched: BTreeSet<PathBuf>,
    /// The user's own git settings.
    pub(super) user_settings: Vec<GitSetting>,
}

/// Number of bytes of scripts and settings that are still searched for programs.
pub(super) struct TextRoom(usize);

impl TextRoom {
    /// Takes the room of a text. Returns false if there is none left.
    pub(super) fn take(&mut self, length: usize) -> bool {
        let rest = self.0.checked_sub(length.max(LEAST_TEXT_BYTES));
        self.0 = rest.unwrap_or_default();
        rest.is_some()
    }
}

impl Inventory {
    /// Takes the inventory, or returns the last one if nothing in it has changed.
    pub(super) fn collect(
        scope: &InventoryScope,
        reader: &mut StateReader,
        sealed: &dyn SealedPaths,
    ) -> Self {
        if let Some(unchanged) = reader.unchanged_inventory(scope, sealed) {
            return unchanged;
        }
        let builder = InventoryBuilder::new(scope, reader, sealed, InventoryPurpose::Comparison);
        InventoryWalk::new(builder).run().finish()
    }

    /// Takes the inventory as it will be after a tool has written these paths, with the missing paths that something
    /// names.
    pub(super) fn collect_with_writes(
        scope: &InventoryScope,
        reader: &mut StateReader,
        written: &[PathBuf],
    ) -> Self {
        let purpose = InventoryPurpose::PlannedWrites(written);
        let builder = InventoryBuilder::new(scope, reader, &NothingSealed, purpose);
        InventoryWalk::new(builder).run().inventory
    }
}

impl<'a> InventoryWalk<'a> {
    fn new(paths: InventoryBuilder<'a>) -> Self {
        Self {
            paths,
            repositories: BTreeSet::new(),
            text_room: TextRoom(TEXT_BYTES),
            searched: BTreeSet::new(),
            user_settings: Vec::new(),
        }
    }

    fn run(mut self) -> InventoryBuilder<'a> {
        self.user_settings();
        let scope = self.paths.scope;
        for root in &scope.roots {
            self.root(root);
        }
        for path in &scope.protected {
            self.paths.add(path, InventoryRole::Settings, None);
        }
        for link in &scope.links {
            self.paths.add_link(link);
        }
        for entrance in self.paths.reader.nested() {
            self.while_removable(|this| this.enter_repository(&entrance));
        }
        self.bare_repositories_of_writes();
        self.script_targets();
        self.paths
    }

    fn root(&mut self, root: &Path) {
        let Ok(directory) = self.paths.view.directory(root) else { return };
        if let Ok(found) = directory.own_metadata() {
            self.paths.inventory.roots.insert(root.to_owned(), found.mode);
        }
        let listed = directory.names();
        self.paths
            .view
            .observe_names(root, ListedNames::protected(listed.as_deref().unwrap_or_default()));
        // Only few of the hundreds of protected names exist, so they are filtered by the names present.
        let present =
            listed.as_ref().ok().filter(|_| self.paths.planned_writes().is_empty()).map(|names| {
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
            if self.paths.scope.is_unprotected(&path) {
                continue;
            }
            match path.file_name().map(EntryName::new) {
                Some(Ok(name)) if path.parent() == Some(root) => {
                    self.paths.add_in(&directory, &name, &path, InventoryRole::Settings, None);
                }
                // Path with several components.
                _ => self.paths.add(&path, InventoryRole::Settings, None),
            }
        }
        for name in &names {
            if has_protected_suffix(name) {
                let path = root.join(name.as_os_str());
                self.paths.add_in(&directory, name, &path, InventoryRole::Settings, None);
            }
        }
        if !self.paths.scope.is_unprotected(&root.join(".git")) {
            self.worktree(root);
        }
    }

    /// Examines a repository that commands may remove.
    pub(super) fn while_removable(&mut self, act: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.paths.is_removable, true);
        act(self);
        self.paths.is_removable = before;
    }
}
