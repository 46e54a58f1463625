//! Checks that a skipped pass would have given the same result.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::{
    entry_state::StateReader,
    inventory::{Inventory, InventoryScope, NothingSealed, SealedPaths},
};

/// Paths of a project that passes look at, and some that lead to others.
const PATHS: [&str; 22] = [
    ".git",
    ".git/config",
    ".git/commondir",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/worktrees",
    ".git/modules/sub",
    ".git/modules/sub/config",
    ".git/index",
    ".vscode",
    ".vscode/tasks.json",
    ".vscode/inner/file",
    ".envrc",
    "Project.code-workspace",
    "sub",
    "sub/.git",
    "tools",
    "tools/hook",
    "src",
    "src/file",
    "other",
    "HEAD",
];
const TEXTS: [&str; 4] = [
    "[core]\n\thooksPath = tools\n",
    "[core]\n\tfsmonitor = tools/hook\n[include]\n\tpath = ../src/file\n",
    "gitdir: ../.git/modules/sub\n",
    "gitdir: ../other\n",
];
/// Number of changes in each project, and of projects that are changed in parallel.
const CHANGES: usize = 40;
const PROJECTS: usize = 8;

#[derive(Debug, Clone)]
enum Change {
    Write(&'static str, &'static str),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Link(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Directory(&'static str),
    Mode(&'static str, u32),
    Nothing,
}

fn change() -> impl Strategy<Value = Change> {
    let path = || select(PATHS.as_slice());
    let two = || (path(), path());
    prop_oneof![
        4 => (path(), select(TEXTS.as_slice())).prop_map(|(path, text)| Change::Write(path, text)),
        2 => path().prop_map(Change::Remove),
        2 => two().prop_map(|(path, new)| Change::Rename(path, new)),
        2 => two().prop_map(|(path, other)| Change::Exchange(path, other)),
        2 => two().prop_map(|(target, path)| Change::Link(target, path)),
        1 => two().prop_map(|(path, new)| Change::HardLink(path, new)),
        2 => path().prop_map(Change::Directory),
        1 => (path(), select([0o755, 0o700, 0o644].as_slice()))
            .prop_map(|(path, mode)| Change::Mode(path, mode)),
        2 => Just(Change::Nothing),
    ]
}

impl Change {
    /// Makes the change, if it is possible.
    fn make(&self, root: &Path) {
        let at = |path: &str| root.join(path);
        let made = match self {
            Self::Write(path, text) => at(path)
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(at(path), text)),
            Self::Remove(path) if at(path).is_dir() && !at(path).is_symlink() => {
                fs::remove_dir_all(at(path))
            }
            Self::Remove(path) => fs::remove_file(at(path)),
            Self::Rename(path, new) => fs::rename(at(path), at(new)),
            Self::Exchange(path, other) => {
                renameat_with(CWD, at(path), CWD, at(other), RenameFlags::EXCHANGE)
                    .map_err(Into::into)
            }
            Self::Link(target, path) => symlink(at(target), at(path)),
            Self::HardLink(path, new) => fs::hard_link(at(path), at(new)),
            Self::Directory(path) => fs::create_dir_all(at(path)),
            Self::Mode(path, mode) => {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))
            }
            Self::Nothing => Ok(()),
        };
        drop(made);
    }
}

/// Seals everything that may be sealed, as before a command.
struct AllSealed;

impl SealedPaths for AllSealed {
    fn is_sealed(&self, _path: &Path, _identity: crow_fs::FileIdentity) -> bool {
        true
    }

    fn is_unchangeable(&self, _path: &Path) -> bool {
        false
    }
}

fn project(folder: &Path) -> InventoryScope {
    let root = folder.canonicalize().unwrap().join("project");
    for directory in [".git/hooks", ".git/objects", ".git/refs", ".git/modules/sub", "sub", "src"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (file, text) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", "[core]\n\tbare = false\n"),
        (".git/modules/sub/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/sub/config", "[core]\n\tworktree = ../../../sub\n"),
        ("sub/.git", "gitdir: ../.git/modules/sub\n"),
    ] {
        fs::write(root.join(file), text).unwrap();
    }
    InventoryScope { roots: vec![root], ..InventoryScope::default() }
}

/// Takes inventories until one is recorded. Returns true if that succeeded.
fn record(scope: &InventoryScope, reader: &mut StateReader, sealed: &dyn SealedPaths) -> bool {
    for _ in 0..60 {
        Inventory::collect(scope, reader, sealed);
        if reader.unchanged_inventory(scope, sealed).is_some() {
            return true;
        }
        // The clock of the file system must advance.
        thread::park_timeout(Duration::from_millis(5));
    }
    false
}

fn compare_after_changes(sealed: &dyn SealedPaths) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let scope = project(folder.path());
    let root = scope.roots[0].clone();
    let mut reader = StateReader::default();
    let mut runner = TestRunner::new(Config::default());
    let (mut recorded, mut skipped) = (0, 0);
    let mut history: Vec<Change> = Vec::new();
    for _ in 0..CHANGES {
        recorded += usize::from(record(&scope, &mut reader, sealed));
        let changes =
            prop::collection::vec(change(), 1..3).new_tree(&mut runner).unwrap().current();
        for change in changes {
            change.make(&root);
            history.push(change);
        }
        skipped += usize::from(reader.unchanged_inventory(&scope, sealed).is_some());
        let now = Inventory::collect(&scope, &mut reader, sealed);
        let fresh = Inventory::collect(&scope, &mut StateReader::default(), sealed);
        assert_eq!(now, fresh, "after {history:#?}");
        if !root.join(".git").exists() {
            drop(fs::remove_dir_all(&root));
            project(folder.path());
        }
    }
    (recorded, skipped)
}

#[test]
fn a_skipped_pass_would_have_found_the_same() {
    let projects = (0..PROJECTS).map(|number| {
        thread::spawn(move || {
            let sealed: &dyn SealedPaths =
                if number % 2 == 0 { &NothingSealed } else { &AllSealed };
            compare_after_changes(sealed)
        })
    });
    let projects: Vec<_> = projects.collect();
    let (recorded, skipped) = projects
        .into_iter()
        .map(|project| project.join().unwrap())
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert!(recorded > PROJECTS * CHANGES / 2, "{recorded}");
    assert!(skipped > PROJECTS * CHANGES / 20, "{skipped}");
}

#[test]
fn a_hook_that_appears_in_a_folder_that_is_listed_in_two_ways_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let scope = project(folder.path());
    let root = &scope.roots[0];
    // The folder of hooks is also looked at as the git directory of a linked worktree, and only for links then.
    symlink(root.join(".git"), root.join(".git/worktrees")).unwrap();
    let mut reader = StateReader::default();
    assert!(record(&scope, &mut reader, &NothingSealed));
    fs::write(root.join(".git/hooks/pre-commit"), "tools/hook").unwrap();
    assert!(reader.unchanged_inventory(&scope, &NothingSealed).is_none());
}

#[test]
fn a_directory_exchanged_after_the_pass_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let scope = project(folder.path());
    let root: PathBuf = scope.roots[0].clone();
    for (path, text) in [("evil/.git", "gitdir: ../other\n"), ("other/HEAD", "ref: x\n")] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    let mut reader = StateReader::default();
    for _ in 0..3 {
        assert!(record(&scope, &mut reader, &NothingSealed));
        renameat_with(CWD, root.join("sub"), CWD, root.join("evil"), RenameFlags::EXCHANGE)
            .unwrap();
        assert!(reader.unchanged_inventory(&scope, &NothingSealed).is_none());
    }
}
