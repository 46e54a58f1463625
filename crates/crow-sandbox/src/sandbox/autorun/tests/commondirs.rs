//! Tests of `commondir` files, which replace the settings of a git directory by those of another one.

use super::{
    super::{AutorunGuard, InventoryScope, KernelSeal},
    guard::Project,
};
use crate::sandbox::CommandKind;

#[test]
fn a_commondir_file_that_a_command_leaves_does_not_stay() {
    for (before, script, moved) in [
        (
            "",
            "mkdir evil; cp -r .git/. evil; rm evil/config; echo ../evil > .git/commondir",
            ".git/commondir",
        ),
        ("", "echo ../evil > .git/commondir", ".git/commondir"),
        ("", "echo . > .git/commondir", ".git/commondir"),
        ("", "touch .git/commondir", ".git/commondir"),
        ("", "echo ../evil > evil; ln -s ../evil .git/commondir", ".git/commondir"),
        ("", "echo ../evil > sub/.git/commondir", "sub/.git/commondir"),
        ("git init -q vend", "echo ../../evil > vend/.git/commondir", "vend/.git/commondir"),
        ("", "git init -q vend; echo ../../evil > vend/.git/commondir", "vend/.git"),
        (
            "mkdir -p .git/modules/x; echo x > .git/modules/x/HEAD",
            "echo ../../../evil > .git/modules/x/commondir",
            ".git/modules/x/commondir",
        ),
        (
            "git worktree add -q wt",
            "echo ../../../evil > .git/worktrees/wt/commondir",
            ".git/worktrees/wt/commondir",
        ),
        (
            "",
            "git worktree add -q wt; mkdir evil; echo ../../../evil > .git/worktrees/wt/commondir",
            ".git/worktrees/wt",
        ),
        ("mv .git g; echo 'gitdir: g' > .git", "echo ../evil > g/commondir", "g/commondir"),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        let found = project.run(|project| drop(project.shell(script)));
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, [moved], "{script}");
        assert_eq!(project.run(|_| {}), [], "{script}");
    }
}

#[test]
fn worktrees_that_git_adds_moves_and_removes_stay() {
    for script in [
        "git worktree add -q wt",
        "git worktree add -q a/wt && git worktree move a/wt b && git -C b commit -q --allow-empty -m x",
        "git worktree add -q wt && git worktree lock wt && git worktree unlock wt && git worktree remove wt",
        "git init -q vend && git -C vend commit -q --allow-empty -m x && git -C vend worktree add -q ../wt",
        "git -C sub worktree add -q ../wt",
    ] {
        let project = Project::with_repository();
        let found = project.run(|project| drop(project.shell(script)));
        assert_eq!(found, [], "{script}");
    }
}

#[test]
fn a_commondir_file_in_the_repository_of_a_worktree_elsewhere_does_not_stay() {
    let project = Project::new();
    project.shell(
        "git init -q -b main ../main && git -C ../main commit -q --allow-empty -m x \
         && git -C ../main worktree add -q ../tree && git -C ../main worktree add -q ../other",
    );
    let tree = project.base.join("tree");
    let scope = InventoryScope { roots: vec![tree], ..InventoryScope::default() };
    let guard = AutorunGuard::new(scope, KernelSeal::Missing, project.base.join("held"));
    let git = project.base.join("main/.git");
    for (commondir, is_new) in [
        ("commondir", true),
        ("worktrees/tree/commondir", false),
        ("worktrees/other/commondir", false),
    ] {
        let path = git.join(commondir);
        let before = std::fs::read(&path).ok();
        assert_eq!(before.is_none(), is_new);
        let (run, _mounts) = guard.begin("cmd", CommandKind::Foreground);
        project.shell("mkdir ../tree/ev; cp -r ../main/.git/. ../tree/ev; git -C ../tree/ev config core.fsmonitor 'touch {home}/canary; false'");
        std::fs::write(&path, project.base.join("tree/ev").to_str().unwrap()).unwrap();
        let found: Vec<_> = guard.end(run).into_iter().map(|found| found.path).collect();
        assert!(found.contains(&path), "{commondir}: {found:?}");
        assert_eq!(std::fs::read(&path).ok(), before, "{commondir}");
        project.shell("git -C ../main status; git -C ../tree status; git -C ../other status");
        assert!(!project.base.join("home/canary").exists(), "{commondir}");
    }
}

#[test]
fn a_commondir_file_in_the_repository_around_the_project_does_not_stay() {
    let project = Project::new();
    project.shell("git init -q .. && git -C .. commit -q --allow-empty -m x");
    let commondir = project.base.join(".git/commondir");
    for plant in [
        "mkdir ev; cp -r ../.git/. ev; git -C ev config core.fsmonitor 'touch {home}/canary; false'; echo $PWD/ev",
        "echo {home}/other/.git",
    ] {
        let found =
            project.run(|project| drop(project.shell(&format!("({plant}) > ../.git/commondir"))));
        assert!(found.iter().any(|(path, _)| *path == commondir.to_str().unwrap()), "{found:?}");
        assert!(!commondir.exists() && project.base.join(".git/HEAD").exists());
        project.shell("git status");
        assert!(!project.base.join("home/canary").exists());
    }
}
