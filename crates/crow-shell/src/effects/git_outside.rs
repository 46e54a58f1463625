//! Places outside of the workspace that reading git commands show: other repositories, and files named by settings.
//!
//! A `.git` file, a `commondir`, a link or `objects/info/alternates` make git show the contents of another repository,
//! and git prints lines of some files that it cannot parse. So these places count among the files that a reading
//! command touches. Single loose objects that are links are not looked for: there may be many thousands.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crow_core::{
    permission::is_secret_file,
    tool::{Access, PathTouch, TouchDepth},
};

use super::{
    command_context::CommandContext,
    git_repository::{LARGEST_SETTINGS, RepositoryFolders, links_in, read, repositories},
    git_worktree::nested_repositories,
};

/// The most folders of objects of one repository. Git follows alternates of alternates five times.
const MOST_STORES: usize = 32;
/// Settings that name a file of which git prints a line that it cannot parse, or names.
const FILE_SETTINGS: [&str; 3] = ["ignorerevsfile", "orderfile", "file"];
/// The usual name of the first of these files, which the user's own settings may name.
const IGNORED_REVISIONS: &str = ".git-blame-ignore-revs";

/// The places outside of the workspace that git reads, collected repository by repository.
struct OutsidePlaces<'a> {
    context: &'a CommandContext<'a>,
    /// The repositories of the roots themselves, once they are needed.
    of_roots: Option<Vec<PathBuf>>,
    places: Vec<PathBuf>,
}

/// Returns touches of the places outside of the workspace that git reads in a folder, and of files with keys that links
/// in a repository lead to. Returns `None` if they cannot be told.
pub(super) fn outside_places(
    folder: &Path,
    command: &str,
    rest: &[&str],
    context: &CommandContext<'_>,
) -> Option<Vec<PathTouch>> {
    let mut outside = OutsidePlaces { context, of_roots: None, places: Vec::new() };
    let reads_objects = reads_objects(command, rest);
    let mut folders = vec![folder.to_owned()];
    let mut entered: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for repository in repositories(&folder) {
            context.budget.take()?;
            let own = resolved(&repository.own);
            if entered.contains(&own) {
                continue;
            }
            entered.push(own);
            outside.add_repository(&repository)?;
            if reads_objects {
                outside.add_objects(&repository)?;
                folders.extend(nested_repositories(&repository));
            }
            outside.add_files_of_settings(&repository)?;
        }
    }
    let touch = |path| PathTouch { access: Access::Read, path, depth: TouchDepth::Below };
    Some(outside.places.into_iter().map(touch).collect())
}

/// Returns whether a command may show something of a commit or a file.
fn reads_objects(command: &str, rest: &[&str]) -> bool {
    match command {
        "check-attr" | "check-ignore" | "config" | "ls-files" | "remote" | "rev-parse" | "var" => {
            false
        }
        // With `-v` it shows differences.
        "status" => rest.iter().any(|word| word.starts_with('-') && word.contains('v')),
        _ => true,
    }
}

