//! Adds repositories to the inventory, resolved as git resolves them.
//!
//! `enter` starts at an entrance (a `.git`, or a submodule's repository), finds the git directory and the
//! common directory behind it, and adds every file that can start a program or redirect git. Submodules,
//! linked worktrees and repositories that are pushed to are entered recursively; `repositories` in the
//! walk prevents cycles. What cannot be examined is added as unreadable, since it must not count as
//! harmless.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use crow_fs::EntryKind;

use super::{
    entry_state::{EntryObservation, EntryState, is_absence},
    git_todo,
    inventory::{InventoryBuilder, InventoryRole},
    inventory_walk::InventoryWalk,
};

const GIT: &str = ".git";
/// Maximum number of repositories that are entered.
const REPOSITORIES: usize = 4096;
/// Directories of a repository in which no links are searched: they are examined by other means, or git writes
/// nothing through links there.
const WITHOUT_LINKS: [&str; 5] = ["annex", "hooks", "lfs", "modules", "worktrees"];
/// Directory of a repository of which only the entries are searched for links: it has up to 256 directories.
const OBJECTS: &str = "objects";
/// Directories in it that are searched nevertheless: git locks and replaces the files of lists and graphs where a link
/// leads.
const LISTS_OF_OBJECTS: [&str; 2] = ["info", "pack"];
/// Maximum number of directories of a repository in which links are searched.
const LINK_DIRECTORIES: usize = 1024;
/// Maximum depth of submodule repositories below `modules`.
const MODULE_DEPTH: usize = 8;

/// A repository as git sees it from one worktree.
struct GitRepository {
    /// Path by which git entered it.
    entrance: PathBuf,
    /// Directory with the files of this worktree: `HEAD`, `index`, `config.worktree`.
    git_dir: PathBuf,
    /// Directory with the files shared by all worktrees: `config`, `hooks`, `modules`.
    common_dir: PathBuf,
}

