//! Where git keeps what it keeps, and which of it starts programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many repositories of submodules are looked at.
const MODULES: usize = 256;
/// How deep they may lie.
const MODULE_DEPTH: usize = 6;
/// The longest file that is read.
const FILE: u64 = 64 * 1024;

/// The folder in which git keeps a repository, or what is special to one of its worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFolder {
    path: PathBuf,
    /// The file that leads to it.
    file: Option<PathBuf>,
}

impl GitFolder {
    /// Finds the folders that a commit in `root` writes to: that of the repository, and that of the worktree.
    pub(super) fn of(root: &Path) -> Vec<Self> {
        let Some(git) = root
            .ancestors()
            .map(|folder| folder.join(".git"))
            .find(|git| fs::symlink_metadata(git).is_ok())
        else {
            return Vec::new();
        };
        if git.is_dir() {
            let Ok(path) = git.canonicalize() else { return Vec::new() };
            // A link out of the workspace leads to the repository of somebody else.
            let is_own = path == git || git.parent().is_some_and(|parent| path.starts_with(parent));
            return if is_own { vec![Self { path, file: None }] } else { Vec::new() };
        }
        Self::of_file(&git).unwrap_or_default()
    }

    /// Follows a `.git` file of a worktree or submodule. What it says is believed only if the other side says so, too:
    /// else a clone could name any repository of its user.
    fn of_file(file: &Path) -> Option<Vec<Self>> {
        let parent = file.parent()?;
        let text = read(file)?;
        let folder = parent.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let own = Self { path: folder.clone(), file: Some(file.to_owned()) };
        if folder.starts_with(parent) {
            return Some(vec![own]);
        }
        let points_back = |name: &str, expected: &Path| {
            let back = read(&folder.join(name))?;
            let back = folder.join(back.trim()).canonicalize().ok()?;
            (back == expected).then_some(())
        };
        points_back("gitdir", file)?;
        let common = folder.join(read(&folder.join("commondir"))?.trim()).canonicalize().ok()?;
        if !folder.starts_with(&common) {
            return None;
        }
        Some(vec![Self { path: common, file: None }, own])
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that leads to it.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the repositories of submodules that are kept in it.
    pub(super) fn modules(&self) -> Vec<PathBuf> {
        let mut modules = Vec::new();
        find_modules(&self.path.join("modules"), MODULE_DEPTH, &mut modules);
        modules
    }
}

/// Returns files and folders in a repository that say which programs git starts, also those that are not there.
pub(super) fn settings_in(folder: &Path) -> Vec<PathBuf> {
    ["config", "config.worktree", "hooks", "commondir", "gitdir"]
        .iter()
        .map(|name| folder.join(name))
        // What leads elsewhere is there or is not, and is checked by git itself.
        .filter(|path| !(path.ends_with("commondir") || path.ends_with("gitdir")) || path.exists())
        .collect()
}

fn find_modules(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if found.len() == MODULES
            || depth == 0
            || !entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            continue;
        }
        let path = entry.path();
        // One that is not complete yet may become so.
        if ["HEAD", "config", "hooks"].iter().any(|name| path.join(name).exists()) {
            find_modules(&path.join("modules"), depth - 1, found);
            found.push(path);
        } else {
            find_modules(&path, depth - 1, found);
        }
    }
}

/// Whether a `.git` is as `git init` and `git clone` make it: nothing in it starts a program.
pub(super) fn is_harmless_repository(git: &Path) -> bool {
    if !fs::symlink_metadata(git).is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    let hooks = git.join("hooks");
    let are_samples = match fs::read_dir(&hooks) {
        Ok(entries) => entries.flatten().all(|entry| {
            entry.file_name().as_encoded_bytes().ends_with(b".sample")
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        }),
        Err(_) => fs::symlink_metadata(&hooks).is_err(),
    };
    let no_others = ["config.worktree", "modules", "commondir", "worktrees"]
        .iter()
        .all(|name| fs::symlink_metadata(git.join(name)).is_err());
    are_samples
        && no_others
        && read(&git.join("config")).is_some_and(|text| is_harmless_config(&text))
}

/// Whether git's settings have only keys that start nothing and name no other file.
fn is_harmless_config(text: &str) -> bool {
    const KEYS: &[(&str, &[&str])] = &[
        (
            "core",
            &[
                "repositoryformatversion",
                "filemode",
                "bare",
                "logallrefupdates",
                "ignorecase",
                "precomposeunicode",
                "symlinks",
                "worktree",
            ],
        ),
        ("extensions", &["objectformat", "refstorage"]),
        ("remote", &["url", "fetch"]),
        ("branch", &["remote", "merge"]),
        ("submodule", &["active"]),
        ("user", &["name", "email"]),
    ];
    let mut section = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some(head) = rest.strip_suffix(']') else { return false };
            let name = head.split([' ', '"', '.']).next().unwrap_or_default().to_ascii_lowercase();
            section = KEYS.iter().find(|(known, _)| *known == name).map(|(_, keys)| *keys);
            if section.is_none() {
                return false;
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        // A transport helper (`ext::`) is a program.
        let is_plain = !value.contains("::") && !line.ends_with('\\');
        if !is_plain || !section.is_some_and(|keys| keys.contains(&key.as_str())) {
            return false;
        }
    }
    true
}

fn read(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > FILE {
        return None;
    }
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_harmless_only_if_every_key_is_known() {
        let plain = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n";
        assert!(is_harmless_config(plain));
        for line in [
            "[core]\nfsmonitor = evil",
            "[core] fsmonitor = evil",
            "[alias]\nst = !evil",
            "[core]\nhooksPath = x",
            "[include]\npath = x",
            "[remote \"o\"]\nurl = ext::sh -c evil",
            "[core]\nbare = \\\nfalse",
            "[filter \"x\"]\nclean = evil",
            "fsmonitor = evil",
            "[core]\nsshCommand = evil",
            "[core",
        ] {
            assert!(!is_harmless_config(line), "{line:?}");
        }
    }

    #[test]
    fn a_worktree_is_believed_only_if_its_repository_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (main, tree) = (base.join("main/.git"), base.join("tree"));
        let own = main.join("worktrees/tree");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(GitFolder::of(&tree), []);
        fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let found: Vec<_> = GitFolder::of(&tree).iter().map(|git| git.path().to_owned()).collect();
        assert_eq!(found, [main, own]);
    }

    #[test]
    fn a_link_to_another_repository_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("victim/.git")).unwrap();
        fs::create_dir(base.join("clone")).unwrap();
        std::os::unix::fs::symlink("../victim/.git", base.join("clone/.git")).unwrap();
        assert_eq!(GitFolder::of(&base.join("clone")), []);
    }
}
