//! Files in the project that start programs or configure agents, in full-auto.

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// A file in or at each protected path. Each is tried both existing and missing.
const FILES: [&str; 32] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".crow-agent/permissions.json",
    ".crow-agent/providers/x.toml",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".zed/tasks.json",
    ".github/workflows/x.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    ".travis.yml",
    "Jenkinsfile",
    ".mcp.json",
    ".claude/settings.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".envrc",
    ".exrc",
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".devcontainer/devcontainer.json",
    ".dir-locals-2.el",
    "bitbucket-pipelines.yml",
    ".cargo/config.toml",
    ".npmrc",
    ".kiro/hooks/x.json",
    "opencode.json",
    ".hg/hgrc",
    "tools/bazel",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_cannot_change_an_existing_protected_file() {
    if !has_full_sandbox("protected files") {
        return;
    }
    let write = FILES.iter().map(|file| {
        Attack::confined(format!("write {file}"), &format!("echo PWN > {file}; echo PWN >> {file}"))
            .file(file, "mine\n")
    });
    let table = [
        ("removed", "rm -f .vscode/tasks.json; rm -rf .vscode"),
        ("renamed", "mv .vscode old; mkdir .vscode; echo PWN > .vscode/tasks.json"),
        ("replaced by a rename", "echo PWN > x; mv -f x .vscode/tasks.json"),
        ("a link over it", "echo PWN > x; ln -sf ../x .vscode/tasks.json"),
        ("a hard link to it", "ln .vscode/tasks.json y && echo PWN > y"),
        ("written through a link", "ln -s .vscode w; echo PWN > w/tasks.json"),
        ("truncated", "truncate -s 0 .vscode/tasks.json"),
        ("cut in place", "python3 -c 'import os; os.truncate(\".vscode/tasks.json\", 1)'"),
        ("its mode", "chmod 777 .vscode/tasks.json"),
        ("its owner", "chown 1:1 .vscode/tasks.json"),
        (
            "exchanged",
            "mkdir x; echo PWN > x/tasks.json; python3 -c 'import ctypes; l=ctypes.CDLL(None); l.renameat2(-100,b\"x\",-100,b\".vscode\",2)'",
        ),
        (
            "through proc",
            "echo PWN > /proc/self/cwd/.vscode/tasks.json; echo PWN > /proc/self/root{project}/.vscode/tasks.json",
        ),
        (
            "through a descriptor that reads",
            "exec 5<.vscode/tasks.json; echo PWN > /proc/self/fd/5",
        ),
        (
            "from another namespace",
            "unshare -rm sh -c 'umount -l .vscode; echo PWN > .vscode/tasks.json'",
        ),
        ("unmounted", "umount -l .vscode; umount .vscode; echo PWN > .vscode/tasks.json"),
        ("mounted again", "mount -o remount,rw,bind .vscode; echo PWN > .vscode/tasks.json"),
        ("git moved away", "mv .git old; mkdir -p .git/hooks; echo PWN > .git/hooks/pre-commit"),
        ("git exchanged for a file", "mv .git x; echo 'gitdir: ./PWN' > .git"),
        ("hooks moved by git", "git config core.hooksPath PWN"),
        ("an alias by git", "git config alias.x '!PWN'"),
        ("a watch by git", "git config core.fsmonitor PWN"),
        ("an include by git", "git config --file .git/config include.path PWN"),
        ("the project renamed", "cd ..; mv project p2; mkdir project; echo PWN > project/.vscode"),
        (
            "git init again",
            "mkdir t; mkdir t/hooks; echo PWN > t/hooks/post-commit; git init --template=t; git init --template t -q .",
        ),
        (
            "a race of renames",
            "mkdir d; for i in 1 2 3 4 5 6 7 8 9; do mv d .vscode; mv .vscode e; mv e d; done; echo PWN > .vscode/tasks.json",
        ),
    ];
    let others = table.iter().map(|(name, line)| {
        Attack::confined(format!("kept: {name}"), line)
            .file(".vscode/tasks.json", "mine\n")
            .file(".git/hooks/post-commit", "#!/bin/sh\n")
    });
    try_all(write.chain(others).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_cannot_create_a_protected_file() {
    if !has_full_sandbox("protected files") {
        return;
    }
    let write = FILES.iter().map(|file| {
        let line = format!("mkdir -p $(dirname {file}); echo PWN > {file}");
        // The scene creates a repository, so its files are removed first.
        let attack = Attack::confined(format!("make {file}"), &line);
        if file.starts_with(".git/") { attack.before("rm -rf .git") } else { attack }
    });
    let table = [
        ("a folder renamed to it", "mkdir x; echo PWN > x/tasks.json; mv x .vscode"),
        ("a link to elsewhere", "mkdir x; echo PWN > x/tasks.json; ln -s x .vscode"),
        ("a hard link", "echo PWN > x; ln x .mcp.json"),
        ("a repository", "rm -rf .git; git init -q .; echo PWN > .git/hooks/pre-commit"),
        ("a repository with settings", "rm -rf .git; git init -q .; git config core.fsmonitor PWN"),
        (
            "a file that leads to a repository",
            "rm -rf .git; git init -q r; git -C r config core.fsmonitor PWN; mv r/.git g; echo 'gitdir: g' > .git",
        ),
        ("left by a job", "(sleep 0.1; mkdir .vscode; echo PWN > .vscode/tasks.json) & disown"),
        (
            "a folder of hooks of git",
            "rm -rf .git/hooks; mkdir .git/hooks; echo PWN > .git/hooks/pre-push",
        ),
        (
            "a common folder of git",
            "mkdir c; cp -r .git/* c; echo PWN >> c/config; echo ../c > .git/commondir",
        ),
        (
            "a submodule",
            "mkdir -p .git/modules/m/hooks; echo PWN > .git/modules/m/hooks/post-checkout; echo PWN > .git/modules/m/config",
        ),
    ];
    let others = table.iter().map(|(name, line)| Attack::confined(format!("new: {name}"), line));
    // Git at the root enters every directory that its index lists as a repository.
    let make = "git init -q sub; git -C sub config user.email a@b; git -C sub config user.name a; git -C sub commit -q --allow-empty -m x; git add sub";
    let nested = [
        (
            "a repository in a folder",
            format!("{make}; git -C sub config core.fsmonitor 'touch {{project}}/pwned; false'"),
        ),
        (
            "a submodule that moved",
            format!(
                "{make}; mkdir -p .git/modules; mv sub/.git .git/modules/sub; echo 'gitdir: ../.git/modules/sub' > sub/.git; git config -f .git/modules/sub/config core.worktree ../../../sub; git config -f .git/modules/sub/config core.fsmonitor 'touch {{project}}/pwned; false'"
            ),
        ),
    ];
    let nested = nested.into_iter().map(|(name, line)| {
        Attack::confined(format!("new: {name}"), &line)
            .after("git status > /dev/null || true; git diff > /dev/null || true")
            .keeps("pwned")
    });
    let bare = Attack::confined("a bare repository at the root", "rm -rf .git; mkdir objects refs; echo ref: refs/heads/main > HEAD; printf '[core]\\nfsmonitor=PWN\\nbare=false\\nworktree=.\\n' > config")
        .keeps("HEAD");
    try_all(write.chain(others).chain(nested).chain([bare]).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_symlink_of_the_clone_gives_no_write_access_to_its_target() {
    if !has_full_sandbox("links") {
        return;
    }
    let table = [
        (
            "settings that lead to others",
            "mkdir settings; echo mine > settings/tasks.json; ln -s settings .vscode",
            "echo PWN > settings/tasks.json; echo PWN > .vscode/tasks.json",
            "settings",
        ),
        ("a file that leads out", "ln -s {out}/victim .envrc", "echo PWN > .envrc", ".envrc"),
        (
            "git that leads out",
            "rm -rf .git; mkdir -p {out}/r/hooks; cp /dev/null {out}/r/HEAD; ln -s {out}/r .git",
            "echo PWN > .git/hooks/x; touch .git/x",
            ".git",
        ),
        (
            "git of another repository",
            "rm -rf .git; mkdir -p {out}/r/hooks; echo 'gitdir: {out}/r' > .git",
            "echo PWN > {out}/r/hooks/x; touch {out}/r/x",
            ".git",
        ),
        (
            "the temporary folder of all",
            "true",
            "ls {out} > /dev/null; echo PWN > {out}/victim; echo PWN > {out}/new",
            ".git",
        ),
        (
            "a link to the home",
            "ln -s {home} h",
            "echo PWN > h/.bashrc; echo PWN >> h/.ssh/id_ed25519; mkdir h/.config/crow-agent",
            ".git/config",
        ),
    ];
    let case = |(name, before, line, keeps): &(&str, &str, &str, &str)| {
        Attack::confined(*name, line).before(before).keeps(keeps)
    };
    try_all(table.iter().map(case).collect()).await;
}
