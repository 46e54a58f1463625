//! The context of a command: the folders that it may run in, and the resolution of paths there.

use std::{
    cell::Cell,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use crow_core::{
    tool::{Access, PathTouch, TouchDepth},
    workspace::Workspace,
};

use crow_fs::SearchPath;

use crate::parse::LineFacts;

/// The most links that are followed; a path with more leads nowhere.
const MAX_LINKS: usize = 40;
/// The longest path in bytes, as on Linux.
const MAX_BYTES: usize = 4096;
/// The most lookups in the file system for one line: paths and entries of folders.
const MOST_LOOKS: usize = 20_000;

/// The treatment of a link as the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowLinks {
    Yes,
    /// The link itself is meant, as in a removal.
    No,
}

/// The context that a command is judged in.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandContext<'a> {
    /// The folders that it may run in; `None` if unknown.
    pub folders: Option<&'a [PathBuf]>,
    pub workspace: &'a Workspace,
    pub facts: &'a LineFacts,
    /// The folders in which programs are found by their names.
    pub search_path: &'a SearchPath,
    pub budget: &'a LookupBudget,
}

/// The number of lookups in the file system that a line may still cause. Results beyond it are unknown.
#[derive(Debug)]
pub(super) struct LookupBudget(Cell<usize>);

impl LookupBudget {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST_LOOKS))
    }

    /// Consumes one lookup; `None` if none is left.
    pub(super) fn take(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }
}

impl CommandContext<'_> {
    /// Returns the paths that a command touches through a given path; `None` if they are unknown.
    pub(super) fn touch(
        &self,
        given: &str,
        access: Access,
        depth: TouchDepth,
        follow: FollowLinks,
    ) -> Option<Vec<PathTouch>> {
        if matches!(given, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr") {
            return Some(Vec::new());
        }
        let paths = self.resolve(given, follow)?;
        Some(paths.into_iter().map(|path| PathTouch { access, path, depth }).collect())
    }

    /// Returns the path that a given one resolves to, if it is a single one.
    pub(super) fn resolve_single(&self, given: &str) -> Option<PathBuf> {
        match self.resolve(given, FollowLinks::Yes)?.as_slice() {
            [path] => Some(path.clone()),
            _ => None,
        }
    }

    fn resolve(&self, given: &str, follow: FollowLinks) -> Option<Vec<PathBuf>> {
        if given.is_empty() || given.len() > MAX_BYTES || given.contains('\0') {
            return None;
        }
        if given.starts_with('/') {
            self.budget.take()?;
            return Some(vec![resolve(Path::new("/"), given, follow)?]);
        }
        let mut paths = Vec::new();
        for folder in self.folders? {
            self.budget.take()?;
            let path = resolve(folder, given, follow)?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Some(paths)
    }

    /// Returns whether everything that can be reached from a folder, also over links, is in the workspace.
    pub(super) fn holds_all_below(&self, path: &Path) -> bool {
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            // An entry that is no folder or cannot be read has nothing below it.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let Ok(kind) = entry.file_type() else { return false };
                if self.budget.take().is_none()
                    || kind.is_symlink() && !self.leads_inside(&entry.path())
                {
                    return false;
                }
                if kind.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        true
    }

    /// Returns whether a link leads to an existing file of the workspace.
    pub(super) fn leads_inside(&self, link: &Path) -> bool {
        match fs::canonicalize(link) {
            Ok(path) => self.workspace.contains(&path),
            Err(_) => false,
        }
    }
}

/// Resolves a path from a folder as the kernel does: links are followed in order, so that `..` after a link leads out
/// of its target. Components that do not exist stay as written. Returns `None` for too many links and for links of
/// processes in `/proc`.
pub(super) fn resolve(folder: &Path, given: &str, follow: FollowLinks) -> Option<PathBuf> {
    let mut current = folder.to_owned();
    let mut links = 0;
    // With a trailing slash or dot, the last link is followed in any case.
    let ends_in_name = !given.ends_with('/') && !given.ends_with("/.") && given != ".";
    let mut parts: Vec<OsString> = Path::new(given)
        .components()
        .rev()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect();
    // The stack holds the components still to resolve; those of a link's target are pushed onto it.
    while let Some(part) = parts.pop() {
        if part == ".." {
            current.pop();
            continue;
        }
        if is_of_a_process(&current, &part) {
            return None;
        }
        let next = current.join(&part);
        let is_followed = follow == FollowLinks::Yes || !parts.is_empty() || !ends_in_name;
        match fs::read_link(&next) {
            Ok(target) if is_followed => {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                if target.is_absolute() {
                    current = PathBuf::from("/");
                }
                parts.extend(target.components().rev().filter_map(|part| match part {
                    Component::Normal(name) => Some(name.to_owned()),
                    Component::ParentDir => Some("..".into()),
                    Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
                }));
            }
            Ok(_) | Err(_) => current = next,
        }
    }
    Some(current)
}

/// Returns whether a name in a folder of `/proc` refers to something that a process has open. The command is another
/// process than this one, so the target is unknown.
fn is_of_a_process(folder: &Path, name: &OsString) -> bool {
    const LINKS: [&str; 7] = ["cwd", "exe", "fd", "map_files", "ns", "root", "task"];
    let is_process = |name: &str| name.chars().all(|char| char.is_ascii_digit());
    let of_process = folder.strip_prefix("/proc").ok().and_then(Path::to_str);
    of_process.is_some_and(|it| !it.is_empty() && is_process(it))
        && LINKS.iter().any(|link| name == link)
}
