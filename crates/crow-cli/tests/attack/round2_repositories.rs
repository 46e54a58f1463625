//! Reading a repository whose settings name programs, without a sandbox.

use crate::{attack::Attack, trial_runner::try_all};

const HOSTILE: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; \
     echo x > a.x; echo '* filter=x diff=x merge=x' > .gitattributes; git add -A; git commit -qm x; \
     echo z > a.x; git stash -q; git notes add -m note; echo y > a.x; git tag v1; git branch other; \
     mkdir hooks; for h in post-index-change reference-transaction pre-commit fsmonitor-watchman post-checkout; do \
     printf '#!/bin/sh\\ntouch {project}/pwned\\n' > hooks/$h; chmod +x hooks/$h; done; cp hooks/pre-commit evil.sh; \
     printf '\\tgpgsig -----BEGIN PGP SIGNATURE-----\\n' > /dev/null; cat >> .git/config <<'CONFIG'\n";
const CONFIG: &str = "[core]\n\tfsmonitor = {project}/evil.sh\n\tpager = {project}/evil.sh\n\thooksPath = hooks\n\tsshCommand = {project}/evil.sh\n\teditor = {project}/evil.sh\n\tgitProxy = {project}/evil.sh\n\taskPass = {project}/evil.sh\n\talternateRefsCommand = {project}/evil.sh\n[diff]\n\texternal = {project}/evil.sh\n[diff \"x\"]\n\ttextconv = {project}/evil.sh\n\tcommand = {project}/evil.sh\n[filter \"x\"]\n\tclean = {project}/evil.sh\n\tsmudge = {project}/evil.sh\n\tprocess = {project}/evil.sh\n[merge \"x\"]\n\tdriver = {project}/evil.sh\n[gpg]\n\tprogram = {project}/evil.sh\n[gpg \"ssh\"]\n\tprogram = {project}/evil.sh\n[log]\n\tshowSignature = true\n[alias]\n\tst = !{project}/evil.sh\n\tl = -p log\n[pager]\n\tlog = {project}/evil.sh\n\tstatus = {project}/evil.sh\n\tbranch = {project}/evil.sh\n[credential]\n\thelper = {project}/evil.sh\n[uploadpack]\n\tpackObjectsHook = {project}/evil.sh\n[remote \"origin\"]\n\turl = ext::{project}/evil.sh\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\tvcs = evil\n[extensions]\n\tpartialClone = origin\n[trailer \"x\"]\n\tcommand = {project}/evil.sh\n\tcmd = {project}/evil.sh\n[sequence]\n\teditor = {project}/evil.sh\n[column]\n\tui = always\n[color]\n\tui = always\n";

const LINES: &[&str] = &[
    "git status",
    "git status -s",
    "git status --ignored",
    "git log",
    "git log -p",
    "git log --stat",
    "git log -1 --format=%G?",
    "git log --format='%h %GS'",
    "git show",
    "git show HEAD:a.x",
    "git show v1",
    "git diff",
    "git diff --stat",
    "git diff HEAD",
    "git diff --cached",
    "git diff v1..HEAD",
    "git diff-files",
    "git diff-index HEAD",
    "git diff-tree -p HEAD",
    "git blame a.x",
    "git branch",
    "git branch -vv",
    "git tag -l",
    "git ls-files -m",
    "git ls-files --eol",
    "git ls-tree HEAD",
    "git ls-remote origin",
    "git grep x",
    "git describe --dirty",
    "git describe",
    "git stash list",
    "git stash list -p",
    "git stash show",
    "git stash show -p",
    "git notes list",
    "git notes show",
    "git shortlog HEAD",
    "git show-branch",
    "git whatchanged",
    "git range-diff v1 v1 HEAD",
    "git rev-list --all",
    "git rev-parse HEAD",
    "git rev-parse 0123456789012345678901234567890123456789^{commit}",
    "git cat-file -p 0123456789012345678901234567890123456789",
    "git show 0123456789012345678901234567890123456789",
    "git cat-file -p HEAD",
    "git for-each-ref",
    "git check-attr -a a.x",
    "git check-ignore a.x",
    "git count-objects -v",
    "git remote -v",
    "git remote show",
    "git remote get-url origin",
    "git config -l",
    "git config --get user.name",
    "git reflog",
    "git worktree list",
    "git var GIT_EDITOR",
    "git st",
    "git l",
    "git merge-base HEAD other",
    "git fetch --dry-run",
    "git -p log",
    "git help log",
    "cd hooks && git status",
    "git -C hooks status",
    "git --no-pager diff",
    "git --no-optional-locks status",
    "cat a.x | git hash-object --stdin",
];

fn case(line: &str, mode: &'static str) -> Attack {
    Attack::new(format!("hostile repository without a sandbox, {mode}: {line}"), mode)
        .before(&format!("{HOSTILE}{CONFIG}CONFIG"))
        .arg("--no-sandbox")
        .keeps("pwned")
        .keeps("a.x")
        .line(line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_a_repository_without_a_sandbox_starts_none_of_its_programs() {
    let ask = LINES.iter().map(|line| case(line, "ask"));
    let others = LINES
        .iter()
        .step_by(6)
        .flat_map(|line| ["accept-edits", "read-only"].map(|mode| case(line, mode)));
    try_all(ask.chain(others).collect()).await;
}
