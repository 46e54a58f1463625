//! Undo, redo, restore and diff after a command has left links and odd files in their paths.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

const CROW: &str = env!("CARGO_BIN_EXE_crow-agent");
/// Script that creates the user's files.
const FILES: &str = "mkdir -p d/sub e; echo one > d/victim; echo two > d/sub/new; echo 'Host *' > d/config; echo '[core] fsmonitor=PWN' > e/config; echo k > d/id_ed25519; printf '#!/bin/sh\\n' > e/pre-commit; seq 2000 > long.txt; chmod 640 long.txt";

/// Returns a script that runs all undo commands of the program, after `extra`, and fails if one crashes.
fn user(extra: &str) -> String {
    format!(
        "set +e; c() {{ timeout 20 {CROW} \"$@\" >> {{project}}/said 2>&1 </dev/null; [ $? -lt 100 ] || echo BROKEN >> {{project}}/said; }}\n{extra}\n\
         c diff; c undo; c redo; c undo --force; c redo --force; c restore d/victim@1^ --force; c undo --to-start --force; rm -rf said2; grep -q BROKEN said && cat said >&2 && exit 1; true"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_changes_nothing_outside_despite_links_and_odd_files() {
    if !has_full_sandbox("undo") {
        return;
    }
    let table = [
        ("a folder that became a link outside", "echo x >> d/victim; mv d d2; ln -s {out} d"),
        (
            "a folder that became a link to keys",
            "echo x >> d/id_ed25519; mv d d2; ln -s {home}/.ssh d",
        ),
        (
            "a file that became a link outside",
            "echo x >> d/victim; rm d/victim; ln -s {out}/victim d/victim",
        ),
        (
            "a file that became a link to a key",
            "rm d/id_ed25519; ln -s {home}/.ssh/id_ed25519 d/id_ed25519",
        ),
        (
            "a folder below that became a link",
            "echo x >> d/sub/new; rm -rf d/sub; ln -s {out} d/sub",
        ),
        ("a folder that became a link to git", "echo x >> e/config; rm -rf e; ln -s .git e"),
        (
            "a folder that became a link to hooks",
            "echo x >> e/pre-commit; rm -rf e; ln -s .git/hooks e",
        ),
        (
            "a folder that became a link to the home",
            "echo x >> d/config; rm -rf d; ln -s {home} d; mkdir f; touch f/.netrc",
        ),
        (
            "a new folder that became a link outside",
            "mkdir n; echo x > n/victim; mv n n2; ln -s {out} n",
        ),
        (
            "a new file that became a link outside",
            "echo x > victim; rm victim; ln -s {out}/victim victim",
        ),
        ("a file that became a pipe", "echo x >> d/victim; rm d/victim; mkfifo d/victim; mkfifo p"),
        ("a folder that became a pipe", "rm -rf d; mkfifo d"),
        (
            "a file that became a socket",
            "rm d/victim; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d/victim\")'",
        ),
        (
            "a file that became a folder",
            "rm d/victim; mkdir -p d/victim/x; echo PWN > d/victim/x/y; ln -s {out} d/victim/z",
        ),
        ("a folder that became a file", "rm -rf d; echo x > d"),
        ("a loop of links", "rm -rf d; ln -s d d; ln -s q r; ln -s r q"),
        ("second names", "ln d/victim d/v2; ln {out}/victim d/v3; echo x > d/v2"),
        ("no modes", "echo x >> d/victim; chmod 000 d/victim d; chmod 400 e"),
        (
            "odd names",
            "mkdir $'d/\\xff\\n'; echo x > $'d/\\xff\\n/\\e[31m'; echo y > $'d/\\xe2\\x80\\xae'; echo z > 'd/--force'",
        ),
        (
            "a deep tree",
            "python3 -c $'import os\\nfor i in range(1500):\\n os.mkdir(\"d\"); os.chdir(\"d\")\\nopen(\"x\",\"w\").write(\"x\")'",
        ),
        ("a huge file", "truncate -s 30G huge; echo x >> d/victim"),
        (
            "many links",
            "for i in $(seq 500); do ln -s {out} l$i; done; rm -rf d; ln -s {out}/../out d",
        ),
        ("a link with dots", "rm -rf d; ln -s ../out d; ln -s ../../../../../../../etc/passwd e/p"),
        (
            "a name of the kernel",
            "rm -rf d; ln -s /proc/self/root{out} d; ln -s /proc/self/fd e/fd",
        ),
        ("everything gone", "rm -rf d e long.txt"),
    ];
    let cases = table.into_iter().map(|(name, line)| {
        Attack::confined(format!("undo: {name}"), line).before(FILES).after(&user("")).keeps("PWN")
    });
    try_all(cases.collect()).await;
}

/// A file tool writes a file, and a command then replaces its folder with a link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_of_file_tool_writes_changes_nothing_outside() {
    if !has_full_sandbox("undo") {
        return;
    }
    let write = |path: &str| ("write_file", json!({"path": path, "content": "PWN"}));
    let table = [
        ("a file", write("n/victim"), "mv n n2; ln -s {out} n"),
        ("a file in a folder of hooks", write("n/pre-commit"), "mv n n2; ln -s .git/hooks n"),
        ("settings", write("n/config"), "mv n n2; ln -s .git n"),
        ("a key", write("n/id_ed25519"), "mv n n2; ln -s {home}/.ssh n"),
        ("settings of an editor", write("n/tasks.json"), "mkdir q; mv n q/n; ln -s ../.vscode n"),
    ];
    let cases = table.into_iter().map(|(name, (tool, input), line)| {
        Attack::confined(format!("undo of a tool: {name}"), "true")
            .call(tool, input)
            .line(line)
            .before(FILES)
            .after(&user(""))
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_restores_the_files_of_the_user() {
    if !has_full_sandbox("undo") {
        return;
    }
    let check = "test \"$(cat d/victim)\" = one; test \"$(cat d/sub/new)\" = two; seq 2000 | cmp - long.txt; test $(stat -c %a long.txt) = 640; test ! -L d; test ! -L e; test -x e/pre-commit || true";
    let table = [
        ("all removed", "rm -rf d e long.txt"),
        ("folders that became links", "rm -rf d e; ln -s {out} d; ln -s {home}/.ssh e"),
        ("a folder that became a pipe", "rm -rf d; mkfifo d"),
        (
            "files that became folders",
            "rm long.txt; mkdir -p long.txt/a/b; echo x > long.txt/a/b/c",
        ),
        ("modes", "chmod 777 long.txt; echo x >> d/victim; chmod 700 d"),
        ("a folder moved", "mv d d9; mkdir d; echo x > d/victim"),
    ];
    let cases = table.into_iter().map(|(name, line)| {
        Attack::confined(format!("comes back: {name}"), line).before(FILES).after(&format!(
            "{CROW} undo --force >said 2>&1 </dev/null || {CROW} undo --to-start --force >>said 2>&1 </dev/null || true; {check}"
        ))
    });
    try_all(cases.collect()).await;
}
