//! Killed programs: whatever their last command left is put back at the next start, however that start looks and whatever
//! happened in between, with the complete sandbox and with a part of it.

use crate::{
    round8_story::{Story, bash, tell_all},
    scene::Kernel,
    trial_runner::{has_full_sandbox, has_partial_sandbox},
};

/// Script that creates a repository with hooks, settings of an editor, an `.envrc` and a filter that is a program of the project.
pub(crate) const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; git config core.hooksPath cfg/hooks; \
     mkdir -p src cfg/hooks .vscode tools; echo one > a.txt; printf '#!/bin/sh\\ntrue\\n' > cfg/hooks/pre-commit; echo {} > .vscode/settings.json; echo 'use nix' > .envrc; \
     printf '#!/bin/sh\\ncat\\n' > tools/clean; chmod +x cfg/hooks/* tools/clean; git config filter.c.clean ./tools/clean; git config filter.c.smudge cat; \
     echo '*.c filter=c' > .gitattributes; echo 'int x;' > m.c; git add -A; git commit -qm x; echo more >> a.txt; git commit -qam y";
/// Command that plants new files.
pub(crate) const PLANTS: &str = "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > cfg/hooks/post-commit; chmod +x cfg/hooks/post-commit; echo PWN > .vscode/tasks.json; echo PWN > .mcp.json";
/// Paths that no command may change.
pub(crate) const KEPT: &[&str] = &[
    ".envrc",
    ".vscode",
    ".mcp.json",
    "cfg/hooks",
    "tools/clean",
    ".git/hooks",
    ".git/config.worktree",
];

/// Returns the kernels that this machine can offer.
pub(crate) fn kernels(subject: &str) -> Vec<Kernel> {
    let full = has_full_sandbox(subject).then_some(Kernel::AsItIs);
    let partial = has_partial_sandbox(subject).then_some(Kernel::WithoutNamespaces);
    full.into_iter().chain(partial).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_start_follows_a_kill_puts_back_what_was_left() {
    let killed =
        |name: &str, kernel| Story::new(name, kernel, REPOSITORY).killed(PLANTS).keeps(KEPT);
    let stories = kernels("starts after a kill").into_iter().flat_map(|kernel| {
        let force = |story: Story| {
            story
                .command("undo --session killed")
                .command("redo --session killed")
                .command("undo --session killed --force")
                .command("redo --session killed --force")
                .command("restore .vscode@1 --session killed --force")
                .command("restore cfg@1 --session killed --force")
        };
        [
            killed("a plain start", kernel).run(&[], vec![]),
            killed("a start in a folder below", kernel).run(&["--cwd", "{project}/src"], vec![]),
            killed("a start in the folder above", kernel).run(&["--cwd", "{project}/.."], vec![]),
            killed("a start through a link", kernel)
                .user("ln -s {project} {home}/.local/share/crow-agent/link")
                .run(&["--cwd", "{home}/.local/share/crow-agent/link"], vec![]),
            killed("resumed to read only", kernel)
                .run(&["-p", "read-only", "--resume", "killed"], vec![]),
            killed("resumed to ask", kernel).run(&["-p", "ask", "--resume", "killed"], vec![]),
            killed("resumed to accept edits", kernel)
                .run(&["-p", "accept-edits", "--resume", "killed"], vec![]),
            killed("the session is removed", kernel)
                .command("sessions rm killed --yes")
                .run(&[], vec![]),
            killed("the session is repaired", kernel)
                .command("sessions repair killed")
                .run(&[], vec![]),
            killed("the log of the session is cut off", kernel)
                .user("for f in {data}/sessions/*/history.jsonl; do truncate -s -20 $f; done")
                .run(&[], vec![]),
            killed("doctor comes first", kernel).command("doctor").run(&[], vec![]),
            killed("undo and redo come first", kernel)
                .command("undo --session killed")
                .command("redo --session killed")
                .run(&[], vec![]),
            force(killed("undo and redo come later", kernel).run(&[], vec![])).run(&[], vec![]),
            killed("another command runs first", kernel)
                .run(&[], vec![bash("echo x >> a.txt"), bash("git status")]),
            killed("and killed again", kernel)
                .user("rm go")
                .killed("echo PWN > .vscode/other.json")
                .run(&[], vec![]),
        ]
    });
    tell_all(stories.collect()).await;
}

