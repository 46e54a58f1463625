//! File tools in each mode: unusual paths, links, pipes, devices and malformed input.

use serde_json::{Value, json};

use crate::{attack::Attack, trial_runner::try_all};

/// The attacker's preparation script, and a path that the model writes.
const WRITES: &[(&str, &str)] = &[
    ("true", "{out}/new\u{0}.txt"),
    ("true", "a\n/../../out/new"),
    ("true", "../out/new"),
    ("true", "./a/../../out/new"),
    ("true", "/dev/stdout"),
    ("true", "/dev/fd/2"),
    ("true", "/proc/self/mem"),
    ("true", "/proc/self/comm"),
    ("true", "/proc/self/task/../../self/cwd/../out/new"),
    ("true", "/dev/null/../../{out}/new"),
    ("ln -s /proc/self/cwd/../out way", "way/new"),
    ("ln -s {out}/new way", "way"),
    ("mkdir d; ln -s ../{mark} d/way; ln -s ../out {mark}", "d/way/new"),
    ("mkdir d; ln -s ../.git d/g", "d/g/hooks/post-checkout"),
    ("mkdir d; ln -s ../.git/hooks d/h", "d/h/pre-commit"),
    ("ln -s .git/config c", "c"),
    ("ln .git/config c", "c"),
    ("ln {out}/victim hard", "hard"),
    ("ln -s a b; ln -s b a", "a/x"),
    ("true", ".git/HEAD"),
    ("true", ".git/index"),
    ("true", ".git/info/attributes"),
    ("true", ".git/objects/info/alternates"),
    ("true", ".git/refs/heads/main"),
    ("true", ".git/packed-refs"),
    ("true", ".git/worktrees/x/gitdir"),
    ("true", ".git//hooks/./pre-push"),
    ("true", ".git/hooks/../hooks/pre-push"),
    ("true", "a/.git/config"),
    ("true", "a/.git"),
    ("true", ".GitHub/workflows/x.yml"),
    ("true", ".github/./workflows/../workflows/x.yml"),
    ("true", "sub/.vscode/launch.json"),
    ("true", ".idea/runConfigurations/x.xml"),
    ("true", ".crow-agent/config.toml"),
    ("true", ".CROW-AGENT/config.toml"),
    ("true", "sub/.crow-agent/permissions.json"),
    ("true", ".Mcp.Json"),
    ("true", ".husky/_/husky.sh"),
    ("true", ".yarnrc.yml"),
    ("true", ".envrc/x"),
];