impl OutsidePlaces<'_> {
    /// Adds the folders of a repository, and the targets of links in them.
    fn add_repository(&mut self, repository: &RepositoryFolders) -> Option<()> {
        let RepositoryFolders { worktree, own, common } = repository;
        for folder in [own, common] {
            self.add_folder(folder);
        }
        self.add_link(&worktree.join(".git"));
        for folder in [own.clone(), common.clone(), common.join("info")] {
            self.context.budget.take()?;
            // Reading commands start no hooks, and print nothing of them.
            for link in links_in(&folder).iter().filter(|link| !link.ends_with("hooks")) {
                self.context.budget.take()?;
                self.add_link(link);
            }
        }
        Some(())
    }

    /// Adds the folders of objects: its own, and those that it borrows from.
    fn add_objects(&mut self, repository: &RepositoryFolders) -> Option<()> {
        let mut stores = vec![resolved(&repository.common.join("objects"))];
        let mut at = 0;
        while let Some(store) = stores.get(at).cloned() {
            at += 1;
            self.context.budget.take()?;
            self.add_folder(&store);
            for folder in [store.clone(), store.join("info"), store.join("pack")] {
                for link in links_in(&folder) {
                    self.context.budget.take()?;
                    self.add_link(&link);
                }
            }
            let Some(text) = read(&store.join("info/alternates"), LARGEST_SETTINGS) else {
                continue;
            };
            for line in text?.split(|byte| *byte == b'\n') {
                match line {
                    [] | [b'#', ..] => continue,
                    // A name with escapes.
                    [b'"', ..] => return None,
                    name => {
                        let next = resolved(&store.join(OsStr::from_bytes(name)));
                        if !stores.contains(&next) {
                            stores.push(next);
                        }
                    }
                }
                if stores.len() > MOST_STORES {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Adds the files that settings of the repository name, and whose lines git may print.
    fn add_files_of_settings(&mut self, repository: &RepositoryFolders) -> Option<()> {
        let RepositoryFolders { worktree, own, common } = repository;
        self.add_link(&worktree.join(IGNORED_REVISIONS));
        for settings in [common.join("config"), own.join("config.worktree")] {
            let Some(bytes) = read(&settings, LARGEST_SETTINGS) else { continue };
            let text = String::from_utf8(bytes?).ok()?;
            for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
                let key = key.rsplit([']', ' ', '\t']).find(|part| !part.is_empty());
                let is_named = key.is_some_and(|key| {
                    FILE_SETTINGS.iter().any(|name| key.eq_ignore_ascii_case(name))
                });
                if is_named {
                    let value = value.trim();
                    // Quotes, escapes and the home would need git's own rules.
                    if value.contains(['\\', '"', '#', ';', '~', '%']) {
                        return None;
                    }
                    self.context.budget.take()?;
                    self.add_file(&worktree.join(value));
                }
            }
        }
        Some(())
    }

    /// Adds a folder of a repository if it is outside.
    fn add_folder(&mut self, folder: &Path) {
        let folder = resolved(folder);
        if !self.context.workspace.contains(&folder) && !self.is_of_a_root(&folder) {
            self.add(folder);
        }
    }

    /// Adds what a link leads to, if it is outside or its name suggests keys.
    fn add_link(&mut self, link: &Path) {
        if link.is_symlink() {
            self.add_file(link);
        }
    }

    fn add_file(&mut self, file: &Path) {
        // Where nothing is, nothing is read.
        if let Ok(file) = crow_fs::canonicalize(file) {
            if is_secret_file(&file) {
                self.add(file);
            } else {
                self.add_folder(&file);
            }
        }
    }

    fn add(&mut self, place: PathBuf) {
        // A touch covers what is below its path.
        if !self.places.iter().any(|known| place.starts_with(known)) {
            self.places.push(place);
        }
    }

    /// Returns whether a path is part of the repository that a root is a working tree of: that of a linked working
    /// tree or a submodule may be outside.
    fn is_of_a_root(&mut self, path: &Path) -> bool {
        let workspace = self.context.workspace;
        let of_roots = self.of_roots.get_or_insert_with(|| {
            let repositories = workspace.roots().iter().flat_map(|root| repositories(root));
            let folders = repositories.flat_map(|RepositoryFolders { own, common, .. }| {
                let (own, common) = (resolved(&own), resolved(&common));
                // The common folder contains those of its working trees; another one is not followed.
                let common = own.starts_with(&common).then_some(common);
                common.into_iter().chain([own])
            });
            folders.filter(|folder| !workspace.contains(folder)).collect()
        });
        of_roots.iter().any(|folder| path.starts_with(folder))
    }
}

/// Returns the path without links; as it is if nothing is there.
fn resolved(path: &Path) -> PathBuf {
    crow_fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