impl InventoryWalk<'_> {
    /// Adds everything that git reads when it is started in a directory.
    pub(super) fn worktree(&mut self, root: &Path) {
        let entrance = root.join(GIT);
        // If `.git` is no valid repository, git checks whether the directory itself is one.
        self.bare_repository(root);
        if matches!(self.state_at(&entrance), EntryState::Absent) {
            self.paths.insert(
                &entrance,
                InventoryRole::GitEntrance,
                EntryState::Absent.into(),
                None,
            );
            // Git continues in the parent directories, and commits go to the repository found there.
            if let Some(above) = root
                .ancestors()
                .skip(1)
                .map(|above| above.join(GIT))
                .find(|git| self.paths.view.is_there(git))
            {
                self.enter_repository(&above);
            }
            return;
        }
        self.enter_repository(&entrance);
    }

    pub(super) fn state_at(&mut self, path: &Path) -> EntryState {
        self.observe(path).state
    }

    fn observe(&mut self, path: &Path) -> EntryObservation {
        match self.paths.view.parent(path) {
            Ok((directory, name)) => self.paths.observe_entry(&directory, &name, path),
            Err(error) if is_absence(&error) => EntryState::Absent.into(),
            Err(_) => EntryState::Unreadable.into(),
        }
    }

    /// Adds a directory that is a bare repository, or will be one after the planned writes: it has a `HEAD` and,
    /// itself or in its common directory, `objects` and `refs`. Git takes it for a repository if there is no `.git`.
    fn bare_repository(&mut self, folder: &Path) {
        let (head, redirect) = (folder.join("HEAD"), folder.join("commondir"));
        let common_dir = self.common_dir_of(folder);
        let shared = [common_dir.join("objects"), common_dir.join("refs")];
        // A `commondir` that is to be written may lead to any repository.
        let is_redirected = self.paths.planned_writes().contains(&redirect);
        let has_shared = is_redirected || shared.iter().all(|path| self.paths.will_be_there(path));
        if !has_shared || !self.paths.will_be_there(&head) {
            return;
        }
        // Git starts the programs of the settings as soon as the missing files exist.
        for path in shared {
            if !self.paths.view.is_there(&path) {
                self.paths.note_absent(&path);
            }
        }
        if self.paths.planned_writes().contains(&head) {
            self.paths.seal(&head, InventoryRole::BareRepository);
        }
        let state = self.state_at(&head);
        self.paths.insert(&head, InventoryRole::BareRepository, state.into(), None);
        let git_dir = folder.to_owned();
        self.repository(&GitRepository { entrance: head, git_dir, common_dir }, folder);
    }

    /// Adds the bare repositories that contain planned writes. Commands may create such repositories below the roots;
    /// these take effect when the user works there.
    pub(super) fn bare_repositories_of_writes(&mut self) {
        let scope = self.paths.scope;
        let mut folders = BTreeSet::new();
        for path in self.paths.planned_writes() {
            folders.extend(path.ancestors().skip(1).take_while(|above| scope.is_writable(above)));
        }
        for folder in folders {
            self.while_removable(|this| this.bare_repository(folder));
        }
    }

    /// Enters a repository by its `.git`, or by the directory of a submodule's repository.
    pub(super) fn enter_repository(&mut self, entrance: &Path) {
        let is_too_deep = self.paths.enter_layer();
        self.enter_once(entrance, is_too_deep);
        self.paths.leave_layer();
    }

    fn enter_once(&mut self, entrance: &Path, is_too_deep: bool) {
        if self.repositories.contains(entrance) {
            return;
        }
        if is_too_deep || self.repositories.len() >= REPOSITORIES {
            // A repository that is not examined must not count as harmless.
            self.paths.insert(
                entrance,
                InventoryRole::GitEntrance,
                EntryState::Unreadable.into(),
                Some(entrance),
            );
            self.paths.inventory.is_cut = true;
            return;
        }
        self.repositories.insert(entrance.to_owned());
        let Some(worktree) = entrance.parent() else { return };
        let found = self.observe(entrance);
        // 1) Find the git directory: itself, behind a link, or named by a `gitdir:` file.
        let state = found.state.clone();
        let git_dir = match &state {
            EntryState::Directory { .. } => Some(entrance.to_owned()),
            EntryState::Symlink { .. } => self.paths.view.resolve_link(entrance),
            EntryState::File { .. } => state.bytes().and_then(|bytes| {
                let named = worktree.join(path_in(bytes.strip_prefix(b"gitdir:")?));
                let git_dir = self.paths.view.physical(&named);
                // One that is missing may be created later, if commands and tools can write there.
                let may_exist =
                    self.paths.scope.is_writable(&git_dir) || self.paths.view.is_there(&git_dir);
                may_exist.then_some(git_dir)
            }),
            EntryState::Absent | EntryState::Special | EntryState::Unreadable => None,
        };
        if self.paths.scope.is_writable(entrance) {
            // 2) Add the entrance. A directory is compared by its contents, a file or a link by its target.
            match &state {
                EntryState::Directory { .. } => {
                    self.paths.insert(entrance, InventoryRole::GitEntrance, found, Some(entrance));
                }
                EntryState::File { .. }
                | EntryState::Symlink { .. }
                | EntryState::Absent
                | EntryState::Special
                | EntryState::Unreadable => {
                    self.top_without_following(entrance, InventoryRole::GitEntrance);
                }
            }
            if let (Some(entry), Some(git_dir)) =
                (self.paths.inventory.entries.get_mut(entrance), &git_dir)
            {
                entry.leads_outside = !self.paths.scope.is_writable(git_dir);
            }
        }
        // 3) Add the files of the repository.
        let Some(git_dir) = git_dir else { return };
        let common_dir = self.common_dir_of(&git_dir);
        let repository = GitRepository { entrance: entrance.to_owned(), git_dir, common_dir };
        self.note_outside(&repository);
        self.repository(&repository, worktree);
    }

    fn top_without_following(&mut self, path: &Path, role: InventoryRole) {
        let found = self.observe(path);
        if matches!(found.state, EntryState::File { .. }) {
            self.paths.seal(path, role);
        }
        self.paths.insert(path, role, found, Some(path));
    }

    /// Notes the directories of a repository outside of the workspace that commits in a worktree write to.
    /// They count only if the repository in turn names the worktree: else a clone could name any repository
    /// of its user.
    fn note_outside(&mut self, repository: &GitRepository) {
        let GitRepository { entrance, git_dir, common_dir } = repository;
        let is_root = self
            .paths
            .scope
            .roots
            .iter()
            .any(|root| entrance.parent().is_some_and(|above| root.starts_with(above)));
        if !is_root
            || self.paths.scope.is_writable(git_dir) && self.paths.scope.is_writable(common_dir)
        {
            return;
        }
        let reverse_link = self.state_at(&git_dir.join("gitdir"));
        let reverse_link = reverse_link
            .bytes()
            .and_then(|bytes| self.paths.view.resolve(&git_dir.join(path_in(bytes))));
        let points_back = reverse_link.as_ref() == Some(entrance);
        // A `commondir` that leads elsewhere is not followed, but does not hide the repository either.
        let repository = if git_dir == entrance {
            Some(git_dir.as_path())
        } else if git_dir.starts_with(common_dir) {
            Some(common_dir.as_path()).filter(|_| points_back)
        } else {
            repository_of_worktree(git_dir).filter(|_| points_back)
        };
        if let Some(repository) = repository {
            for path in [repository, git_dir] {
                let known = &mut self.paths.inventory.external_git_directories;
                if !self.paths.scope.is_writable(path) && !known.iter().any(|known| known == path) {
                    known.push(path.to_owned());
                }
            }
        }
    }

    /// Returns the common directory of a git directory, also if it does not exist yet.
    fn common_dir_of(&mut self, git_dir: &Path) -> PathBuf {
        let state = self.state_at(&git_dir.join("commondir"));
        let named = state.bytes().filter(|bytes| !bytes.is_empty());
        let named = named.map(|bytes| self.paths.view.physical(&git_dir.join(path_in(bytes))));
        named.unwrap_or_else(|| git_dir.to_owned())
    }

    /// Adds the files of a repository that may start programs or redirect git.
    fn repository(&mut self, repository: &GitRepository, worktree: &Path) {
        let GitRepository { entrance, git_dir, common_dir } = repository;
        let entrance = Some(entrance.as_path());
        if self.paths.can_change(git_dir) {
            self.paths.pin(git_dir);
            self.files_of_worktree(git_dir, entrance);
            self.paths.links_in_git_directory(git_dir, entrance);
        }
        if self.paths.can_change(common_dir) {
            self.paths.pin(common_dir);
            // The common directory is also the git directory of the main worktree.
            self.files_of_worktree(common_dir, entrance);
            if common_dir != git_dir {
                self.paths.links_in_git_directory(common_dir, entrance);
            }
            self.settings_file(common_dir, entrance);
            self.file_of_repository(&common_dir.join("hooks"), InventoryRole::GitHook, entrance);
            // Settings of a program that people use on the repository: its pager and commands.
            let lazygit = common_dir.join("lazygit.yml");
            self.file_of_repository(&lazygit, InventoryRole::Settings, entrance);
            self.linked_worktrees(&self.paths.view.physical(&common_dir.join("worktrees")));
            self.modules(&self.paths.view.physical(&common_dir.join("modules")), MODULE_DEPTH);
        }
        let mut settings = Vec::new();
        for file in [common_dir.join("config"), git_dir.join("config.worktree")] {
            self.settings(&file, entrance, &mut settings);
        }
        // `core.worktree` overrides the worktree; submodules use it.
        let set = settings.iter().rev().find(|setting| setting.is_worktree());
        let set = set.and_then(|setting| self.paths.view.resolve(&git_dir.join(&setting.value)));
        if let Some(set) = &set {
            self.paths.note_worktree_outside(repository, set);
        }
        let worktree = set.unwrap_or_else(|| worktree.to_owned());

        self.programs_in(&settings, &worktree, entrance);
        self.remotes(&settings, common_dir, &worktree, entrance);
        match self.paths.reader.gitlinks(&self.paths.view, git_dir) {
            Some(names) => {
                for name in names {
                    self.submodule(&worktree.join(name));
                }
            }
            // An index that is not examined must not count as harmless.
            None if self.paths.can_change(git_dir) => {
                let index = git_dir.join("index");
                self.paths.insert(
                    &index,
                    InventoryRole::GitRedirect,
                    EntryState::Unreadable.into(),
                    entrance,
                );
            }
            None => {}
        }
    }

    fn file_of_repository(&mut self, path: &Path, role: InventoryRole, entrance: Option<&Path>) {
        self.add_file_of_repository(path, role, entrance);
        // A `gitdir` only names its worktree: git runs nothing there because of it.
        if path.ends_with("commondir") && self.paths.inventory.entries.contains_key(path) {
            let leads_outside = !self.paths.is_commondir_of_worktree(path);
            if let Some(entry) = self.paths.inventory.entries.get_mut(path) {
                entry.leads_outside = leads_outside;
            }
        }
    }

    fn add_file_of_repository(
        &mut self,
        path: &Path,
        role: InventoryRole,
        entrance: Option<&Path>,
    ) {
        let (directory, name) = match self.paths.view.parent(path) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return self.paths.insert_unreadable(path, role, entrance);
            }
            Err(_) => return self.paths.note_absent(path),
        };
        let found = self.paths.observe_entry(&directory, &name, path);
        match found.state {
            EntryState::Absent => self.paths.note_absent(path),
            _ if self.paths.scope.is_writable(path) => {
                self.paths.add_in(&directory, &name, path, role, entrance);
            }
            // In a repository outside of the workspace that commits write to.
            EntryState::File { .. } | EntryState::Directory { .. } => {
                self.paths.seal(path, role);
                self.paths.insert(path, role, found, entrance);
            }
            EntryState::Symlink { .. } | EntryState::Special | EntryState::Unreadable => {
                self.paths.insert(path, role, found, entrance);
            }
        }
    }

    /// Adds the files of one worktree that may start programs or redirect git.
    fn files_of_worktree(&mut self, git_dir: &Path, entrance: Option<&Path>) {
        for (name, role) in [
            ("commondir", InventoryRole::GitRedirect),
            ("gitdir", InventoryRole::GitRedirect),
            ("config.worktree", InventoryRole::GitSettings),
        ] {
            self.file_of_repository(&git_dir.join(name), role, entrance);
        }
        for name in git_todo::FILES {
            self.file_of_repository(&git_dir.join(name), InventoryRole::GitTodo, entrance);
        }
    }

    fn settings_file(&mut self, common_dir: &Path, entrance: Option<&Path>) {
        let settings = common_dir.join("config");
        // The settings of a submodule's repository are not sealed: `git submodule update` writes them each
        // time.
        let is_of_module = common_dir.ancestors().skip(1).any(|above| {
            let around = above.parent().filter(|_| above.ends_with("modules"));
            around.is_some_and(|around| self.paths.view.is_there(&around.join("HEAD")))
        });
        if is_of_module {
            self.while_removable(|this| {
                this.file_of_repository(&settings, InventoryRole::GitSettings, entrance);
            });
        } else {
            self.file_of_repository(&settings, InventoryRole::GitSettings, entrance);
        }
    }

    /// Adds the linked worktrees of a repository. If commands can change a worktree, they may remove it,
    /// too, along with its directory here. If the worktree is elsewhere, only the user works in it.
    fn linked_worktrees(&mut self, folder: &Path) {
        if !self.paths.can_change(folder) {
            return;
        }
        for name in self.paths.view.names_in(folder).iter() {
            let own = folder.join(name.as_os_str());
            let found = self.observe(&own);
            let is_directory = matches!(found.state, EntryState::Directory { .. });
            self.paths.insert(&own, InventoryRole::GitEntrance, found, Some(&own));
            if !is_directory {
                continue;
            }
            let redirect = own.join("gitdir");
            let state = self.state_at(&redirect);
            let named =
                state.bytes().map(|bytes| self.paths.view.physical(&own.join(path_in(bytes))));
            if let Some(outside) = named.as_ref().filter(|path| !self.paths.scope.is_writable(path))
            {
                let found = self.observe(&redirect);
                self.paths.insert(&redirect, InventoryRole::GitRedirect, found, Some(&own));
                let state = self.state_at(outside);
                let named = worktree_directory(&state, outside);
                let points_back =
                    named.is_some_and(|named| self.paths.view.physical(&named) == own);
                // Git repairs no worktree whose folder is gone, such as one in the temporary folder of a command.
                let is_there =
                    outside.parent().is_some_and(|above| self.paths.view.is_there(above));
                if let Some(entry) = self.paths.inventory.entries.get_mut(&redirect) {
                    // If not, `git worktree repair` would write the file there.
                    entry.leads_outside = is_there && !points_back;
                }
            }
            let is_root = |path: &PathBuf| {
                path.parent()
                    .is_some_and(|folder| self.paths.scope.roots.iter().any(|root| root == folder))
            };
            let is_removable = named
                .as_ref()
                .is_none_or(|path| self.paths.scope.is_writable(path) && !is_root(path));
            let look = |this: &mut Self| {
                this.files_of_worktree(&own, Some(&own));
                this.paths.links_in_git_directory(&own, Some(&own));
                let modules = this.paths.view.physical(&own.join("modules"));
                this.modules(&modules, MODULE_DEPTH);
                // The user runs git in that worktree, too.
                if let Some(entrance) = named.filter(|path| {
                    path.ends_with(GIT)
                        && this.paths.scope.is_writable(path)
                        && this.paths.view.is_there(path)
                }) {
                    this.enter_repository(&entrance);
                }
            };
            if is_removable {
                self.while_removable(look);
            } else {
                self.paths.pin(&own);
                let state = self.state_at(&own.join("rebase-merge"));
                if matches!(state, EntryState::Directory { .. }) {
                    self.paths.inventory.seals.insert(own.join("rebase-merge"));
                }
                look(self);
            }
        }
    }

    /// Adds the repositories of submodules, also those that no index names: git uses one when a submodule
    /// of that name is added.
    fn modules(&mut self, folder: &Path, depth: usize) {
        if !self.paths.can_change(folder) {
            return;
        }
        // A folder that cannot be read must not count as harmless.
        if self.is_closed(folder) {
            self.paths.insert_unreadable(folder, InventoryRole::GitRedirect, None);
            return;
        }
        for name in self.paths.view.names_in(folder).iter() {
            let path = folder.join(name.as_os_str());
            match self.state_at(&path) {
                EntryState::Symlink { .. } => self.enter_repository(&path),
                EntryState::Unreadable => {
                    self.paths.insert_unreadable(&path, InventoryRole::GitRedirect, None);
                }
                EntryState::Directory { .. } => {
                    let is_repository = ["HEAD", "config", "hooks", "commondir"]
                        .iter()
                        .any(|name| self.paths.view.is_there(&path.join(name)));
                    if is_repository {
                        self.enter_repository(&path);
                    } else if let Some(depth) = depth.checked_sub(1) {
                        self.modules(&path, depth);
                    } else {
                        self.paths.insert_unreadable(&path, InventoryRole::GitRedirect, None);
                    }
                }
                EntryState::Absent | EntryState::File { .. } | EntryState::Special => {}
            }
        }
    }

    /// Returns true if a directory exists and cannot be read.
    fn is_closed(&mut self, folder: &Path) -> bool {
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        match self.state_at(folder) {
            EntryState::Directory { mode } => {
                mode & 0o500 != 0o500 && crow_fs::read_directory(folder).is_err_and(is_denied)
            }
            EntryState::Unreadable => true,
            EntryState::Absent
            | EntryState::File { .. }
            | EntryState::Symlink { .. }
            | EntryState::Special => false,
        }
    }

    /// Enters the repository of a submodule. Git follows a link in place of the submodule's directory, but
    /// none above it.
    fn submodule(&mut self, path: &Path) {
        let found = self.observe(path);
        match found.state {
            EntryState::Directory { .. } => {
                let entrance = path.join(GIT);
                // A missing `.git` is no entrance yet, but may become one.
                if matches!(self.state_at(&entrance), EntryState::Absent) {
                    self.paths.insert(
                        &entrance,
                        InventoryRole::GitEntrance,
                        EntryState::Absent.into(),
                        Some(&entrance),
                    );
                } else {
                    self.enter_repository(&entrance);
                }
            }
            EntryState::Symlink { .. } => {
                let target = self.paths.view.resolve_link(path);
                self.paths.insert(path, InventoryRole::GitEntrance, found, Some(path));
                let inside = target.filter(|target| self.paths.scope.is_writable(target));
                if let Some(entry) = self.paths.inventory.entries.get_mut(path) {
                    entry.leads_outside = inside.is_none();
                }
                if let Some(target) = inside {
                    self.enter_repository(&target.join(GIT));
                }
            }
            EntryState::Unreadable => {
                self.paths.insert_unreadable(&path.join(GIT), InventoryRole::GitEntrance, None);
            }
            EntryState::Absent | EntryState::File { .. } | EntryState::Special => {}
        }
    }
}

