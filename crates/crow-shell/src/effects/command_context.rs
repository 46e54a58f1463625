//! Where a command stands: the folders that it may run in, and what a path means there.

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

use crate::parse::LineNotes;

/// How many links are followed before a path counts as one that leads nowhere.
const MAX_LINKS: usize = 40;
/// How long a path may be, as the systems have it.
const MAX_BYTES: usize = 4096;
/// How much of the file system is looked at for one line: paths and entries of folders.
const MOST_LOOKS: usize = 20_000;

/// Whether the last name of a path is followed if it is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowLinks {
    Yes,
    /// The link itself is meant, as when it is removed.
    No,
}

/// Where a command stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandContext<'a> {
    /// The folders that it may run in, if they are known.
    pub folders: Option<&'a [PathBuf]>,
    pub workspace: &'a Workspace,
    pub notes: &'a LineNotes,
    pub budget: &'a LookupBudget,
}

/// How often a line may still make somebody look at the file system. What is not looked at is not known.
#[derive(Debug)]
pub(super) struct LookupBudget(Cell<usize>);

impl LookupBudget {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST_LOOKS))
    }

    /// Takes one look, if there is one left.
    pub(super) fn take(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }
}

impl CommandContext<'_> {
    /// Returns what is touched by a command that a path is given to. None if that is not known.
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

    /// Returns the file that a path leads to, if it is a single one.
    pub(super) fn only(&self, given: &str) -> Option<PathBuf> {
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

    /// Returns whether all that can be reached from a folder, also over links, lies in the workspace.
    pub(super) fn holds_all_below(&self, path: &Path) -> bool {
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            // What is no folder, or cannot be read, has nothing below it.
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

/// Goes from a folder along a path as the kernel does: links are followed where they stand, so that `..` after one
/// leads out of where it led to. What does not exist stays as it is written.
pub(super) fn resolve(folder: &Path, given: &str, follow: FollowLinks) -> Option<PathBuf> {
    let mut at = folder.to_owned();
    let mut links = 0;
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
    while let Some(part) = parts.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        if is_of_a_process(&at, &part) {
            return None;
        }
        let next = at.join(&part);
        let is_followed = follow == FollowLinks::Yes || !parts.is_empty() || !ends_in_name;
        match fs::read_link(&next) {
            Ok(target) if is_followed => {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                parts.extend(target.components().rev().filter_map(|part| match part {
                    Component::Normal(name) => Some(name.to_owned()),
                    Component::ParentDir => Some("..".into()),
                    Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
                }));
            }
            Ok(_) | Err(_) => at = next,
        }
    }
    Some(at)
}

/// Whether a name in a folder of `/proc` leads to what a process has open: the command is another process than this one.
fn is_of_a_process(folder: &Path, name: &OsString) -> bool {
    const LINKS: [&str; 7] = ["cwd", "exe", "fd", "map_files", "ns", "root", "task"];
    let is_process = |name: &str| name.chars().all(|char| char.is_ascii_digit());
    let of_process = folder.strip_prefix("/proc").ok().and_then(Path::to_str);
    of_process.is_some_and(|it| !it.is_empty() && is_process(it))
        && LINKS.iter().any(|link| name == link)
}
