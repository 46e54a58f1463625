//! Adds what git's settings lead to: included settings, hooks, programs of the workspace, and repositories
//! that are pushed to.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
};

use crow_core::workspace::path_from_above;

use super::{
    command_words::{BoundedWords, command_words, script_words},
    entry_state::EntryState,
    git_config::{self, GitSetting},
    git_repository::path_in,
    inventory::{InventoryBuilder, InventoryRole},
    inventory_walk::InventoryWalk,
    pass_view::PassView,
};

/// Maximum depth of included settings; git allows ten.
const INCLUDE_DEPTH: usize = 10;
/// Maximum number of addresses of repositories that rewrites of URLs lead to.
const MOST_REWRITTEN: usize = 10_000;
/// Maximum length of an address, in bytes.
const LONGEST_ADDRESS: usize = 4096;
/// Maximum number of directories from which the words of a command line are resolved.
const MOST_FOLDERS: usize = 8;
/// Maximum number of words of a command line that are looked for in each of these directories.
const MOST_LINE_WORDS: usize = 400;
/// Extensions of scripts that interpreters of shells, build tools and editors run.
const SCRIPT_EXTENSIONS: [&str; 26] = [
    "awk", "bash", "bat", "cjs", "cts", "el", "exs", "fish", "js", "ksh", "lua", "mjs", "mk",
    "mts", "php", "pl", "pm", "ps1", "py", "rb", "sed", "sh", "tcl", "ts", "vim", "zsh",
];
/// Extensions that interpreters add to the name of a module.
const MODULE_EXTENSIONS: [&str; 9] = ["cjs", "js", "mjs", "pl", "pm", "py", "rb", "sh", "ts"];
/// Maximum number of missing files of a script that are looked for as modules.
const MOST_MODULES: usize = 1000;
/// Files that interpreters start with in a directory that they are given.
const DIRECTORY_ENTRIES: [&str; 7] =
    ["__init__.py", "__main__.py", "index.cjs", "index.js", "index.mjs", "index.ts", "main.ts"];
/// Maximum number of directories that are searched for programs if a script is too long to be read.
const MOST_SEARCHED: usize = 4096;
/// Directories of packages, which installations rewrite.
const PACKAGE_FOLDERS: [&str; 5] = ["node_modules", "target", "venv", ".venv", ".direnv"];

/// A file of settings that was read.
struct ReadSettings {
    /// How deep its own includes were followed.
    depth: usize,
    /// The last setting of a worktree in it, or in what it includes.
    worktree: Option<GitSetting>,
}