impl InventoryBuilder<'_> {
    /// Returns true if commands can change the contents of a repository's directory.
    fn can_change(&self, folder: &Path) -> bool {
        self.scope.is_writable(folder)
            || self
                .inventory
                .external_git_directories
                .iter()
                .any(|outside| folder.starts_with(outside))
    }

    /// Returns true if a `commondir` is one that git itself creates: in a directory of `worktrees`, with the name of the
    /// repository around it. Any other one replaces the settings of the repository, even if those that it leads to do
    /// not exist yet.
    fn is_commondir_of_worktree(&self, path: &Path) -> bool {
        let Some(own) = path.parent() else { return false };
        let entry = self.inventory.entries.get(path);
        match (entry.and_then(|entry| entry.state.bytes()), repository_of_worktree(own)) {
            (Some(bytes), Some(repository)) => {
                self.view.physical(&own.join(path_in(bytes))) == repository
            }
            (None, _) | (_, None) => false,
        }
    }

    /// Adds the links in a git directory. Git writes through nearly all of them, wherever they lead: messages of
    /// commits, logs, references. It makes none itself.
    fn links_in_git_directory(&mut self, git_dir: &Path, entrance: Option<&Path>) {
        let mut open = vec![git_dir.to_owned()];
        let mut count = 0;
        while let Some(folder) = open.pop() {
            count += 1;
            if count > LINK_DIRECTORIES {
                self.inventory.is_cut = true;
                return;
            }
            let is_objects = folder.parent() == Some(git_dir) && folder.ends_with(OBJECTS);
            if is_objects {
                open.extend(LISTS_OF_OBJECTS.map(|name| folder.join(name)));
            }
            for (name, kind) in self.view.links_in(&folder, !is_objects) {
                let path = folder.join(name.as_os_str());
                if kind == EntryKind::Symlink {
                    let Ok((directory, name)) = self.view.parent(&path) else { continue };
                    let found = self.observe_entry(&directory, &name, &path);
                    self.insert(&path, InventoryRole::GitRedirect, found, entrance);
                } else if folder != git_dir
                    || WITHOUT_LINKS.iter().all(|other| !path.ends_with(other))
                {
                    open.push(path);
                }
            }
        }
    }

    /// Marks settings that name a worktree outside of what commands can change: git would write there.
    fn note_worktree_outside(&mut self, repository: &GitRepository, worktree: &Path) {
        if self.scope.is_writable(worktree) {
            return;
        }
        let GitRepository { git_dir, common_dir, .. } = repository;
        for settings in [common_dir.join("config"), git_dir.join("config.worktree")] {
            if let Some(entry) = self.inventory.entries.get_mut(&settings) {
                entry.leads_outside = true;
            }
        }
    }
}

/// Returns the repository with a worktree's directory in its `worktrees`.
fn repository_of_worktree(git_dir: &Path) -> Option<&Path> {
    git_dir.parent().filter(|above| above.ends_with("worktrees"))?.parent()
}

/// Returns the directory in a repository that the `.git` file of a worktree names.
fn worktree_directory(state: &EntryState, file: &Path) -> Option<PathBuf> {
    let named = path_in(state.bytes()?.strip_prefix(b"gitdir:")?);
    Some(file.parent()?.join(named))
}

/// Returns the path in a one-line file of git: without blanks before it and line ends behind it.
pub(super) fn path_in(bytes: &[u8]) -> PathBuf {
    let start = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let text = &bytes[start..];
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    PathBuf::from(OsString::from_vec(text[..end].to_vec()))
}
