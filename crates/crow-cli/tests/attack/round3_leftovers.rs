//! Files that a command leaves to confuse the cleanup: odd files, links, modes, floods, races and jobs.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b; git config user.name a; \
     echo text > a.txt; git add -A; git commit -qm x; git init -q {out}/r; mkdir {out}/r/.git/modules; printf '#!/bin/sh\\n' > {out}/r/.git/hooks/pre-commit";
/// Loop that recreates files that start programs, without end.
const FLOOD: &str = "while :; do mkdir -p .vscode .git/modules/m/hooks; echo PWN > .vscode/tasks.json; echo PWN > .envrc; echo PWN > .git/modules/m/hooks/x; echo ../evil > .git/commondir; done";

/// Obstacles for the cleanup, left in addition to files that start programs: name and line.
const LEFT: &[(&str, &str)] = &[
    (
        "pipes",
        "for f in .git/commondir .git/config.worktree .gitmodules .mcp.json .git/gitdir; do mkfifo $f; done; rm .git/index; mkfifo .git/index",
    ),
    ("a pipe as a hook", "rm -rf .git/hooks; mkdir .git/hooks; mkfifo .git/hooks/pre-commit"),
    ("a pipe as modules", "mkfifo .git/modules; mkfifo .git/worktrees"),
    ("a pipe in the place of git", "mv .git g; mkfifo .git"),
    (
        "a socket in the place of git",
        "mv .git g; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".git\")'",
    ),
    (
        "huge files",
        "for f in .git/commondir .git/config.worktree .gitmodules .git/index .git/packed-refs; do rm -f $f; truncate -s 40G $f; done",
    ),
    ("a huge file in the place of git", "mv .git g; truncate -s 40G .git"),
    ("a huge link", "ln -s $(printf 'x%.0s' $(seq 4000)) .git/commondir; ln -s . .git/modules"),
    (
        "long names",
        "n=$(printf 'x%.0s' $(seq 255)); mkdir -p .git/modules/$n/$n/$n .vscode/$n/$n; echo PWN > .vscode/$n/$n/$n; echo PWN > .git/modules/$n/config; mkdir .git/modules/$n/hooks; echo PWN > .git/modules/$n/hooks/$n",
    ),
    (
        "odd names",
        "mkdir -p $'.git/modules/\\xff\\n\\e[31m/hooks'; echo PWN > $'.git/modules/\\xff\\n\\e[31m/hooks/post-checkout'; echo PWN > $'.git/hooks/\\n'; mkdir .vscode; echo PWN > $'.vscode/\\xe2\\x80\\xae'",
    ),
    (
        "many modules",
        "mkdir -p .git/modules; for i in $(seq 3000); do mkdir .git/modules/$i; done; mkdir -p .git/modules/zz/hooks; echo PWN > .git/modules/zz/hooks/x; echo PWN > .git/modules/zz/config",
    ),
    ("many hooks", "for i in $(seq 2000); do echo PWN; done | split -l 1 -a 4 - .git/hooks/h"),
    (
        "empty files before a full one",
        "mkdir -p .crow-agent/x; (cd .crow-agent/x; seq 17000 | xargs touch); rm -f .vscode/tasks.json; mv .vscode v; mkdir -p .vscode .husky; echo PWN > .vscode/tasks.json; echo PWN > .husky/pre-commit",
    ),
    ("a loop of links", "ln -s l2 l1; ln -s l1 l2; mv .git g; ln -s l1 .git"),
    (
        "a repository within itself",
        "mkdir s; ln -s ../.git s/.git; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,s; echo 'gitdir: .' > .git/gitdir; ln -s .. .git/modules",
    ),
    (
        "a common directory that is itself",
        "echo . > .git/commondir; mkdir -p .git/worktrees/x; echo ../x > .git/worktrees/x/commondir",
    ),
    ("a file of git that leads to itself", "mv .git g; echo 'gitdir: .git' > .git"),
    (
        "no modes",
        "mkdir -p .git/modules/m/hooks; echo PWN > .git/modules/m/hooks/x; chmod 000 .git/modules/m .git/modules; chmod 000 .vscode .vscode/tasks.json",
    ),
    ("modes that keep from moving", "chmod 555 .vscode; chmod 444 .envrc; chmod 555 . .git"),
    (
        "modes of the folder of hooks",
        "mkdir -p .git/hooks; echo PWN > .git/hooks/post-commit; chmod 000 .git/hooks; chmod 000 .git; chmod 000 .",
    ),
    ("no modes in the project", "chmod 0 ."),
    (
        "a link that goes round",
        "rm -rf .vscode; mkdir v; echo PWN > v/tasks.json; ln -s v .vscode; ln -s {out} .github; ln -s {home} .cursor",
    ),
    (
        "settings in a folder that is a link outside",
        "ln -s {out}/r/.git .git/modules; ln -s {out}/r .git/worktrees",
    ),
    (
        "hidden things in git's files",
        "for f in .git/packed-refs .git/commondir .git/config.worktree .git/shallow .gitmodules .git/MERGE_MSG; do ln -sf {home}/.ssh/id_ed25519 $f; done; ln -sf {home}/.ssh/id_ed25519 .git/HEAD; ln -sf {home}/.netrc .git/index; git status; git log",
    ),
    (
        "an order that looks like a name",
        "mkdir -p '.git/modules/--exec=touch PWN/hooks' '.git/modules/$(touch PWN)'; echo PWN > '.git/modules/--exec=touch PWN/hooks/x'",
    ),
    ("the project emptied", "rm -rf .git * .[a-z]*"),
    ("the working directory removed", "mkdir w; cd w; rm -rf ../w; rmdir {project}"),
    (
        "a program that stays",
        "(setsid sh -c 'sleep 1; mkdir .github; echo PWN > .github/x.yml; sleep 60' {mark} >/dev/null 2>&1 &) ; disown -a",
    ),
    (
        "two that exchange",
        "cp -r .git g2; echo ../evil > g2/commondir; python3 -c $'import ctypes\\nl=ctypes.CDLL(None)\\nfor i in range(200000): l.renameat2(-100,b\"g2\",-100,b\".git\",2)' & p=$!; sleep 1.2; kill $p; mv .git g4; mv g2 .git",
    ),
    (
        "a link that comes and goes",
        "(while :; do mv .git g; ln -s {out}/r .git; rm .git; mv g .git; done) & sleep 1.2; kill -9 $!; [ -d g ] && { rm -f .git; mv g .git; }; true",
    ),
    ("a command that is a flood", "(FLOOD) & sleep 1.2; kill -9 $!; wait"),
    (
        "an open file that is written later",
        "exec 7>.git/hooks/post-commit; (sleep 0.7; echo PWN >&7; chmod +x /proc/self/fd/7) & wait; mkdir -p .github; exec 8>.github/x; sleep 0.7; echo PWN >&8; ln /proc/self/fd/8 .mcp.json",
    ),
    (
        "a file without a name",
        "python3 -c $'import os\\nf=os.open(\".\",os.O_TMPFILE|os.O_RDWR)\\nos.write(f,b\"PWN\")\\nos.link(\"/proc/self/fd/%d\"%f,\".mcp.json\",follow_symlinks=True)'",
    ),
    (
        "in lower and upper case",
        "mkdir -p .VSCODE .Git/hooks 'GIT~1'; echo PWN > .VSCODE/tasks.json; echo PWN > .Git/hooks/pre-commit",
    ),
    (
        "times that lie",
        "cp -p .git/config c; echo PWN >> c; touch -r .git/config c; mv -f c .git/config; touch -d 2001-01-01 .git/config",
    ),
    (
        "the same size",
        "mkdir -p .husky; printf 'abc' > .husky/x; sleep 0.6; printf 'PWN' > .husky/x",
    ),
];