/// Names that only look like paths out of the project.
const NAMES: [&str; 5] =
    ["~/.bashrc", "~root/x", "$HOME/.bashrc", "file://{out}/new", "..\\out\\new"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_only_looks_like_an_escape_stays_in_the_project() {
    let cases = NAMES.map(|path| {
        Attack::new(format!("name: {path}"), "accept-edits")
            .call("write_file", json!({"path": path, "content": "PWN"}))
    });
    try_all(cases.to_vec()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_mode_writes_to_a_path_that_needs_approval() {
    let cases = WRITES.iter().flat_map(|(before, path)| {
        ["ask", "accept-edits", "read-only", "full-auto"].map(|mode| {
            Attack::new(format!("write {path:?} after {before:?} in {mode}"), mode)
                .before(before)
                .call("write_file", json!({"path": path, "content": "PWN"}))
                .keeps(".git")
                .absent(&["/tmp", "/dev/shm"])
                .fails()
        })
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_link_gives_no_write_access_to_its_target() {
    if !crate::trial_runner::has_full_sandbox("hard links") {
        return;
    }
    let edit = json!({"path": "hard", "old_string": "core", "new_string": "PWN"});
    let of_git = ["accept-edits", "full-auto"].map(|mode| {
        Attack::new(format!("two names: of git in {mode}"), mode)
            .before("ln .git/config hard")
            .call("edit_file", edit.clone())
            .keeps(".git")
    });
    let made = ["ln {out}/victim hard", "cp -l {out}/victim hard", "ln -P {home}/.netrc hard"].map(
        |line| Attack::confined(format!("two names: {line}"), &format!("{line}; echo PWN >> hard")),
    );
    try_all(of_git.into_iter().chain(made).collect()).await;
}

fn odd_calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": "pipe"})),
        ("read_file", json!({"path": "endless"})),
        ("read_file", json!({"path": "/dev/stdin"})),
        ("read_file", json!({"path": "/dev/tty"})),
        ("read_file", json!({"path": "loop"})),
        ("read_file", json!({"path": "socket"})),
        ("read_file", json!({"path": ""})),
        ("read_file", json!({"path": "."})),
        ("read_file", json!({"path": "a".repeat(5000)})),
        ("read_file", json!({"path": "a/".repeat(3000)})),
        ("read_file", json!({"path": "notes.txt", "offset": u64::MAX, "limit": u64::MAX})),
        ("read_file", json!({"path": "notes.txt", "offset": -1})),
        ("read_file", json!({"path": ["notes.txt"]})),
        ("read_file", json!({})),
        ("write_file", json!({"path": "pipe", "content": "PWN"})),
        ("write_file", json!({"path": "endless", "content": "PWN"})),
        ("write_file", json!({"path": ".", "content": "PWN"})),
        ("write_file", json!({"path": "", "content": "PWN"})),
        ("edit_file", json!({"path": "pipe", "old_string": "x", "new_string": "PWN"})),
        ("edit_file", json!({"path": "notes.txt", "old_string": "", "new_string": "PWN"})),
        ("grep", json!({"pattern": "x"})),
        ("grep", json!({"pattern": "x", "path": "pipe"})),
        ("grep", json!({"pattern": "x", "path": "endless"})),
        ("grep", json!({"pattern": "(a+)+$".repeat(50), "path": "."})),
        ("grep", json!({"pattern": "((((x{100}){100}){100}){100})"})),
        ("glob", json!({"pattern": "**/**/**/**/**/*"})),
        (
            "glob",
            json!({"pattern": "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"}),
        ),
        ("glob", json!({"pattern": "../out/*"})),
        ("glob", json!({"pattern": "way/*"})),
        ("glob", json!({"pattern": "{out,src}/../../out/*"})),
        ("glob", json!({"pattern": "[.][.]/out/*"})),
        ("glob", json!({"pattern": "*", "path": "../out"})),
        ("list_directory", json!({"path": "pipe"})),
        ("list_directory", json!({"path": "way"})),
        ("list_directory", json!({"path": "..", "depth": 3})),
        ("list_directory", json!({"path": ".", "depth": u64::MAX})),
        ("bash", json!({"command": ""})),
        ("bash", json!({"command": "ls\u{0}; touch pwned"})),
        ("bash", json!({"command": "ls", "cwd": "../out"})),
        ("bash", json!({"command": "ls", "timeout": -1})),
        ("bash", json!({"command": "cat pipe", "timeout": 500})),
        ("bash", json!({"command": "cat endless", "timeout": 2000})),
        ("bash", json!({"command": ["touch", "pwned"]})),
        ("bash", json!({"cmd": "touch pwned", "command": "ls"})),
        ("Bash", json!({"command": "touch pwned"})),
        ("bash ", json!({"command": "touch pwned"})),
        ("bash\u{200b}", json!({"command": "touch pwned"})),
        ("mcp__x__bash", json!({"command": "touch pwned"})),
        ("bash_output", json!({"job_id": "../../x"})),
        ("bash_kill", json!({"job_id": "1"})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_and_odd_calls_neither_hang_nor_escape_the_project() {
    let cases = odd_calls().into_iter().enumerate().map(|(number, (tool, input))| {
        let shown: String = input.to_string().chars().take(60).collect();
        Attack::new(format!("odd {number}: {tool:?} {shown}"), "accept-edits")
            .file("notes.txt", "notes\n")
            .before("mkfifo pipe; ln -s /dev/zero endless; ln -s loop loop; ln -s {out} way; ln -s {out}/socket socket")
            .call(tool, input)
            .hides("victim\\n")
            .hides("untouched")
            .keeps("pwned")
            .keeps("notes.txt")
    });
    try_all(cases.collect()).await;
}
