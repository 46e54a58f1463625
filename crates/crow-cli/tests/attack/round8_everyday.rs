//! Ordinary work after kills, with jobs, and where no namespaces can be created; none of it may need a question.

use serde_json::json;

use crate::{
    attack::Attack,
    scene::Kernel,
    trial_runner::{has_full_sandbox, has_partial_sandbox, try_all},
};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; mkdir -p src; echo one > a.txt; echo two > src/b.txt; \
     printf 'all:\\n\\techo built > out.txt\\n' > Makefile; echo 'use nix' > .envrc; printf '#!/bin/sh\\nexit 0\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git add -A; git commit -qm x";
/// Lines of full-auto.
const WORKS: &[&str] = &[
    "echo x > n.txt; git add n.txt; git commit -qm n; git log -1 --format=%s | grep -q n",
    "git checkout -q -b topic; echo y >> a.txt; git commit -qam t; git checkout -q main; git merge -q topic",
    "echo z >> a.txt; git stash -q; git stash pop -q; git diff --stat",
    "git tag v1; git tag -a v2 -m two; git pack-refs --all; git gc -q",
    "git reset -q --soft HEAD; git rm -q --cached a.txt; git add a.txt; git commit -q --amend --no-edit",
    "mkdir -p new/deep; echo x > new/deep/f; mv new other; rm -r other",
    "chmod 755 a.txt; chmod -R go-w src; touch -d 2020-01-01 src/b.txt; cp -p src/b.txt c.txt; test $(stat -c %Y c.txt) = $(stat -c %Y src/b.txt)",
    "tar cf x.tar src; mkdir x; tar xf x.tar -C x; test -e x/src/b.txt",
    "git init -q nested; cd nested; git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git log -1 --format=%s",
    "git clone -q . copy; git -C copy log -1 --format=%s",
    "ln -s a.txt l; ln a.txt h; cat l h; rm l h",
    "(sleep 0.1; echo late > late.txt) & wait; cat late.txt",
    "python3 -c \"import tempfile, os; f = tempfile.NamedTemporaryFile(delete=False); os.chmod(f.name, 0o600); os.unlink(f.name)\"",
    "if command -v make >/dev/null; then make -s && cat out.txt; fi",
    "git show HEAD:.envrc; cat .envrc; cat .git/hooks/pre-commit; cp .envrc envrc.copy",
];
/// Lines of ask that only read.
const READS: &[&str] = &[
    "ls -la; cat a.txt; head -1 src/b.txt",
    "grep -rn one . --include=*.txt | head -3",
    "find . -name '*.txt' -not -path './.git/*' | sort",
    "wc -l a.txt src/b.txt && diff a.txt src/b.txt | head -2",
    "test -e .envrc && echo there; stat -c %a a.txt",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_work_needs_no_question_at_any_level() {
    let full = has_full_sandbox("everyday work").then_some(Kernel::AsItIs);
    let partial = has_partial_sandbox("everyday work").then_some(Kernel::WithoutNamespaces);
    let cases = full.into_iter().chain(partial).flat_map(|kernel| {
        let on = move |case: Attack| match kernel {
            Kernel::AsItIs => case,
            Kernel::WithoutNamespaces => case.without_namespaces(),
        };
        let works = WORKS.iter().map(|line| {
            Attack::works(format!("{kernel:?} works: {line}"), "full-auto").line(&format!("set -e\n{line}"))
        });
        let reads = READS.iter().map(|line| {
            Attack::works(format!("{kernel:?} reads: {line}"), "ask").line(line)
        });
        let tools = [
            Attack::works(format!("{kernel:?}: tools beside a job"), "full-auto")
                .call("bash", json!({"command": "for i in $(seq 40); do echo $i >> log; sleep 0.05; done", "run_in_background": true}))
                .call("write_file", json!({"path": "src/new.rs", "content": "fn main() {}\n"}))
                .call("read_file", json!({"path": "a.txt"}))
                .call("edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "three"}))
                .line("cat src/new.rs a.txt"),
            Attack::works(format!("{kernel:?}: a permitted file beside a job"), "full-auto")
                .rule("allow", &json!({"path": {"path": ".envrc", "access": "write"}}))
                .call("bash", json!({"command": "for i in $(seq 40); do echo $i >> log; sleep 0.05; done", "run_in_background": true}))
                .call("read_file", json!({"path": ".envrc"}))
                .call("edit_file", json!({"path": ".envrc", "old_string": "nix", "new_string": "flake"}))
                .line("sleep 0.6; grep flake .envrc")
                .after("grep -q flake .envrc"),
            Attack::works(format!("{kernel:?}: edits"), "accept-edits")
                .call("read_file", json!({"path": "a.txt"}))
                .call("edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "three"}))
                .call("write_file", json!({"path": "deep/er/n.txt", "content": "x"})),
        ];
        works.chain(reads).chain(tools).map(|case| on(case.before(REPOSITORY))).collect::<Vec<_>>()
    });
    try_all(cases.collect()).await;
}