impl InventoryWalk<'_> {
    /// Reads the user's own settings, which apply to every repository.
    pub(super) fn user_settings(&mut self) {
        let mut settings = Vec::new();
        for file in &self.paths.scope.git.settings {
            // The file, or a folder on the way, may be a link into the workspace.
            let real = self.paths.view.physical(file);
            if self.paths.scope.is_writable(&real) {
                self.paths.add(&real, InventoryRole::GitSettings, None);
            }
            self.settings(file, None, &mut settings);
        }
        // Hooks and templates of the user apply to repositories elsewhere as well.
        for setting in settings.iter().filter(|setting| setting.value.starts_with(['/', '~'])) {
            self.add_hooks(setting, Path::new("/"), None);
        }
        self.user_settings = settings;
    }

    /// Reads settings and those that they include.
    pub(super) fn settings(
        &mut self,
        path: &Path,
        entrance: Option<&Path>,
        settings: &mut Vec<GitSetting>,
    ) {
        self.settings_to(INCLUDE_DEPTH, path, entrance, settings, &mut HashMap::new());
    }

    /// Reads each file once for each depth, however often it is included: files that include others many times would
    /// take forever.
    fn settings_to(
        &mut self,
        depth: usize,
        path: &Path,
        entrance: Option<&Path>,
        settings: &mut Vec<GitSetting>,
        known: &mut HashMap<PathBuf, ReadSettings>,
    ) {
        let Some(real) = self.paths.view.resolve(path) else { return };
        if let Some(read) = known.get(&real).filter(|read| read.depth >= depth) {
            // Of these settings, only the worktree depends on which one is last.
            settings.extend(read.worktree.clone());
            return;
        }
        known.insert(real.clone(), ReadSettings { depth, worktree: None });
        let state = self.state_at(&real);
        let text = state.bytes().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let Ok(own) = git_config::parse(&text) else { return };
        let first = settings.len();
        for setting in own {
            if let (true, Some(depth), Some(folder)) =
                (setting.is_include(), depth.checked_sub(1), path.parent())
            {
                let included =
                    self.paths.view.physical(&self.expanded_path(&setting.value, folder));
                self.paths.add(&included, InventoryRole::GitSettings, entrance);
                self.settings_to(depth, &included, entrance, settings, known);
            }
            settings.push(setting);
        }
        let worktree = settings.iter().skip(first).rev().find(|setting| setting.is_worktree());
        known.insert(real, ReadSettings { depth, worktree: worktree.cloned() });
    }

    /// Returns the path that a setting names, with `~/` expanded as git does.
    fn expanded_path(&self, value: &str, folder: &Path) -> PathBuf {
        match (value.strip_prefix("~/"), &self.paths.scope.git.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_) | None, _) => folder.join(value),
        }
    }

    /// Adds the files of the workspace that settings name as programs.
    pub(super) fn programs_in(
        &mut self,
        settings: &[GitSetting],
        worktree: &Path,
        entrance: Option<&Path>,
    ) {
        let user = std::mem::take(&mut self.user_settings);
        for setting in &user {
            self.programs_of_setting(setting, worktree, entrance);
        }
        self.user_settings = user;
        for setting in settings.iter().filter(|setting| !setting.is_harmless()) {
            if self.text_room.take(setting.value.len()) {
                self.programs_of_setting(setting, worktree, entrance);
            } else if !self.add_hooks(setting, worktree, entrance) {
                self.all_programs(worktree, entrance);
            }
        }
    }

    fn programs_of_setting(
        &mut self,
        setting: &GitSetting,
        worktree: &Path,
        entrance: Option<&Path>,
    ) {
        if setting.is_harmless() || self.add_hooks(setting, worktree, entrance) {
            return;
        }
        if setting.is_git_alias() {
            // `-c core.pager=tools/x` and `--exec tools/x`: in a git command, no word without a slash
            // is a program.
            let words = command_words(&setting.value);
            if words.is_cut() {
                self.all_programs(worktree, entrance);
            }
            for word in words.iter().filter(|word| word.contains('/')) {
                self.program(&self.expanded_path(word, worktree), entrance);
            }
        } else if !setting.is_include() && !setting.names_data() {
            self.programs_of_line(&setting.value, worktree, entrance);
            self.programs_of_script(&setting.value, worktree, entrance);
        }
    }

    /// Adds the hooks of a setting that names a directory of hooks. Returns false for any other setting.
    fn add_hooks(
        &mut self,
        setting: &GitSetting,
        worktree: &Path,
        entrance: Option<&Path>,
    ) -> bool {
        let is_template = setting.is("init", "templatedir");
        if !is_template && !setting.is("core", "hookspath") {
            return false;
        }
        let folder = self.paths.view.physical(&self.expanded_path(&setting.value, worktree));
        self.paths.add(&folder, InventoryRole::GitHook, entrance);
        self.paths.add_links_of_hooks(&folder, entrance);
        if is_template {
            // Git copies settings and hooks of a template into each new repository.
            let hooks = self.paths.view.physical(&folder.join("hooks"));
            self.paths.add_links_of_hooks(&hooks, entrance);
        }
        true
    }

    /// Adds the files of the workspace that a command line may start, even after changing into other
    /// directories.
    fn programs_of_line(&mut self, line: &str, worktree: &Path, entrance: Option<&Path>) {
        let words = command_words(line);
        if words.iter().nth(MOST_LINE_WORDS).is_some() {
            return self.all_programs(worktree, entrance);
        }
        // `cd tools && ./x.sh`, and from there once more. Iterates by index, since the list grows
        // meanwhile.
        let mut folders = vec![worktree.to_owned()];
        let mut at = 0;
        while let Some(folder) = folders.get(at).cloned() {
            for word in &words {
                let path = self.expanded_path(word, &folder);
                if let Some(inner) = self.paths.folder_of_workspace(&path) {
                    if folders.len() < MOST_FOLDERS && !folders.contains(&inner) {
                        folders.push(inner);
                    }
                } else if at == 0 || word.contains(['/', '.']) {
                    self.program(&path, entrance);
                }
            }
            at += 1;
        }
    }

    /// Adds the existing files of the workspace that a script names in any place and that look like programs, also
    /// relative to the directories that it names.
    pub(super) fn programs_of_script(
        &mut self,
        text: &str,
        worktree: &Path,
        entrance: Option<&Path>,
    ) {
        let words = script_words(text);
        let mut folders = Vec::new();
        let mut modules = 0;
        if words.all.is_cut() {
            self.all_programs(worktree, entrance);
        }
        // 1) Words as paths below the working tree.
        let from_above = words
            .all
            .iter()
            .filter_map(|word| path_from_above(worktree, word).map(|path| (word, path)));
        let all: Vec<(&String, &str)> =
            words.all.iter().map(|word| (word, word.as_str())).chain(from_above).collect();
        for (word, path) in all {
            let path = self.expanded_path(path, worktree);
            if is_of_packages(&path) {
                continue;
            }
            let is_run = words.run.contains(word);
            if let Some(folder) = self.paths.folder_of_workspace(&path) {
                if folder != worktree && !folders.contains(&folder) {
                    if is_run {
                        self.directory_entries(&folder, entrance);
                    }
                    if folders.len() < MOST_FOLDERS {
                        folders.push(folder);
                    }
                }
            } else if looks_like_program(&self.paths.view, &path, is_run)
                || word.contains('/')
                    && path.extension().is_none()
                    && self.paths.view.is_there(&path)
            {
                self.program(&path, entrance);
            } else if is_run
                && word.contains('/')
                && !self.paths.view.is_there(&path)
                // A missing directory contains no files.
                && path.parent().is_some_and(|above| self.paths.view.is_there(above))
            {
                modules += 1;
                if modules > MOST_MODULES {
                    self.all_programs(worktree, entrance);
                    continue;
                }
                // Interpreters add the extension of a module.
                for extension in MODULE_EXTENSIONS {
                    let module = path.with_added_extension(extension);
                    if self.paths.view.is_there(&module) {
                        self.program(&module, entrance);
                    }
                }
            }
        }
        // 2) Words as names of files, or of modules, in the directories among them.
        for folder in folders {
            for name in self.paths.view.names_in(&folder).iter() {
                let name = Path::new(name.as_os_str());
                let is_among = |words: &BoundedWords| {
                    [Some(name.as_os_str()), name.file_stem()]
                        .into_iter()
                        .flatten()
                        .any(|name| name.to_str().is_some_and(|name| words.contains(name)))
                };
                let path = folder.join(name);
                let is_run = is_among(&words.run);
                if is_among(&words.all) && looks_like_program(&self.paths.view, &path, is_run) {
                    self.program(&path, entrance);
                }
            }
        }
    }

    pub(super) fn program(&mut self, path: &Path, entrance: Option<&Path>) {
        // Most words are not files.
        let is_missing = self.paths.view.metadata(path).is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        });
        if is_missing {
            self.paths.note_absent_file(path);
            return;
        }
        let real = self.paths.view.physical(path);
        if self.paths.scope.is_writable(&real)
            && !self.paths.view.metadata(&real).is_ok_and(|found| found.is_directory())
        {
            self.paths.add(&real, InventoryRole::Settings, entrance);
        }
    }

    /// Adds the existing files with which interpreters start in a directory.
    fn directory_entries(&mut self, folder: &Path, entrance: Option<&Path>) {
        for name in DIRECTORY_ENTRIES {
            let path = folder.join(name);
            if self.paths.view.is_there(&path) {
                self.program(&path, entrance);
            }
        }
    }

    /// Adds all existing files of a working tree that look like programs: a script that is too long to be read may
    /// start any of them.
    pub(super) fn all_programs(&mut self, worktree: &Path, entrance: Option<&Path>) {
        if !self.searched.insert(worktree.to_owned()) {
            return;
        }
        let mut folders = VecDeque::from([worktree.to_owned()]);
        let mut searched = 0;
        while let Some(folder) = folders.pop_front() {
            searched += 1;
            if searched > MOST_SEARCHED {
                self.paths.inventory.is_cut = true;
                return;
            }
            for name in self.paths.view.names_in(&folder).iter() {
                let path = folder.join(name.as_os_str());
                let is_directory =
                    self.paths.view.metadata(&path).is_ok_and(|found| found.is_directory());
                if is_directory && !is_of_packages(&path) && name.as_os_str() != ".git" {
                    folders.push_back(path);
                } else if !is_directory && looks_like_program(&self.paths.view, &path, true) {
                    self.program(&path, entrance);
                }
            }
        }
    }

    /// Adds the repositories of the workspace that are pushed to: git runs their hooks.
    pub(super) fn remotes(
        &mut self,
        settings: &[GitSetting],
        common_dir: &Path,
        worktree: &Path,
        entrance: Option<&Path>,
    ) {
        let user = std::mem::take(&mut self.user_settings);
        let all = || user.iter().chain(settings);
        let is_address = |setting: &&GitSetting| {
            matches!(
                (setting.section.as_str(), setting.key.as_str()),
                ("remote", "url" | "pushurl" | "pushdefault")
                    | ("branch", "remote" | "pushremote")
                    | ("submodule", "url")
            )
        };
        let mut addresses: Vec<String> =
            all().filter(is_address).map(|setting| setting.value.clone()).collect();
        addresses.extend(self.old_remotes(common_dir));
        let mut rewrites: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for setting in all().filter(|setting| setting.section == "url") {
            rewrites.entry(&setting.value).or_default().push(&setting.subsection);
        }
        let rewritten: Vec<String> = addresses
            .iter()
            .flat_map(|address| beginnings(address))
            .filter_map(|(short, rest)| Some((rewrites.get(short)?, rest)))
            .flat_map(|(longs, rest)| longs.iter().map(move |long| format!("{long}{rest}")))
            .take(MOST_REWRITTEN + 1)
            .collect();
        self.paths.inventory.is_cut |= rewritten.len() > MOST_REWRITTEN;
        self.user_settings = user;
        for address in addresses.into_iter().chain(rewritten) {
            self.remote(address.strip_prefix("file://").unwrap_or(&address), worktree);
            // A transport helper is a program, also if a URL rewrite or a file of remotes introduces it.
            if address.contains("::") {
                self.programs_of_line(&address, worktree, entrance);
            }
        }
    }

    /// Returns the addresses in git's legacy files of remotes (`remotes/`, `branches/`).
    fn old_remotes(&mut self, common_dir: &Path) -> Vec<String> {
        let mut addresses = Vec::new();
        for kind in ["remotes", "branches"] {
            let folder = self.paths.view.physical(&common_dir.join(kind));
            for name in self.paths.view.names_in(&folder).iter() {
                let real = self.paths.view.physical(&folder.join(name.as_os_str()));
                let state = self.state_at(&real);
                let text = state.bytes().map(String::from_utf8_lossy).unwrap_or_default();
                addresses.extend(text.lines().map(|line| {
                    let address = line.strip_prefix("URL:").unwrap_or(line).trim();
                    address.split('#').next().unwrap_or_default().to_owned()
                }));
            }
        }
        addresses
    }

    fn remote(&mut self, address: &str, worktree: &Path) {
        if address.is_empty() || address.contains("::") || address.contains("://") {
            return;
        }
        let path = self.expanded_path(address, worktree);
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            return;
        };
        // In the order in which git tries them.
        let bare = path.with_file_name(format!("{name}.git"));
        for place in [path.join(".git"), path, bare.join(".git"), bare] {
            let Some(mut real) = self.paths.view.resolve(&place) else { continue };
            if let EntryState::File { .. } = self.state_at(&real)
                && let Some(named) = self.git_file(&real)
            {
                real = named;
            }
            if self.paths.scope.is_writable(&real) && self.paths.view.is_there(&real.join("HEAD")) {
                self.enter_repository(&real);
                return;
            }
        }
    }

    /// Returns the directory named by a `.git` file.
    fn git_file(&mut self, path: &Path) -> Option<PathBuf> {
        let state = self.state_at(path);
        self.paths
            .view
            .resolve(&path.parent()?.join(path_in(state.bytes()?.strip_prefix(b"gitdir:")?)))
    }
}