/// Name, and what the command did before the kill.
const LINES: &[(&str, &str)] = &[
    (
        "lines in existing programs",
        "for f in cfg/hooks/pre-commit tools/clean .envrc .vscode/settings.json; do echo 'touch {out}/pwned' >> $f; done; true",
    ),
    (
        "settings of git",
        "printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> .git/config; git config core.fsmonitor 'touch {out}/pwned; false'; git config filter.c.clean 'touch {out}/pwned; cat'",
    ),
    (
        "drivers for attributes",
        "echo '* filter=x diff=x merge=x' > .gitattributes; printf '[diff \"x\"]\\n\\tcommand = touch {out}/pwned\\n[filter \"x\"]\\n\\tclean = touch {out}/pwned; cat\\n' >> .git/config",
    ),
    (
        "a folder of hooks in place of the old",
        "mv cfg c2; mkdir -p cfg/hooks; printf '#!/bin/sh\\ntouch {out}/pwned\\n' > cfg/hooks/pre-commit; chmod +x cfg/hooks/pre-commit",
    ),
    (
        "second names",
        "ln tools/clean x && echo 'touch {out}/pwned' >> x; ln cfg/hooks/pre-commit y && echo 'touch {out}/pwned' >> y; ln .envrc z && echo PWN >> z",
    ),
    (
        "a memory mapping",
        "python3 -c \"import mmap; f = open('tools/clean', 'r+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); m[:40] = b'#!/bin/sh\\ntouch {out}/pwned; cat'.ljust(39)[:39] + b'\\n'; m.flush()\"",
    ),
    (
        "a repository in place of the old",
        "cp -r .git e; git config -f e/config core.fsmonitor 'touch {out}/pwned; false'; mv .git g; mv e .git",
    ),
    (
        "settings of a worktree",
        "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' > .git/config.worktree; printf '[extensions]\\n\\tworktreeConfig = true\\n' >> .git/config",
    ),
    (
        "a new executable hook",
        "printf '#!/bin/sh\\ntouch {out}/pwned\\n' > x; chmod 755 x; cp -p x cfg/hooks/post-commit; install -m 755 x cfg/hooks/post-checkout; mv x cfg/hooks/reference-transaction",
    ),
    (
        "a submodule",
        "git init -q sub; git -C sub -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git add sub; git -C sub config core.fsmonitor 'touch {out}/pwned; false'; printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' >> sub/.git/config",
    ),
    (
        "a list of a rebase",
        "mkdir .git/rebase-merge; echo 'exec touch {out}/pwned' > .git/rebase-merge/git-rebase-todo; echo main > .git/rebase-merge/head-name; touch .git/rebase-merge/interactive",
    ),
    ("hundreds of files", "for i in $(seq 300); do echo PWN > .vscode/f$i; done"),
    (
        "no modes",
        "echo PWN > .vscode/tasks.json; echo PWN > cfg/hooks/post-commit; chmod 000 .vscode cfg/hooks cfg",
    ),
    ("pipes", "mkfifo .mcp.json .vscode/tasks.json cfg/hooks/post-commit"),
    ("names that are not UTF-8", "echo PWN > $'.vscode/\\xff\\n'; echo PWN > $'cfg/hooks/\\xfe'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_killed_command_left_is_put_back() {
    let stories = kernels("commands of killed programs").into_iter().flat_map(|kernel| {
        LINES.iter().map(move |(name, line)| {
            // Without namespaces a whole folder may be exchanged; its old content is told, not moved back.
            let kept: &[&str] = if line.starts_with("mv cfg") { &[".envrc"] } else { KEPT };
            Story::new(*name, kernel, REPOSITORY).killed(line).run(&[], vec![]).keeps(kept).after(
                "set +e; rm -rf .git/rebase-merge/x; for c in status 'diff' 'add -A' 'commit -qm z --allow-empty' 'rebase --continue' 'submodule status'; do timeout 9 git $c >/dev/null 2>&1 </dev/null; done; true",
            )
        })
    });
    tell_all(stories.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_the_user_after_a_kill_is_kept() {
    let stories = kernels("work after a kill").into_iter().flat_map(|kernel| {
        let killed = |name: &str, line: &str| Story::new(name, kernel, REPOSITORY).killed(line);
        [
            killed("settings by the user", "echo x >> a.txt")
                .user("echo 'use flake' > .envrc; echo '{\"a\": 1}' > .vscode/tasks.json; git config user.nick n; printf '#!/bin/sh\\n' > cfg/hooks/post-merge")
                .run(&[], vec![])
                .after("test \"$(cat .envrc)\" = 'use flake'; test -s .vscode/tasks.json; test \"$(git config user.nick)\" = n; test -e cfg/hooks/post-merge"),
            killed("source files of the command", "echo 'all:' > Makefile; echo {} > package.json; echo x > src/new; git add -A; git commit -qm w")
                .run(&[], vec![])
                .after("test -e Makefile; test -e package.json; test -e src/new; git log -1 --format=%s | grep -q w"),
            killed("a commit that was cut off", "touch .git/index.lock")
                .user("rm .git/index.lock; git commit -qm mine --allow-empty")
                .run(&[], vec![bash("git log -1 --format=%s")])
                .shows("mine"),
            killed("the user takes a planted file over", "echo PWN > .vscode/tasks.json")
                .user("echo mine > .vscode/tasks.json")
                .run(&[], vec![])
                .after("test \"$(cat .vscode/tasks.json)\" = mine"),
        ]
    });
    tell_all(stories.collect()).await;
}
