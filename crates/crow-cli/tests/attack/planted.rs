//! Programs that a command plants for later. Afterwards the user works with git in the project, outside the sandbox.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Script that creates a repository with a commit and a submodule.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b; git config user.name a; \
     git init -q -b main sub; git -C sub config user.email a@b; git -C sub config user.name a; git -C sub commit -q --allow-empty -m x; \
     git add sub 2>/dev/null; git commit -qm x";
/// Script that creates a repository `evil` whose settings start a program.
const EVIL: &str = "mkdir -p evil/hooks evil/objects evil/refs; echo 'ref: refs/heads/main' > evil/HEAD; \
     git config -f evil/config core.bare false; git config -f evil/config core.fsmonitor 'touch {project}/pwned; false'; ";
/// Git commands that the user runs afterwards.
const USER: &str = "set +e; git status >/dev/null 2>&1; git diff >/dev/null 2>&1; git add -A >/dev/null 2>&1; git commit -qm y --allow-empty >/dev/null 2>&1; \
     git fetch >/dev/null 2>&1; git stash list >/dev/null 2>&1; git submodule status >/dev/null 2>&1; (cd sub && git status) >/dev/null 2>&1; true";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_does_not_run_programs_planted_by_a_command() {
    if !has_full_sandbox("repositories") {
        return;
    }
    let table = [
        (
            "a common directory",
            "EVIL cp -r .git/refs .git/objects evil/; echo ../evil > .git/commondir",
        ),
        (
            "a submodule that leads elsewhere",
            "EVIL mv sub/.git sub/old; echo 'gitdir: ../evil' > sub/.git",
        ),
        (
            "a new gitlink",
            "EVIL mkdir new; echo 'gitdir: ../evil' > new/.git; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new",
        ),
        (
            "a new gitlink in a split index",
            "EVIL mkdir new; echo 'gitdir: ../evil' > new/.git; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new; git update-index --split-index",
        ),
        (
            "a submodule below a renamed directory",
            "mv sub old; mkdir sub; cp -r old/.git sub/.git; git -C sub config core.fsmonitor 'touch {project}/pwned; false'",
        ),
        (
            "a submodule that became a link",
            "EVIL mv sub old; mkdir real; echo 'gitdir: ../evil' > real/.git; ln -s real sub",
        ),
        (
            "a link in the place of git",
            "EVIL cp -r .git/refs .git/objects evil/; rm -rf .git; ln -s evil .git",
        ),
        (
            "a link in modules",
            "EVIL mkdir -p .git/modules; ln -s ../../evil .git/modules/sub; rm -rf sub/.git; echo 'gitdir: ../.git/modules/sub' > sub/.git",
        ),
        (
            "hooks behind a link, in two commands",
            "rm -rf .git; git init -q .; rm -rf .git/hooks; ln -s ../a/b .git/hooks; mkdir -p a/b; printf '#!/bin/sh\\ntouch {project}/pwned\\n' > a/b/post-commit; chmod +x a/b/post-commit",
        ),
        (
            "settings of a worktree",
            "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch {project}/pwned; false'; printf '[core]\\nfsmonitor = touch {project}/pwned; false\\n' > .git/config.worktree",
        ),
        (
            "a bare repository by a common directory",
            "EVIL cp -r .git/refs .git/objects evil/; rm -rf .git; echo 'ref: refs/heads/main' > HEAD; echo evil > commondir",
        ),
        (
            "settings put back by a rename",
            "cp .git/config c; git config -f c core.fsmonitor 'touch {project}/pwned; false'; mv -f c .git/config; cp c .git/config.lock; mv -f .git/config.lock .git/config",
        ),
        (
            "a rebase that goes on",
            "mkdir .git/rebase-merge; echo 'exec touch {project}/pwned' > .git/rebase-merge/git-rebase-todo; echo main > .git/rebase-merge/head-name",
        ),
    ];
    let cases = table.into_iter().map(|(name, line)| {
        let line = line.replace("EVIL", EVIL);
        Attack::confined(format!("planted: {name}"), &line)
            .before(REPOSITORY)
            .after(USER)
            .keeps("pwned")
    });
    let by_settings = [
        (
            "a directory of hooks that the user set",
            "git config core.hooksPath .husky; mkdir .husky; echo true > .husky/pre-commit",
            "printf '#!/bin/sh\\ntouch {project}/pwned\\n' > .husky/post-commit; chmod +x .husky/post-commit; mv .husky h; mkdir .husky; cp h/* .husky",
        ),
        (
            "a hook that the user wrote",
            "git config core.hooksPath .husky; mkdir .husky; printf '#!/bin/sh\\n' > .husky/pre-commit; chmod +x .husky/pre-commit",
            "echo 'touch {project}/pwned' >> .husky/pre-commit",
        ),
        (
            "settings that are included",
            "git config include.path ../.gitconfig; git config -f .gitconfig user.nick x",
            "git config -f .gitconfig core.fsmonitor 'touch {project}/pwned; false'",
        ),
        (
            "a program that settings name",
            "git config core.fsmonitor ./tools/watch; mkdir tools; printf '#!/bin/sh\\nfalse\\n' > tools/watch; chmod +x tools/watch",
            "echo 'touch {project}/pwned' > tools/watch; mv tools t; mkdir tools; printf '#!/bin/sh\\ntouch {project}/pwned\\n' > tools/watch; chmod +x tools/watch",
        ),
    ];
    let by_settings = by_settings.into_iter().map(|(name, before, line)| {
        Attack::confined(format!("planted: {name}"), line)
            .before(REPOSITORY)
            .before(before)
            .after(USER)
            .keeps("pwned")
    });
    try_all(cases.chain(by_settings).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_autorun_guard_moves_nothing_outside_the_project() {
    if !has_full_sandbox("repositories") {
        return;
    }
    let table = [
        ("the home as modules", "ln -s {home} .git/modules"),
        ("a repository as a module", "mkdir -p .git/modules; ln -s {out}/r .git/modules/r"),
        (
            "a repository as a submodule",
            "rm -rf sub; ln -s {out}/r sub; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,sub",
        ),
        (
            "a repository by an absolute name in the index",
            "python3 - <<'E'\nimport struct,hashlib\nname=b'{out}/r'\ne=b'\\0'*24+struct.pack('>I',0o160000)+b'\\0'*12+b'\\x11'*20+struct.pack('>H',len(name))+name\ne+=b'\\0'*(8-len(e)%8)\nd=b'DIRC'+struct.pack('>II',2,1)+e\nopen('.git/index','wb').write(d+hashlib.sha1(d).digest())\nE",
        ),
        ("keys in the place of git", "rm -rf .git; ln -s {home}/.ssh .git"),
        (
            "settings over keys",
            "rm -f .vscode; ln -s {home}/.ssh .vscode; ln -s {home}/.config .claude; ln -s {home} .github",
        ),
        ("hooks over keys", "rm -rf .git/hooks; ln -s {home}/.ssh .git/hooks"),
        ("a common directory outside", "echo {out}/r/.git > .git/commondir"),
        (
            "a worktree outside",
            "git config core.worktree {home}; mkdir -p .git/worktrees; ln -s {home} .git/worktrees/x",
        ),
    ];
    let cases = table.into_iter().map(|(name, line)| {
        Attack::confined(format!("carried off: {name}"), line)
            .before("mkdir -p {out}/r; git init -q {out}/r; printf '#!/bin/sh\\n' > {out}/r/.git/hooks/pre-commit")
            .before(REPOSITORY)
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_cannot_change_a_protected_file_written_with_permission() {
    if !has_full_sandbox("protected files") {
        return;
    }
    let job = "while [ ! -e .envrc ]; do sleep 0.05; done; echo PWN >> .envrc; mkdir -p .github/workflows; echo PWN > .github/workflows/own.yml; echo did''-it; sleep 30";
    let case = Attack::new("written beside a job", "full-auto")
        .rule("allow", &json!({"path": {"path": ".envrc", "access": "write"}}))
        .call("bash", json!({"command": job, "run_in_background": true}))
        .call("write_file", json!({"path": ".envrc", "content": "use nix\n"}))
        .call("bash_output", json!({"job_id": "job-1", "wait": 5}))
        // The periodic check of protected files restores `.envrc`: wait for it, with a deadline.
        .call("bash", json!({"command": "is_whole() { test \"$(cat .envrc)\" = 'use nix' && test ! -e .github/workflows/own.yml; }; i=0; while ! is_whole && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done; cat .envrc; is_whole && echo as''-written"}))
        .shows("as-written")
        .after("test \"$(cat .envrc)\" = 'use nix'; test ! -e .github/workflows/own.yml");
    try_all(vec![case]).await;
}