impl InventoryBuilder<'_> {
    /// Returns the directory at a path, with links resolved, if commands can change its contents.
    fn folder_of_workspace(&self, path: &Path) -> Option<PathBuf> {
        // Most words are not files.
        self.view.metadata(path).ok()?;
        let real = self.view.resolve(path)?;
        let is_folder = self.view.metadata(&real).is_ok_and(|found| found.is_directory());
        (is_folder && self.scope.is_writable(&real)).then_some(real)
    }
}

/// Returns the beginnings of an address, each with the rest. A longer one is no address of a repository of the project.
fn beginnings(address: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = address.char_indices().map(|(at, _)| at).chain([address.len()]);
    ends.take_while(|at| *at <= LONGEST_ADDRESS).map(|at| address.split_at(at))
}

/// Returns true if a path lies in a directory of packages, which installations rewrite.
pub(super) fn is_of_packages(path: &Path) -> bool {
    let has = |folder: &&str| path.to_str().is_none_or(|path| path.contains(folder));
    // Most paths contain no such name at all, and a path may have thousands of parts.
    PACKAGE_FOLDERS.iter().any(has)
        && path
            .components()
            .any(|part| PACKAGE_FOLDERS.iter().any(|folder| part.as_os_str() == *folder))
}

/// Returns true if a path is an executable file or, for one that an interpreter may be given, has the extension of a
/// script.
fn looks_like_program(view: &PassView, path: &Path, is_run: bool) -> bool {
    let Ok(metadata) = view.metadata(path) else { return false };
    let extension = path.extension().and_then(|extension| extension.to_str());
    !metadata.is_directory()
        && (metadata.mode & 0o111 != 0
            || is_run && extension.is_some_and(|extension| SCRIPT_EXTENSIONS.contains(&extension)))
}