/// Obstacles that are too deep for a recursive walk: name and line.
const DEEP: &[(&str, &str)] = &[
    (
        "a deep tree",
        "python3 -c $'import os\\nfor i in range(3000):\\n os.mkdir(\"d\"); os.chdir(\"d\")\\nos.mkdir(\".git\")'",
    ),
    (
        "deep modules",
        "mkdir -p .git/modules; cd .git/modules; python3 -c $'import os\\nfor i in range(700):\\n os.mkdir(\"d\"); open(\"d/HEAD\",\"w\").write(\"PWN\"); os.chdir(\"d\")\\n os.mkdir(\"modules\"); os.chdir(\"modules\")'; cd ../..",
    ),
    (
        "deep settings",
        "python3 -c $'import os\\nos.chdir(\".vscode\")\\nfor i in range(600):\\n os.mkdir(\"d\"); os.chdir(\"d\")\\nopen(\"x\",\"w\").write(\"PWN\")'",
    ),
    (
        "deep hooks",
        "mkdir .husky; python3 -c $'import os\\nos.chdir(\".husky\")\\nfor i in range(600):\\n os.mkdir(\"d\"); os.chdir(\"d\")'; echo PWN > .husky/pre-commit",
    ),
    (
        "repositories in one another",
        "python3 -c $'import os,struct,hashlib\\nfor i in range(900):\\n g=\".git\" if i else None\\n if g:\\n  os.makedirs(g+\"/objects\"); os.makedirs(g+\"/refs\"); open(g+\"/HEAD\",\"w\").write(\"ref: refs/heads/main\"); open(g+\"/config\",\"w\").write(\"[core]\")\\n e=b\"\\\\0\"*24+struct.pack(\">I\",0o160000)+b\"\\\\0\"*12+b\"\\\\x11\"*20+struct.pack(\">H\",1)+b\"d\"\\n e+=b\"\\\\0\"*(8-len(e)%8)\\n d=b\"DIRC\"+struct.pack(\">II\",2,1)+e\\n open(\".git/index\",\"wb\").write(d+hashlib.sha1(d).digest())\\n os.mkdir(\"d\"); os.chdir(\"d\")'",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_files_do_not_stop_the_autorun_guard() {
    if !has_full_sandbox("leftovers") {
        return;
    }
    let planted = "mkdir -p .vscode; echo PWN > .vscode/tasks.json; echo PWN > .envrc; ";
    let cases = LEFT.iter().map(|(name, line)| {
        let line = line.replace("FLOOD", FLOOD);
        let line = if *name == "the project emptied" { line } else { format!("{planted}{line}") };
        Attack::confined(format!("left: {name}"), &format!("set +m; {line}\ncd {{project}}"))
            .before(REPOSITORY)
    });
    let deep = DEEP.iter().map(|(name, line)| {
        Attack::confined(format!("left: {name}"), &format!("{planted}{line}\ncd {{project}}"))
            .before(REPOSITORY)
            .after("test ! -e .vscode/tasks.json; test ! -e .envrc; rm -rf d .git/modules")
    });
    try_all(cases.chain(deep).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_planted_by_a_job_are_removed_when_the_program_ends() {
    if !has_full_sandbox("jobs") {
        return;
    }
    let jobs = [
        ("a flood", FLOOD),
        (
            "a job that waits for the end",
            "while kill -0 1 2>/dev/null && [ ! -e done ]; do sleep 0.05; done; mkdir -p .vscode; echo PWN > .vscode/tasks.json; sleep 60",
        ),
        (
            "a job that ignores its end",
            "trap '' TERM INT HUP; trap 'mkdir -p .vscode; echo PWN > .vscode/tasks.json' EXIT; while :; do sleep 0.1; done",
        ),
        (
            "a job with a child of its own",
            "setsid sh -c 'trap \"\" TERM HUP; while :; do echo PWN > .envrc; sleep 0.05; done' {mark} & sleep 0.2",
        ),
        (
            "a job that moves git",
            "mv .git g; mkdir -p .git/hooks; echo PWN > .git/hooks/pre-commit; sleep 60",
        ),
        (
            "a job that changes git's settings",
            "git config core.fsmonitor 'touch {out}/pwned; false'; echo PWN > .git/hooks/post-commit; mkdir .git/modules; echo PWN > .git/commondir; sleep 60",
        ),
        (
            "a job that exchanges folders",
            "mkdir -p x/.vscode; echo PWN > x/.vscode/tasks.json; while :; do mv x/.vscode .vscode; mv .vscode x/; done",
        ),
        (
            "a job that leads out",
            "while :; do ln -s {out} .vscode; ln -s {out}/r/.git .git/modules; ln -s {home} .github; rm -f .vscode .github .git/modules; done",
        ),
    ];
    let cases = jobs.into_iter().map(|(name, line)| {
        Attack::new(format!("job: {name}"), "full-auto")
            .before(REPOSITORY)
            .call("bash", json!({"command": line, "run_in_background": true}))
            .line("sleep 0.7; git status >/dev/null; echo x > done")
            .call("write_file", json!({"path": "other.txt", "content": "x"}))
            .after("set +e; timeout 9 git status >/dev/null 2>&1; timeout 9 git commit -qm x --allow-empty >/dev/null 2>&1; true")
    });
    try_all(cases.collect()).await;
}

/// Each case plants a program in two commands, each harmless by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_planted_by_two_commands_does_not_run() {
    if !has_full_sandbox("leftovers") {
        return;
    }
    let table = [
        (
            "a repository that is harmless at first",
            "mkdir h; rm -rf .git; git init -q .; ln -s ../h/k .git/hooks2; rm -rf .git/hooks; ln -s ../h .git/hooks",
            "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > h/post-commit; chmod +x h/post-commit",
        ),
        (
            "settings that name hooks that are not there",
            "rm -rf .git; git init -q .; git config core.hooksPath later",
            "mkdir later; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > later/post-commit; chmod +x later/post-commit",
        ),
        (
            "an include that is not there",
            "rm -rf .git; git init -q .; git config include.path ../later",
            "git config -f later core.fsmonitor 'touch {out}/pwned; false'",
        ),
        (
            "an include of an empty file",
            "rm -rf .git; git init -q .; touch later; git config include.path ../later",
            "git config -f later core.fsmonitor 'touch {out}/pwned; false'",
        ),
        (
            "a link that leads to nothing",
            "ln -s ../later .git/config.worktree; git config extensions.worktreeConfig true",
            "git config -f later core.fsmonitor 'touch {out}/pwned; false'",
        ),
        (
            "a folder that was closed",
            "rm -rf .git; mkdir g; git init -q g; git -C g config core.fsmonitor 'touch {out}/pwned; false'; mv g/.git .git; chmod 000 .git",
            "chmod 755 .git",
        ),
        (
            "a submodule that comes last",
            "mkdir new; git init -q new; git -C new config core.fsmonitor 'touch {out}/pwned; false'; git -C new config user.email a@b; git -C new config user.name a; git -C new commit -q --allow-empty -m x",
            "git add new; git commit -qm new",
        ),
        (
            "a submodule that comes first",
            "mkdir new; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new",
            "git init -q new; git -C new config core.fsmonitor 'touch {out}/pwned; false'",
        ),
        (
            "a submodule with a file of git",
            "mkdir new evil; git init -q evil; git -C evil config core.fsmonitor 'touch {out}/pwned; false'; echo 'gitdir: ../evil/.git' > new/.git",
            "git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new",
        ),
        (
            "hooks in a template",
            "rm -rf .git; git init -q .; rm -rf .git/hooks; mkdir .git/hooks; touch .git/hooks/post-commit",
            "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
        ),
        (
            "two halves of settings",
            "rm -rf .git; git init -q .; git config alias.st status",
            "git config alias.st '!touch {out}/pwned'",
        ),
        (
            "a worktree",
            "git worktree add -q wt; git config extensions.worktreeConfig true",
            "git config -f .git/worktrees/wt/config.worktree core.fsmonitor 'touch {out}/pwned; false'; git config -f .git/config.worktree core.fsmonitor 'touch {out}/pwned; false'",
        ),
        (
            "settings that name a script",
            "rm -rf .git; git init -q .; git config core.fsmonitor ./watch",
            "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > watch; chmod +x watch",
        ),
        (
            "a file that was put aside and comes back",
            "mkdir .vscode; echo PWN > .vscode/tasks.json",
            "find / -name 'tasks.json*' 2>/dev/null; mkdir .vscode; echo PWN > .vscode/tasks.json",
        ),
    ];
    let user = "set +e; git config user.email a@b; git config user.name a; u() { timeout 9 \"$@\" >/dev/null 2>&1; }; u git status; u git st; u git add -A; u git commit -qm y --allow-empty; [ -d wt ] && (cd wt; u git status); true";
    let cases = table.into_iter().map(|(name, first, second)| {
        Attack::confined(format!("two: {name}"), first).line(second).before(REPOSITORY).after(user)
    });
    try_all(cases.collect()).await;
}
