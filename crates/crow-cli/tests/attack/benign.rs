//! Ordinary work that must pass without a question.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, is_installed, try_all},
};

/// Script that creates a repository with a commit and an uncommitted change.
const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; mkdir src; printf 'fn main() {}\\n' > src/main.rs; echo notes > notes.txt; git add -A; git commit -qm first; echo more >> notes.txt";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_commands_and_tools_pass_without_a_question() {
    let lines = [
        "ls",
        "ls -la src",
        "cat notes.txt",
        "head -n 1 notes.txt",
        "tail -n 1 notes.txt",
        "wc -l notes.txt",
        "grep -rn main src",
        "grep -n more notes.txt | head -5",
        "find . -name '*.rs'",
        "pwd",
        "git status",
        "git status --short",
        "git log --oneline",
        "git diff",
        "git diff --stat HEAD",
        "git show --stat",
        "git branch",
        "git ls-files",
        "echo done",
        "sort notes.txt | uniq -c",
        "cat src/main.rs && git diff",
    ];
    let lines = lines.iter().map(|line| Attack::works(format!("reads: {line}"), "ask").line(line));
    let tools = [
        ("read_file", json!({"path": "notes.txt"})),
        ("list_directory", json!({"path": "."})),
        ("grep", json!({"pattern": "main"})),
        ("glob", json!({"pattern": "**/*.rs"})),
    ];
    let tools = tools
        .into_iter()
        .map(|(tool, input)| Attack::works(format!("reads: {tool}"), "ask").call(tool, input));
    // A repository's settings can name programs that git starts, so these commands pass only with the sandbox.
    if !has_full_sandbox("reading") {
        return;
    }
    try_all(lines.chain(tools).map(|attack| attack.before(REPOSITORY)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_edits_pass_in_accept_edits_mode() {
    let works = |name: &str| Attack::works(name, "accept-edits").before(REPOSITORY);
    let path = json!({"path": "notes.txt"});
    try_all(vec![
        works("a new file").call("write_file", json!({"path": "a/b/c.txt", "content": "x"})),
        works("an edit").call(
            "edit_file",
            json!({"path": "notes.txt", "old_string": "more", "new_string": "less"}),
        ),
        works("a replacement")
            .call("read_file", path)
            .call("write_file", json!({"path": "notes.txt", "content": "x"})),
        works("a file with a name of git")
            .call("write_file", json!({"path": ".gitignore", "content": "target\n"})),
        works("a link inside")
            .before("ln -s notes.txt link")
            .call("edit_file", json!({"path": "link", "old_string": "more", "new_string": "less"})),
        works("a name beyond ASCII")
            .call("write_file", json!({"path": "größe 漢.txt", "content": "ä"})),
    ])
    .await;
}

/// Required program, name, and command line.
const WORK: &[(&str, &str, &str)] = &[
    ("bash", "a commit", "git add -A && git commit -qm second && git log --oneline | grep second"),
    ("bash", "a branch", "git checkout -q -b topic && git branch | grep topic && git merge main"),
    ("bash", "a stash", "git stash -q && git stash pop && git diff --stat"),
    (
        "bash",
        "a tag and a rebase",
        "git tag v1 && git commit -qam b && git rebase -q v1 && git describe --tags",
    ),
    (
        "bash",
        "a new repository",
        "mkdir new && cd new && git init -q . && git config user.email a@b && git config user.name a && git commit -q --allow-empty -m x",
    ),
    ("bash", "a clone", "git clone -q . /tmp/copy && ls /tmp/copy/notes.txt"),
    ("bash", "a worktree", "git worktree add -q /tmp/tree && git -C /tmp/tree status"),
    ("bash", "pipes", "seq 100 | sort -rn | head -3 | tee x | wc -l"),
    (
        "bash",
        "temporary files",
        "f=$(mktemp) && echo x > $f && cat $f && d=$(mktemp -d) && cd $d && touch y",
    ),
    ("bash", "process substitution", "diff <(seq 3) <(seq 3) && cat <<< x"),
    ("bash", "a background process", "sleep 0.1 & wait && echo waited"),
    ("bash", "signals among its own", "sleep 30 & kill $! ; wait $! || test $? -gt 128"),
    (
        "bash",
        "devices",
        "head -c 8 /dev/urandom | wc -c && echo x > /dev/null && test -r /dev/zero && ls /dev/fd/",
    ),
    ("bash", "shared memory", "echo x > /dev/shm/x && cat /dev/shm/x"),
    (
        "bash",
        "processes",
        "ps aux | head -3 && cat /proc/self/status | head -1 && cat /proc/cpuinfo | head -1",
    ),
    ("bash", "links", "ln -s notes.txt l && ln notes.txt h && readlink l && cat h l"),
    (
        "bash",
        "modes and times",
        "chmod 755 notes.txt && touch -d 2020-01-01 notes.txt && cp -a notes.txt n2 && mv n2 n3 && rm n3",
    ),
    ("bash", "a named pipe", "mkfifo p && (echo x > p &) && cat p && rm p"),
    ("tar", "archives", "tar czf a.tgz src && mkdir t && tar xzf a.tgz -C t && ls t/src"),
    ("make", "make", "printf 'all: a\\na:\\n\\techo x > a\\n' > Makefile && make -j2 && cat a"),
    (
        "gcc",
        "a program in C",
        "printf '#include <stdio.h>\\nint main(){puts(\"hi\");}' > m.c && gcc m.c -o m && ./m",
    ),
    (
        "sqlite3",
        "a database",
        "sqlite3 d.db 'create table t(x); insert into t values(1); select * from t'",
    ),
    (
        "python3",
        "a script",
        "python3 -c 'import json, tempfile; print(json.dumps(tempfile.mkdtemp()))'",
    ),
    (
        "python3",
        "processes of python",
        "python3 -c 'import multiprocessing as m; p = m.Pool(2); print(p.map(abs, [-1, 2]))'",
    ),
    (
        "python3",
        "threads of python",
        "python3 -c 'import concurrent.futures as c; print(list(c.ThreadPoolExecutor().map(abs, [-1])))'",
    ),
    ("python3", "a terminal", "python3 -c 'import pty; pty.spawn([\"echo\", \"hi\"])'"),
    (
        "python3",
        "subprocesses",
        "python3 -c 'import subprocess; print(subprocess.run([\"git\", \"status\"], capture_output=True, check=True).stdout)'",
    ),
    ("python3", "asyncio", "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0.01))'"),
    (
        "python3",
        "sockets in files",
        "python3 -c 'import socket,tempfile; s=socket.socket(socket.AF_UNIX); p=tempfile.mkdtemp()+\"/s\"; s.bind(p); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect(p)'",
    ),
    (
        "python3",
        "sqlite in python",
        "python3 -c 'import sqlite3; c = sqlite3.connect(\"d.db\"); c.execute(\"create table t(x)\"); c.commit()'",
    ),
    (
        "python3",
        "tests with a server",
        "cat > test_a.py <<'P'\nimport unittest, threading, urllib.request, http.server\nclass T(unittest.TestCase):\n  def test_a(self):\n    s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n    threading.Thread(target=s.serve_forever, daemon=True).start()\n    self.assertEqual(urllib.request.urlopen('http://localhost:%d/' % s.server_port).status, 200)\n    s.shutdown()\nP\npython3 -m unittest -q test_a",
    ),
    (
        "python3",
        "a virtual environment",
        "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'",
    ),
    (
        "node",
        "node",
        "node -e 'require(\"http\").createServer((q,r)=>r.end(\"x\")).listen(0,\"127.0.0.1\",function(){require(\"http\").get({port:this.address().port},r=>{console.log(r.statusCode);process.exit(0)})})'",
    ),
    (
        "npm",
        "npm test",
        "printf '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -e 0\"}}' > package.json && npm test",
    ),
    (
        "cargo",
        "cargo test",
        "printf '[package]\\nname = \"tiny\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[workspace]\\n' > Cargo.toml && printf '#[test]\\nfn holds() { assert!(std::net::TcpListener::bind(\"127.0.0.1:0\").is_ok()); }\\nfn main() {}\\n' > src/main.rs && cargo test --offline -q",
    ),
    ("perl", "perl", "perl -e 'print 1 + 1'"),
    ("dash", "dash", "dash -c 'echo x | cat'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_commands_work_in_full_auto() {
    if !has_full_sandbox("ordinary work") {
        return;
    }
    for program in ["bash", "git", "python3", "cargo"] {
        assert!(is_installed(program), "there is no {program}: these cases must run");
    }
    let cases = WORK.iter().filter(|(program, ..)| is_installed(program));
    let cases = cases.map(|(_, name, line)| {
        Attack::works(*name, "full-auto").before(REPOSITORY).line(&format!("set -e\n{line}"))
    });
    let job = Attack::works("a server that the next command uses", "full-auto")
        .call("bash", json!({"command": "exec python3 -u -m http.server 8765 --bind 127.0.0.1", "run_in_background": true}))
        .call("bash_output", json!({"job_id": "job-1", "wait_ms": 20_000}))
        .line("python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:8765/\").status)'")
        .call("bash_kill", json!({"job_id": "job-1"}));
    let kept = Attack::works("temporary files of the command before", "full-auto")
        .line("echo x > /tmp/kept")
        .line("cat /tmp/kept");
    let folder = Attack::works("the folder of the command before", "full-auto")
        .before("mkdir d")
        .line("cd d")
        .line("pwd | grep 'd$'");
    try_all(cases.chain([job, kept, folder]).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_only_read_work_in_read_only() {
    if !has_full_sandbox("read-only work") {
        return;
    }
    let lines = [
        "git status",
        "git log -1",
        "python3 -c 'import tempfile; tempfile.mkdtemp()'",
        "echo x > /tmp/x; cat /tmp/x",
        "wc -l notes.txt",
    ];
    let cases = lines.iter().map(|line| {
        Attack::works(format!("read-only: {line}"), "read-only").before(REPOSITORY).line(line)
    });
    try_all(cases.collect()).await;
}
