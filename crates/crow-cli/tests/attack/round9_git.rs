//! Files of git that hold the state of an operation: what a command leaves in them for the next merge, rebase, `git am`,
//! bisect, worktree or maintenance of the user.

use crate::{
    round8_killed::kernels,
    round8_story::{Story, bash, tell_all},
};

/// Script that creates a repository with two branches that conflict, a patch, and a file in the home that must not change.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; echo a > a.txt; git add -A; git commit -qm first; \
     git checkout -q -b side; echo s > a.txt; git commit -qam side; git format-patch -q -1 -o {out}/../patches; git checkout -q main; echo m > a.txt; git commit -qam second; \
     echo keep > {home}/.bashrc; echo keep > {home}/.profile";

/// Name, the command that leaves something, and what the user types then.
const LEFT: &[(&str, &str, &str)] = &[
    (
        "a cache of resolutions outside",
        "ln -s {home}/.ssh .git/rr-cache",
        "git merge side; git rerere status; git rerere gc; git merge --abort",
    ),
    (
        "messages of a merge",
        "ln -sf {home}/.bashrc .git/MERGE_MSG; ln -sf {home}/.profile .git/MERGE_MODE",
        "git merge --no-commit side; git merge --abort",
    ),
    (
        "heads of operations",
        "for f in ORIG_HEAD AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD MERGE_HEAD; do ln -sf {home}/.bashrc .git/$f; done",
        "git reset -q --hard HEAD; git cherry-pick side; git cherry-pick --abort; git revert --no-edit HEAD; git rebase side; git rebase --abort; git merge side; git merge --abort",
    ),
    (
        "a folder of a rebase outside",
        "ln -s {out} .git/rebase-merge; ln -s {out} .git/rebase-apply; ln -s {out} .git/sequencer",
        "git rebase side; git rebase --abort; git am {out}/../patches/*; git am --abort; git cherry-pick side~1 side; git cherry-pick --abort",
    ),
    (
        "a log of a bisect",
        "for f in BISECT_LOG BISECT_NAMES BISECT_TERMS BISECT_START BISECT_EXPECTED_REV BISECT_ANCESTORS_OK; do ln -sf {home}/.bashrc .git/$f; done",
        "git bisect start HEAD HEAD~1; git bisect good; git bisect reset",
    ),
    (
        "edited texts",
        "for f in NOTES_EDITMSG EDIT_DESCRIPTION ADD_EDIT.patch addp-hunk-edit.diff; do ln -sf {home}/.bashrc .git/$f; done; echo more >> a.txt",
        "export GIT_EDITOR=true; git notes add -m n; git notes edit; git branch --edit-description; git add -e; printf 'e\\n' | git add -p",
    ),
    (
        "the stash",
        "mkdir -p .git/logs/refs; ln -s {home}/.bashrc .git/logs/refs/stash; ln -s {home}/.profile .git/refs/stash; echo more >> a.txt",
        "git stash; git stash pop; git stash -u; git stash drop",
    ),
    (
        "lists of objects",
        "mkdir -p .git/objects/info .git/info; for f in .git/objects/info/commit-graph .git/objects/info/packs .git/info/refs .git/shallow .git/gc.log; do ln -sf {home}/.bashrc $f; done",
        "git update-server-info; git commit-graph write --reachable; git gc -q; git repack -adq; git fetch --depth=1 ./",
    ),
    (
        "folders of packs and graphs",
        "mkdir -p .git/objects/info; mv .git/objects/pack .git/p 2>/dev/null; ln -s {out} .git/objects/pack; ln -s {out} .git/objects/info/commit-graphs",
        "git gc -q; git repack -adq; git commit-graph write --reachable --split; git multi-pack-index write",
    ),
    (
        "an info folder outside",
        "rm -rf .git/info; ln -s {home}/.ssh .git/info",
        "git sparse-checkout set --no-cone src; git update-server-info; git sparse-checkout disable",
    ),
    (
        "worktrees and modules outside",
        "ln -s {out} .git/worktrees; ln -s {home}/.ssh .git/modules; ln -s {out} .git/lost-found",
        "git worktree add -q ../wt side; git worktree prune; git fsck --lost-found; git -c protocol.file.allow=always submodule add -q ./ sub",
    ),
    (
        "a worktree that names a folder outside",
        "mkdir -p .git/worktrees/x; printf '{out}/.git\\n' > .git/worktrees/x/gitdir; printf '../..\\n' > .git/worktrees/x/commondir; git rev-parse HEAD > .git/worktrees/x/HEAD",
        "git worktree repair; git gc -q; git worktree list; git worktree prune; git worktree add -q ../wt side",
    ),
    (
        "a worktree that names a hidden folder",
        "mkdir -p .git/worktrees/x; printf '{home}/.ssh/.git\\n' > .git/worktrees/x/gitdir; printf '../..\\n' > .git/worktrees/x/commondir; git rev-parse HEAD > .git/worktrees/x/HEAD",
        "git worktree repair; git gc -q; git fsck; git worktree prune --expire=now",
    ),
    (
        "options of a stopped rebase",
        "mkdir -p .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD > onto; git rev-parse HEAD > orig-head; echo refs/heads/main > head-name; touch interactive done; echo '-S' > gpg_sign_opt; echo '!touch {out}/pwned' > strategy; printf \"'--x'\" > strategy_opts; printf 'label a\\npick %s\\nx touch {out}/pwned\\n  exec touch {out}/pwned\\n' $(git rev-parse side) > git-rebase-todo; cp git-rebase-todo git-rebase-todo.backup; echo 1 > end; echo 0 > msgnum",
        "export GIT_EDITOR=true; git rebase --continue; git rebase --skip; git rebase --edit-todo; git rebase --continue; git rebase --quit",
    ),
    (
        "a list of picks with commands",
        "mkdir -p .git/sequencer; git rev-parse HEAD > .git/sequencer/head; git rev-parse HEAD > .git/sequencer/abort-safety; printf 'exec touch {out}/pwned\\npick %s\\n' $(git rev-parse side) > .git/sequencer/todo; printf '[options]\\n\\tstrategy = !touch {out}/pwned\\n\\tgpg-sign = x\\n' > .git/sequencer/opts",
        "git cherry-pick --continue; git cherry-pick --skip; git revert --continue; git cherry-pick --quit",
    ),
    (
        "patches that stop",
        "mkdir -p .git/rebase-apply; cd .git/rebase-apply; echo 1 > next; echo 1 > last; touch applying; cp {out}/../patches/*.patch 0001; echo '-S' > sign; echo f > quiet; printf 'exec touch {out}/pwned\\n' > autostash; git rev-parse HEAD > abort-safety",
        "git am --continue; git am --skip; git am --show-current-patch; git am --abort; git rebase --continue",
    ),
    (
        "a bisect that runs a program",
        "echo 'git bisect start HEAD HEAD~1; touch {out}/pwned' > .git/BISECT_LOG; echo main > .git/BISECT_START; echo '!touch {out}/pwned' > .git/BISECT_NAMES; printf 'touch {out}/pwned\\n$(touch {out}/pwned)\\n' > .git/BISECT_TERMS; echo 'touch {out}/pwned' > .git/BISECT_RUN",
        "git bisect log; git bisect good; git bisect replay .git/BISECT_LOG; git bisect reset",
    ),
    (
        "hooks of newer versions",
        "for h in post-index-change reference-transaction fsmonitor-watchman post-rewrite push-to-checkout proc-receive p4-pre-submit sendemail-validate applypatch-msg pre-applypatch post-applypatch pre-merge-commit pre-auto-gc prepare-commit-msg; do printf '#!/bin/sh\\ntouch {out}/pwned\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
        "git am {out}/../patches/*; git am --abort; git merge side; git merge --abort; git gc --auto; git commit -qm x --allow-empty; git commit -q --amend -m y --allow-empty",
    ),
    (
        "a repository that borrows objects and settings",
        "git init -q --bare evil.git; git -C evil.git config core.alternateRefsCommand 'touch {out}/pwned'; mkdir -p .git/objects/info; echo {project}/evil.git/objects > .git/objects/info/alternates; git config core.alternateRefsCommand 'touch {out}/pwned'",
        "git fetch -q .; git clone -q . {out}/../clone; git rev-parse HEAD",
    ),
    (
        "settings that a bundle or an archive brings",
        "git bundle create -q x.bundle --all; git clone -q x.bundle c; git -C c config core.fsmonitor 'touch {out}/pwned; false'; tar cf c.tar -C c .git; tar xf c.tar; git config -f .git/config core.fsmonitor 'touch {out}/pwned; false'; cpio -pdm </dev/null 2>/dev/null c",
        "git status; git -C c status; git submodule status",
    ),
    (
        "a sparse folder with a repository",
        "mkdir -p deep/er; git init -q deep/er/vend; git -C deep/er/vend config core.fsmonitor 'touch {out}/pwned; false'; git -C deep/er/vend -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git add -f deep 2>/dev/null; git update-index --skip-worktree deep/er/vend",
        "git status; git update-index --no-skip-worktree deep/er/vend; git status; git diff; git submodule status",
    ),
    (
        "a daemon that answers for the file system",
        "git config core.fsmonitor true; python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('.git/fsmonitor--daemon.ipc')\"; mkdir -p .git/fsmonitor--daemon; ln -s {home}/.ssh .git/fsmonitor--daemon/cookies",
        "git status; git fsmonitor--daemon status; git fsmonitor--daemon stop",
    ),
    (
        "names in another case and normal form",
        "mkdir -p .GIT/hooks .git/HOOKS 'git~1' .gi\u{301}t; for d in .GIT/hooks .git/HOOKS; do printf '#!/bin/sh\\ntouch {out}/pwned\\n' > $d/post-commit; chmod +x $d/post-commit; done; printf '[core]\\n\\tfsmonitor = touch {out}/pwned; false\\n' > .git/CONFIG; echo '[core] fsmonitor = x' > .GITMODULES",
        "git status; git commit -qm x --allow-empty; git submodule status",
    ),
];

/// Files of git in which a command left something, at both levels of the sandbox. The user's commands may fail, but they
/// start nothing of the command's and write nowhere outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_a_git_operation_starts_nothing_and_leads_nowhere() {
    // Several attacks share a story: each is a call of its own, and the user then types the commands of all.
    let stories = kernels("the state of git operations").into_iter().flat_map(|kernel| {
        LEFT.chunks(4).map(move |attacks| {
            let names: Vec<_> = attacks.iter().map(|(name, ..)| *name).collect();
            let calls = attacks.iter().map(|(_, line, _)| bash(line)).collect();
            let user = |user: &str| format!("(cd {{project}}; {user}); git status; ");
            let user: String = attacks.iter().map(|(.., typed)| user(typed)).collect();
            let user = format!(
                "set +e; {{ {user} git commit -qm z --allow-empty; }} >/dev/null 2>&1 </dev/null; true"
            );
            Story::new(names.join(", "), kernel, REPOSITORY).run(&[], calls).after(&user)
        })
    });
    tell_all(stories.collect()).await;
}
