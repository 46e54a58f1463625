//! Stopped rebases, worktrees, submodules and repositories that no index lists: work over several commands, and programs
//! planted there.

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

/// Script that creates commits on `main` and a conflicting branch `side`, which is checked out.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; echo a > a.txt; git add -A; git commit -qm first; \
     git checkout -q -b side; echo s > a.txt; git commit -qam side; git checkout -q main; echo m > a.txt; git commit -qam second; \
     for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm $i; done; git checkout -q side";
/// Script that starts a rebase of the user, which stops.
const STOPPED: &str =
    "git checkout -q main; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~3";
const MODULE: &str = "git init -q -b main lib; git -C lib -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git config -f .gitmodules submodule.lib.path lib; git config -f .gitmodules submodule.lib.url ./lib; \
     git add -A 2>/dev/null; git commit -qm lib; git submodule absorbgitdirs >/dev/null 2>&1; git submodule init -q";

/// Name, preparation script, and the lines, each run as a command of its own.
const WORK: &[(&str, &str, &[&str])] = &[
    (
        "a conflict that is resolved later",
        "",
        &[
            "! git rebase main >/dev/null 2>&1 && test -d .git/rebase-merge",
            "echo r > a.txt && git add a.txt && GIT_EDITOR=true git rebase --continue && git status | grep -q clean && ! test -e .git/rebase-merge",
        ],
    ),
    (
        "a rebase that is skipped",
        "",
        &["! git rebase main >/dev/null 2>&1", "git rebase --skip && ! test -e .git/rebase-merge"],
    ),
    (
        "a rebase that is aborted",
        "",
        &[
            "! git rebase main >/dev/null 2>&1",
            "git rebase --abort && ! test -e .git/rebase-merge && git log -1 --format=%s | grep -q side",
        ],
    ),
    (
        "a commit that is edited",
        "git checkout -q main",
        &[
            "GIT_SEQUENCE_EDITOR=\"sed -i '1s/pick/edit/'\" git rebase -q -i HEAD~2",
            "git commit -q --amend -m new && git rebase --continue && git log -2 --format=%s | grep -q new && ! test -e .git/rebase-merge",
        ],
    ),
    (
        "a rebase that the user began",
        STOPPED,
        &[
            "git rebase --continue && git log -1 --format=%s | grep -q 3 && ! test -e .git/rebase-merge",
        ],
    ),
    (
        "a rebase with commands that the user began",
        "git checkout -q main; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -x true HEAD~3",
        &["git rebase --continue && ! test -e .git/rebase-merge"],
    ),
    (
        "a rebase with commands that take their time",
        "git checkout -q main",
        &[
            "git rebase -q -x 'sleep 0.7; echo ran >> /tmp/ran' HEAD~3 && test $(wc -l < /tmp/ran) = 3",
        ],
    ),
    (
        "patches that stop",
        "git checkout -q main",
        &[
            "git format-patch -q -1 side -o /tmp/p && ! git am /tmp/p/*.patch >/dev/null 2>&1",
            "git am --abort && git status",
        ],
    ),
    (
        "a cherry pick of two that stops",
        "git checkout -q main",
        &[
            "! git cherry-pick side~1 side >/dev/null 2>&1 || ! git cherry-pick side >/dev/null 2>&1",
            "git cherry-pick --abort 2>/dev/null || git cherry-pick --quit; git status",
        ],
    ),
    (
        "a bisect over two commands",
        "git checkout -q main",
        &[
            "git bisect start -q HEAD HEAD~3 >/dev/null",
            "git bisect good >/dev/null; git bisect reset",
        ],
    ),
    (
        "a worktree that is removed later",
        "",
        &[
            "git worktree add -q wt -b w && (cd wt && echo w > w && git add w && git commit -qm w)",
            "git worktree remove wt && git worktree prune && ! test -e wt && ! test -e .git/worktrees/wt && git merge -q w",
        ],
    ),
    (
        "a submodule that is up to date",
        MODULE,
        &[
            "git submodule update && git submodule status",
            "git submodule update --init --recursive",
        ],
    ),
    (
        "a repository that no index names",
        "",
        &[
            "git clone -q . copy && git -C copy config user.name x",
            "git -C copy remote add o https://a.invalid && git -C copy checkout -q -b t && git -C copy branch -m u",
            "rm -rf copy && ! test -e copy",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_operations_can_span_several_commands() {
    if !has_full_sandbox("git over several commands") {
        return;
    }
    let cases = WORK.iter().map(|(name, before, lines)| {
        let case = Attack::works(format!("git goes on: {name}"), "full-auto")
            .before(REPOSITORY)
            .before(before);
        let case = lines.iter().fold(case, |case, line| case.line(line));
        case.hides("moved aside")
            .hides("put back")
            .hides("taken out")
            .after("git fsck >/dev/null 2>&1; git log -1 >/dev/null")
    });
    try_all(cases.collect()).await;
}

const EVIL: &str = "evil() { git init -q $1; git -C $1 -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git -C $1 config core.fsmonitor 'touch {out}/pwned; false'; }; ";
/// Name, preparation script, planting command, and the user's commands afterwards.
const PLANTED: &[(&str, &str, &str, &str)] = &[
    (
        "the list of a rebase of the user's",
        STOPPED,
        "echo 'exec touch {out}/pwned' >> .git/rebase-merge/git-rebase-todo",
        "git rebase --continue; git log -1 --format=%s | grep 3",
    ),
    (
        "the list of a rebase of the command's",
        "",
        "git checkout -q main; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -x 'touch {out}/pwned' HEAD~2",
        "git rebase --continue; git log -1 --format=%s | grep 3",
    ),
    (
        "a list behind a link",
        STOPPED,
        "mv .git/rebase-merge rm; echo 'exec touch {out}/pwned' >> rm/git-rebase-todo; ln -s ../rm .git/rebase-merge",
        "git rebase --continue; git rebase --skip",
    ),
    (
        "the list of a rebase in a worktree elsewhere",
        "git worktree add -q ../wt main; cd ../wt; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~2",
        "echo 'exec touch {out}/pwned' >> .git/worktrees/wt/rebase-merge/git-rebase-todo; mv .git/worktrees/wt/rebase-merge .git/worktrees/wt/r; cp -r .git/worktrees/wt/r .git/worktrees/wt/rebase-merge; echo 'exec touch {out}/pwned' >> .git/worktrees/wt/rebase-merge/git-rebase-todo",
        "cd ../wt; git rebase --continue; git status",
    ),
    (
        "a new list in a worktree elsewhere",
        "git worktree add -q ../wt main",
        "d=.git/worktrees/wt/rebase-merge; mkdir $d; cd $d; git rev-parse main > onto; git rev-parse main > orig-head; echo refs/heads/main > head-name; touch interactive done; echo 'exec touch {out}/pwned' > git-rebase-todo; echo 1 > end; echo 0 > msgnum",
        "cd ../wt; git rebase --continue; git rebase --skip; git status",
    ),
    (
        "a worktree elsewhere behind a link",
        "git config extensions.worktreeConfig true; git worktree add -q ../wt main",
        "mv .git/worktrees/wt w; git config -f w/config.worktree core.fsmonitor 'touch {out}/pwned; false'; ln -s ../../w .git/worktrees/wt",
        "cd ../wt; git status",
    ),
    (
        "settings of a submodule",
        MODULE,
        "git config -f .git/modules/lib/config core.fsmonitor 'touch {out}/pwned; false'",
        "git status; git submodule update; git -C lib status",
    ),
    (
        "a repository that is added",
        "",
        "evil vend",
        "git add -A; git status; git commit -qm y; git status",
    ),
    (
        "a repository that is added deep below",
        "mkdir -p x/y",
        "evil x/y/z/vend",
        "git add -A; git commit -qm y; git status; git stash pop",
    ),
    (
        "a repository whose rules are new",
        "",
        "evil vend; echo vend > .gitignore",
        "rm .gitignore; git add -A; git status",
    ),
    (
        "a repository that was ignored",
        "echo vend > .gitignore; EVIL evil vend",
        "rm .gitignore",
        "rm -f {out}/pwned; git add -A; git status",
    ),
    ("a repository in one that is none", "", "evil x/vend; mkdir x/.git", "git add -A; git status"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_planted_in_rebases_worktrees_and_new_repositories_do_not_run() {
    if !has_full_sandbox("rebases, worktrees and new repositories") {
        return;
    }
    let cases = PLANTED.iter().map(|(name, before, plant, user)| {
        Attack::confined(format!("git: {name}"), &format!("{EVIL}{plant}; rm -f {{out}}/pwned"))
            .before(REPOSITORY)
            .before(&before.replace("EVIL ", EVIL))
            .after(&format!(
                "set +e; (export GIT_EDITOR=true; {user}) >/dev/null 2>&1 </dev/null; true"
            ))
    });
    try_all(cases.collect()).await;
}

/// The user rebases or changes settings while a command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebase_by_the_user_in_a_second_terminal_is_not_disturbed() {
    if !has_full_sandbox("a rebase in a second terminal") {
        return;
    }
    let user = |line: &str| {
        format!(
            "(while [ ! -e go ]; do sleep 0.02; done; {line}; touch finished) >/dev/null 2>&1 </dev/null &"
        )
    };
    let table = [
        (
            "a rebase with commands",
            "git checkout -q main; GIT_SEQUENCE_EDITOR='sed -i 1abreak' git rebase -q -i -x true HEAD~3; sleep 0.7; git rebase --continue",
            "test ! -e .git/rebase-merge; git log -1 --format=%s | grep -q 3",
        ),
        (
            "a rebase with commands that goes on later",
            "git checkout -q main; GIT_SEQUENCE_EDITOR='sed -i 1abreak' git rebase -q -i -x true HEAD~3",
            "git rebase --continue; test ! -e .git/rebase-merge; git log -1 --format=%s | grep -q 3",
        ),
        (
            "settings, harmless ones among them",
            "git config core.pager less; git remote add o https://a.invalid/x; git config user.nick n",
            "test \"$(git remote get-url o)\" = https://a.invalid/x; test \"$(git config user.nick)\" = n",
        ),
    ];
    let cases = table.into_iter().map(|(name, line, check)| {
        Attack::works(format!("beside a command: {name}"), "full-auto")
            .before(REPOSITORY)
            .before(&user(line))
            .line(
                "touch go; while [ ! -e finished ]; do sleep 0.02; done; sleep 0.6; rm go finished",
            )
            // The result may mention changes that the user made, so the call's outcome is not checked.
            .any()
            .after(check)
    });
    try_all(cases.collect()).await;
}
