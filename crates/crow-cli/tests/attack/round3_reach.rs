//! Attempts of file tools to reach outside, hidden and protected paths through links and names in `/proc`, in each mode.

use serde_json::{Value, json};

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, try_all},
};

type Call = (&'static str, Value);

fn read(path: &str) -> Call {
    ("read_file", json!({"path": path}))
}

fn write(path: &str) -> Call {
    ("write_file", json!({"path": path, "content": "PWN"}))
}

fn edit(path: &str) -> Call {
    ("edit_file", json!({"path": path, "old_string": "untouched", "new_string": "PWN"}))
}

fn grep(path: &str) -> Call {
    ("grep", json!({"pattern": "c[a]nary|untouched", "path": path}))
}

fn list(path: &str) -> Call {
    ("list_directory", json!({"path": path}))
}

/// Calls that read keys or outside paths: name, preparation script, call. Refused in every mode without a terminal.
fn outside() -> Vec<(&'static str, &'static str, Call)> {
    vec![
        ("a key by the root of a process", "true", read("/proc/self/root{home}/.ssh/id_ed25519")),
        (
            "a key by the root of a thread",
            "true",
            read("/proc/thread-self/root{home}/.ssh/id_ed25519"),
        ),
        (
            "a key by the folder of a process",
            "true",
            read("/proc/self/cwd/../home/.ssh/id_ed25519"),
        ),
        ("a link to the root of a process", "ln -s /proc/self/root r", read("r{home}/.netrc")),
        ("a link to the folder of a process", "ln -s /proc/self/cwd w", read("w/../home/.netrc")),
        ("a descriptor", "true", read("/proc/self/fd/3")),
        ("a key with dots", "true", read("../home/.ssh/../.ssh/./id_ed25519")),
        (
            "a key behind three links",
            "ln -s {home} a; ln -s a b; ln -s b/.ssh c",
            read("c/id_ed25519"),
        ),
        (
            "a key behind a link with dots",
            "mkdir -p x/y; ln -s ../../home x/y/h",
            read("x/y/h/.aws/credentials"),
        ),
        ("a key with a slash at its end", "ln -s {home}/.netrc n", read("n/")),
        ("a key as instructions", "ln -s {home}/.netrc CLAUDE.md", read("CLAUDE.md")),
        ("a key that is searched behind a link", "ln -s {home}/.aws a", grep("a")),
        ("a key that is listed behind a link", "ln -s {home}/.aws a", list("a")),
        (
            "keys by a pattern behind a link",
            "ln -s {home}/.ssh s",
            ("glob", json!({"pattern": "*", "path": "s"})),
        ),
    ]
}

/// Calls on outside files, files that start programs, and odd files, under other names.
fn by_other_names() -> Vec<(&'static str, &'static str, Call)> {
    vec![
        (
            "a file outside that is written behind two links",
            "ln -s ../out o; ln -s o/victim v",
            edit("v"),
        ),
        (
            "a new file behind a folder that is a link",
            "mkdir d; ln -s {out} d/o",
            write("d/o/sub/new"),
        ),
        ("a new file behind the folder of a process", "true", write("/proc/self/cwd/../out/new")),
        ("a new file where a link leads to nothing", "ln -s {out}/none n", write("n")),
        (
            "a hook behind a link in git",
            "mkdir h; ln -s ../h .git/hooks2; rm -rf .git/hooks; ln -s ../h .git/hooks",
            write(".git/hooks/pre-commit"),
        ),
        (
            "a hook by the place it leads to",
            "mkdir h; rm -rf .git/hooks; ln -s ../h .git/hooks",
            write("h/pre-commit"),
        ),
        ("hooks that settings name", "git config core.hooksPath ./a/../hk", write("hk/pre-commit")),
        (
            "hooks named from the home",
            "git config core.hooksPath '~/../project/hk'",
            write("hk/pre-commit"),
        ),
        (
            "a hook that is a link to a script",
            "mkdir scripts; ln -s ../../scripts/pc .git/hooks/pre-commit",
            write("scripts/pc"),
        ),
        ("a file that settings include", "git config include.path ../cfg/inc", write("cfg/inc")),
        (
            "a program that settings name",
            "git config core.fsmonitor 'sh tools/watch'",
            write("tools/watch"),
        ),
        (
            "settings of an editor in Unicode",
            "mkdir .vscode; ln -s .vscode $'\\u202evs'",
            write("\u{202e}vs/tasks.json"),
        ),
        ("settings behind a link", "mkdir .vscode; ln -s .vscode v", write("v/tasks.json")),
        (
            "settings behind a link that leads back",
            "ln -s {project} p",
            write("p/.vscode/tasks.json"),
        ),
        (
            "settings by the name of the project outside",
            "ln -s {project} {out}/p",
            write("{out}/p/.envrc"),
        ),
        ("settings with a slash too many", "true", write(".//.vscode//./tasks.json")),
        ("settings in upper case", "true", write(".VSCODE/tasks.json")),
        ("git in a short name of DOS", "true", write("GIT~1/hooks/pre-commit")),
        ("git with a sign that is not seen", "true", write(".g\u{200c}it/hooks/pre-commit")),
        ("git with a dot at its end", "true", write(".git./config")),
        ("git with a stream", "true", write(".git::$INDEX_ALLOCATION/config")),
        ("the common directory", "true", write(".git/commondir")),
        ("settings of a worktree of git", "true", write(".git/config.worktree")),
        ("a file of modules", "true", write(".git/modules/a/config")),
        ("the list of a rebase", "true", write(".git/rebase-merge/git-rebase-todo")),
        ("a remote as it was named long ago", "true", write(".git/remotes/origin")),
        ("a submodule's file of git", "mkdir sub", write("sub/.git")),
        ("a pipe", "mkfifo p", read("p")),
        ("a device", "true", read("/dev/zero")),
        ("memory of the kernel", "true", read("/proc/kcore")),
        (
            "a file outside by a name of the project",
            "ln -s {out} {home}/o",
            edit("{home}/o/victim"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_tools_cannot_reach_outside_hidden_or_protected_paths() {
    let modes = ["ask", "accept-edits", "read-only", "full-auto"];
    let cases = outside().into_iter().chain(by_other_names()).enumerate().flat_map(
        |(number, (name, before, (tool, input)))| {
            // Two modes per case: full-auto, which permits most, and one of the first three in rotation.
            let other = modes[number % 3];
            ["full-auto", other].map(|mode| {
                Attack::new(format!("reach: {name} in {mode}"), mode)
                    .call(tool, input.clone())
                    .before(before)
                    .fails()
            })
        },
    );
    try_all(cases.collect()).await;
}

/// A background command exchanges links while the tools work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_exchanged_during_tool_calls_do_not_redirect_them() {
    if !has_full_sandbox("links") {
        return;
    }
    let job = |line: &str| ("bash", json!({"command": line, "run_in_background": true}));
    let swap = "mkdir -p d/.ssh; echo mine > d/victim; echo mine > d/id_ed25519; ln -s {out} o; ln -s {home}/.ssh s; python3 -c 'import ctypes\nl=ctypes.CDLL(None)\nwhile 1:\n l.renameat2(-100,b\"d\",-100,b\"o\",2); l.renameat2(-100,b\"d\",-100,b\"s\",2)'";
    let calls = |mut attack: Attack| {
        for _ in 0..12 {
            attack = attack
                .call("read_file", json!({"path": "d/id_ed25519"}))
                .call("write_file", json!({"path": "d/new", "content": "PWN"}))
                .call(
                    "edit_file",
                    json!({"path": "d/victim", "old_string": "untouched", "new_string": "PWN"}),
                )
                .call("grep", json!({"pattern": "canary", "path": "d"}))
                .call("list_directory", json!({"path": "d"}));
        }
        attack
    };
    let one = |name: &str, mode, line: &str| {
        let (tool, input) = job(line);
        let attack = Attack::new(format!("links: {name} in {mode}"), mode).allow("mkdir");
        calls(attack.rule("allow", &json!({"tool_name": "bash"})).call(tool, input))
    };
    try_all(vec![
        one("three folders that take turns", "full-auto", swap),
        one("three folders that take turns", "accept-edits", swap),
        one("a name that takes turns", "full-auto", "mkdir d; while :; do ln -sfn {out}/victim d/new; ln -sfn {home}/.ssh/id_ed25519 d/id_ed25519; rm -f d/new d/id_ed25519; echo mine > d/new; echo mine > d/id_ed25519; done"),
    ].into_iter().map(|case| case.hides("canary-of-a-private")).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_of_ordinary_projects_are_followed() {
    let works = |name: &str, (tool, input): Call| {
        Attack::works(format!("links: {name}"), "full-auto").call(tool, input)
    };
    let pnpm = "mkdir -p node_modules/.pnpm/a@1/node_modules/a; echo 'untouched' > node_modules/.pnpm/a@1/node_modules/a/index.js; ln -s .pnpm/a@1/node_modules/a node_modules/a; mkdir -p packages/b packages/c/node_modules; echo untouched > packages/b/x.js; ln -s ../../b packages/c/node_modules/b";
    let instructions = "echo untouched > AGENTS.md; ln -s AGENTS.md CLAUDE.md";
    try_all(vec![
        works("pnpm, a read", read("node_modules/a/index.js")).before(pnpm).shows("untouched"),
        works("pnpm, a search", grep("node_modules/a")).before(pnpm).shows("untouched"),
        works("pnpm, an edit of another package", edit("packages/c/node_modules/b/x.js"))
            .before(pnpm),
        works("instructions that are a link, read", read("CLAUDE.md"))
            .before(instructions)
            .shows("untouched"),
        works("instructions that are a link, changed", edit("CLAUDE.md")).before(instructions),
        works("a link to a folder, a new file", write("l/new.txt")).before("mkdir d; ln -s d l"),
        works("a link to nothing in the project", write("l")).before("ln -s later l"),
        works("a link with an absolute name", read("l/a.txt"))
            .before("mkdir d; echo x > d/a.txt; ln -s {project}/d l"),
        works("a link up and back", read("l/a.txt"))
            .before("mkdir d; echo x > d/a.txt; ln -s ../project/d l"),
        works("a link outside, read", read("l")).before("ln -s {out}/victim l").shows("untouched"),
        works("a file of the system behind a link", read("l/hostname")).before("ln -s /etc l"),
        works("a folder with the name of a program of git", write("code/new.txt"))
            .before("git config core.editor 'code --wait'"),
        works("a file that git only reads", write(".gitignore"))
            .before("git config core.excludesFile .gitignore; git config commit.template note.txt")
            .line("echo x >> .gitignore; echo y > note.txt"),
    ])
    .await;
}
