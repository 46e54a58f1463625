//! Everyday work with git, links and tools that must pass without a question and without a finding of the autorun guard.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, is_installed, try_all},
};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; \
     mkdir src; echo 'fn main() {}' > src/main.rs; echo one > notes.txt; git add -A; git commit -qm first; echo two >> notes.txt; git commit -qam second; git branch side HEAD~1";
/// Script of the user that adds a submodule `lib` from a temporary repository.
const MODULES: &str = "git init -q -b main lib; git -C lib config user.email a@b; git -C lib config user.name a; git -C lib commit -q --allow-empty -m x; mv lib /tmp/{mark}-lib; git -c protocol.file.allow=always submodule --quiet add file:///tmp/{mark}-lib lib 2>/dev/null; git commit -qm lib; git -C lib config user.email a@b; git -C lib config user.name a; rm -rf /tmp/{mark}-lib";

/// Name, preparation script, and command line.
const GIT: &[(&str, &str, &str)] = &[
    (
        "a clone",
        "",
        "git clone -q . copy && git -C copy log --oneline | grep -q second && git -C copy checkout -q -b t",
    ),
    (
        "a bare clone",
        "",
        "git clone -q --bare . copy.git && git push -q copy.git HEAD:refs/heads/x",
    ),
    (
        "a rebase",
        "",
        "git checkout -q side && echo x > x.txt && git add x.txt && git commit -qm x && git rebase -q main && git log --oneline | grep -q second",
    ),
    (
        "a rebase with commands",
        "",
        "GIT_SEQUENCE_EDITOR=true git rebase -q -i -x 'test -e notes.txt' HEAD~1",
    ),
    (
        "a rebase that stops and goes on",
        "",
        "git checkout -q side && echo three >> notes.txt && git commit -qam three && (git rebase -q main >/dev/null 2>&1; printf 'one\\ntwo\\nthree\\n' > notes.txt; git add notes.txt; GIT_EDITOR=true git rebase --continue >/dev/null) && git status | grep -q clean",
    ),
    (
        "a rebase that stays open",
        "",
        "git checkout -q side && echo three >> notes.txt && git commit -qam three && ! git rebase main >/dev/null 2>&1 && ls .git/rebase-merge",
    ),
    (
        "a cherry pick and a revert",
        "",
        "git checkout -q side && git cherry-pick main >/dev/null && git revert --no-edit HEAD >/dev/null",
    ),
    (
        "a merge with a conflict",
        "",
        "git checkout -q side && echo x > notes.txt && git commit -qam x && ! git merge main >/dev/null 2>&1 && git merge --abort",
    ),
    (
        "a worktree",
        "",
        "git worktree add -q wt side && git -C wt status && (cd wt && echo x > y && git add y && git commit -qm y) && git worktree remove wt && git worktree prune",
    ),
    ("a worktree that stays", "", "git worktree add -q wt side && git -C wt log -1"),
    (
        "a submodule that goes on",
        MODULES,
        "(cd lib && git commit -q --allow-empty -m y) && git add lib && git commit -qm lib2 && git submodule status",
    ),
    (
        "a stash",
        "",
        "echo x >> notes.txt && git stash -q && git stash pop -q && git stash -q -u && git stash apply -q && git stash drop -q",
    ),
    ("packing", "", "git gc -q && git pack-refs --all && git repack -qad && git fsck"),
    ("a bisect", "", "git bisect start -q HEAD HEAD~1 >/dev/null; git bisect reset -q; git status"),
    (
        "notes, tags and branches",
        "",
        "git notes add -m n && git tag -a v1 -m v && git branch other && git tag -d v1 && git branch -q -D other",
    ),
    (
        "a sparse checkout",
        "git config extensions.worktreeConfig true; git config core.sparseCheckout false",
        "git ls-files | wc -l",
    ),
    (
        "a split index",
        "",
        "git update-index --split-index && git add -A && git commit -q --allow-empty -m s && git update-index --no-split-index",
    ),
    (
        "a patch",
        "",
        "git format-patch -q -1 && git reset -q --hard HEAD~1 && git am -q 0001-second.patch",
    ),
    (
        "a filter that the user configured before",
        "printf '#!/bin/sh\\ntr a-z A-Z\\n' > up.sh; chmod +x up.sh; git config filter.up.clean ./up.sh; git config filter.up.smudge cat; echo '*.up filter=up' > .gitattributes",
        "echo abc > a.up && git add a.up && git show :a.up | grep -q ABC && git commit -qm up",
    ),
    (
        "attributes that are new",
        "",
        "echo '*.rs diff=rust' > .gitattributes && echo target > .gitignore && git add -A && git commit -qm attributes",
    ),
    (
        "hooks of husky",
        "mkdir -p .husky/_; printf '#!/bin/sh\\nsh .husky/pre-commit\\n' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit; echo 'echo ran > ran' > .husky/pre-commit; git config core.hooksPath .husky/_; git add -A; git commit -qm husky; rm -f ran",
        "echo x > x && git add x && git commit -qm x && cat ran && rm ran",
    ),
    (
        "hooks in the folder of git",
        "printf '#!/bin/sh\\necho ran > ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "git commit -q --allow-empty -m x && cat ran",
    ),
    (
        "a hook that is a link",
        "mkdir scripts; printf '#!/bin/sh\\necho ran > ran\\n' > scripts/pc; chmod +x scripts/pc; ln -s ../../scripts/pc .git/hooks/pre-commit",
        "git commit -q --allow-empty -m x && cat ran && touch scripts/other && rm scripts/other",
    ),
    (
        "a branch with other settings of an editor",
        "mkdir .vscode; echo '{}' > .vscode/settings.json; git add -A; git commit -qm editor",
        "git log -1 && git diff HEAD~1 --stat && git status",
    ),
    (
        "a remote",
        "git clone -q --bare . {home}/../remote.git",
        "git ls-remote {home}/../remote.git",
    ),
    (
        "an index of another name",
        "",
        "GIT_INDEX_FILE=.git/index2 git add -A && GIT_INDEX_FILE=.git/index2 git write-tree && rm .git/index2",
    ),
    (
        "a repository for tests",
        "",
        "d=$(mktemp -d) && git init -q $d && git -C $d config core.hooksPath x && cp -r $d/.git /tmp/again && mkdir -p tests/fixture && git init -q tests/fixture && git -C tests/fixture config user.name t",
    ),
    (
        "files with odd names",
        "",
        "mkdir 'a b' $'c\\nd' && touch 'a b/x' $'c\\nd/y' größe && git add -A && git commit -qm odd && git mv 'a b' e",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_git_commands_cause_no_guard_finding() {
    if !has_full_sandbox("everyday git") {
        return;
    }
    let cases = GIT.iter().map(|(name, before, line)| {
        Attack::works(format!("everyday git: {name}"), "full-auto")
            .before(REPOSITORY)
            .before(before)
            .line(line)
            .line("git status >/dev/null")
            .hides("moved aside")
            .hides("put aside")
            .hides("put back")
            .after("git fsck >/dev/null 2>&1; git log -1 >/dev/null; test -e .git/config")
    });
    try_all(cases.collect()).await;
}

/// The user works in a second terminal while a job runs; the guard must not revert the user's changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_the_user_in_a_second_terminal_are_kept() {
    if !has_full_sandbox("a second terminal") {
        return;
    }
    // The user's script waits until the job has begun, and creates `finished` at its end.
    let user = |line: &str| {
        format!(
            "(while [ ! -e go ] && [ -d .git ]; do sleep 0.02; done; {line}; touch finished) >user.log 2>&1 </dev/null &"
        )
    };
    let job = json!({"command": "touch go; while [ ! -e finished ]; do sleep 0.02; done; sleep 0.7; echo end''ed; sleep 60", "run_in_background": true});
    let table = [
        (
            "a commit",
            "echo mine > mine.txt; git add mine.txt; git commit -qm mine",
            "git log -1 --format=%s | grep -q mine; git show HEAD:mine.txt | grep -q mine",
        ),
        (
            "a setting",
            "git config user.nick x; git config core.editor vim",
            "test \"$(git config user.nick)\" = x; test \"$(git config core.editor)\" = vim",
        ),
        (
            "a hook",
            "printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
            "test -x .git/hooks/pre-commit",
        ),
        (
            "a remote and a branch",
            "git remote add o https://a.invalid/x; git checkout -q -b mine; git branch -u main",
            "git remote get-url o; test $(git branch --show-current) = mine",
        ),
        (
            "a worktree",
            "git worktree add -q wt side",
            "git -C wt status >/dev/null; test -e wt/.git",
        ),
        (
            "a stash and a gc",
            "echo x >> notes.txt; git stash -q; git gc -q",
            "git stash list | grep -q stash; git fsck",
        ),
        (
            "an editor that saves",
            "echo s > .notes.swp; echo new > notes.txt~; mv notes.txt~ notes.txt; rm .notes.swp; touch 4913; rm 4913",
            "grep -q new notes.txt",
        ),
        (
            "settings of an editor that were there",
            "echo '{\"a\": 1}' > .vscode/settings.json",
            "grep -q a .vscode/settings.json",
        ),
    ];
    let cases = table.into_iter().map(|(name, line, check)| {
        Attack::works(format!("second terminal: {name}"), "full-auto")
            .before(REPOSITORY)
            .before("mkdir .vscode; echo '{}' > .vscode/settings.json")
            .before(&user(line))
            .call("bash", job.clone())
            .call("bash_output", json!({"job_id": "job-1", "wait_ms": 20_000}))
            .shows("ended")
            .after(&format!("cat user.log >&2; test -e finished; {check}"))
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_tools_cause_no_guard_finding() {
    if !has_full_sandbox("everyday tools") {
        return;
    }
    let table = [
        (
            "npm",
            "a project of npm",
            "printf '{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node t.js\", \"prepare\": \"true\"}}' > package.json; echo 'console.log(1)' > t.js",
            "npm test --silent && npm install --offline --silent --no-audit && npm pkg get name",
        ),
        (
            "cargo",
            "a project of cargo",
            "mkdir -p src; printf '[package]\\nname = \"x\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[workspace]\\n' > Cargo.toml; echo 'fn main() {} #[test] fn works() {}' > src/main.rs",
            "cargo test --offline -q 2>&1 | tail -3",
        ),
        (
            "python3",
            "tests of python",
            "mkdir tests; printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test_x(self): pass\\n' > tests/test_x.py",
            "python3 -m unittest discover -s tests 2>&1 && python3 -m compileall -q tests",
        ),
        (
            "python3",
            "an environment of python",
            "true",
            "python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'",
        ),
        (
            "node",
            "links of packages",
            "mkdir -p packages/a packages/b/node_modules; echo 'module.exports = 1' > packages/a/index.js",
            "ln -s ../../a packages/b/node_modules/a && cd packages/b && node -e 'console.log(require(\"a\"))' && rm node_modules/a",
        ),
        (
            "bash",
            "links inside",
            "true",
            "echo x > AGENTS.md && ln -s AGENTS.md CLAUDE.md && mkdir d && ln -s d l && echo y > l/f && rm l",
        ),
        (
            "bash",
            "files of editors",
            "true",
            "touch .a.txt.swp a.txt~ '#a.txt#' 4913 && rm 4913 && mv a.txt~ a.txt",
        ),
        (
            "bash",
            "a build",
            "true",
            "mkdir -p build dist .cache && echo x > build/a.o && cp -r build dist/ && rm -rf build && tar cf d.tar dist",
        ),
        (
            "bash",
            "an archive with a repository",
            "true",
            "mkdir t && git init -q t/r && tar cf r.tar -C t r && rm -rf t && tar xf r.tar && rm -rf r",
        ),
    ];
    let cases = table.into_iter().filter(|(program, ..)| is_installed(program)).map(
        |(_, name, before, line)| {
            Attack::works(format!("everyday tools: {name}"), "full-auto")
                .before(REPOSITORY)
                .before(before)
                .line(line)
                .hides("moved aside")
                .hides("put aside")
                .after("git status >/dev/null")
        },
    );
    try_all(cases.collect()).await;
}
