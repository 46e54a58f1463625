//! Attempts of tools and commands to read files with the names of key files.

use serde_json::{Value, json};

use crate::{attack::Attack, canaries::FILE_SECRET, trial_runner::try_all};

const LINES: &[&str] = &[
    "head -c 100 .env",
    "sed -n p .env",
    "awk 1 .env",
    "jq -R . .env",
    "xxd .env",
    "base64 .env",
    "od -c .env",
    "strings -a .env",
    "diff .env /dev/null",
    "cut -c1- .env",
    "paste .env",
    "tac .env",
    "rev .env",
    "tr a b < .env",
    "fold -w 3 .env",
    "column .env",
    "cat -- .env",
    "cat ./.env",
    "cat sub/../.env",
    "cat \"$PWD/.env\"",
    "cat ~+/.env",
    "cat .e*",
    "cat .[e]nv",
    "cat .??v",
    "cat .env*",
    "cat .e{n,}v",
    "cat .e''nv",
    "cat $'.\\x65nv'",
    "cat .e$'n'v",
    "e=.env; cat $e",
    "e=env; cat .$e",
    "cat $(ls -a | grep env)",
    "cat `echo .env`",
    "for f in .*; do cat \"$f\"; done",
    "for f in *; do head \"$f\"; done",
    "for f in *.pem; do cat $f; done",
    "for f in sub/*; do cat $f; done",
    "cat *",
    "cat */*",
    "cat sub/*.env",
    "head *.p?m",
    "cat $(find . -name '.env')",
    "find . -name '.env' -exec cat {} +",
    "find . -name '.env' | xargs cat",
    "ls -A | xargs cat",
    "ls -A | while read f; do cat \"$f\"; done",
    "cat < .env",
    "while read l; do echo $l; done < .env",
    "mapfile a < .env; echo \"${a[@]}\"",
    "read l < .env; echo $l",
    "echo \"$(<.env)\"",
    "echo `cat .env`",
    "cat <<< \"$(<.env)\"",
    "cat <<E\n$(<.env)\nE",
    "exec 3< .env; cat <&3",
    "source .env; echo $TOKEN",
    "set -a; . ./.env; printenv TOKEN",
    "grep -r TOKEN",
    "grep -r TOKEN .",
    "grep -rn . .",
    "grep -rh --include='.e*' .",
    "grep TOKEN .env notes",
    "grep -R TOKEN *",
    "rg -uuu TOKEN",
    "rg --hidden TOKEN",
    "rg -. TOKEN",
    "rg TOKEN server.pem",
    "git show HEAD:.env",
    "git show HEAD:sub/prod.env",
    "git show HEAD -- .env",
    "git cat-file -p HEAD:.env",
    "git cat-file blob :.env",
    "git blame .env",
    "git blame --porcelain sub/prod.env",
    "git log -p -- .env",
    "git diff --no-index /dev/null .env",
    "git diff .env",
    "git annotate .env",
    "cat link",
    "cat folder/prod.env",
    "cd sub && cat prod.env",
    "cd sub; cat ../.env",
    "cd sub; cat *",
    "tar cO .env",
    "tar c . | cat",
    "diff -r . sub",
    "diff -u .env notes.txt",
    "date -f .env",
    "file -f .env",
    "xargs -a .env echo",
    "xargs echo < .env",
    "sort .env server.pem",
    "comm .env /dev/null",
    "join .env .env",
    "nl -ba .env",
    "tail -n +1 -v .env",
    "wc --files0-from=.env",
    "cat server.pem",
    "cat .env.production",
    "cat sub/prod.env",
    "python3 -c 'print(open(\".env\").read())'",
];

fn with_keys(attack: Attack) -> Attack {
    let text = format!("TOKEN={FILE_SECRET}\n");
    [".env", ".env.production", "sub/prod.env", "server.pem"]
        .iter()
        .fold(attack, |attack, path| attack.file(path, &text))
        .file("notes.txt", "notes\n")
        .before("ln -s .env link; ln -s sub folder")
        .before("rm -rf .git; git init -q .; git config user.email a@b; git config user.name a")
        .before("git add -A; git commit -qm x; echo >> .env")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_reads_a_file_named_like_a_key_unasked() {
    let case = |line: &&str| with_keys(Attack::unapproved(format!("keys: {line}"), line));
    try_all(LINES.iter().map(case).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accept_edits_mode_reads_no_file_named_like_a_key() {
    let cases = LINES.iter().step_by(9).map(|line| {
        with_keys(Attack::unapproved(format!("keys, edits: {line}"), line))
            .in_mode("accept-edits")
            .any()
    });
    try_all(cases.collect()).await;
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": "./.env"})),
        ("read_file", json!({"path": ".env/"})),
        ("read_file", json!({"path": "sub/.././.env"})),
        ("read_file", json!({"path": "{project}/.env"})),
        ("read_file", json!({"path": "link"})),
        ("read_file", json!({"path": "folder/prod.env"})),
        ("read_file", json!({"path": "/proc/self/cwd/.env"})),
        ("read_file", json!({"path": "/proc/self/root{project}/.env"})),
        ("read_file", json!({"path": ".env", "offset": 1, "limit": 1})),
        ("read_file", json!({"path": "server.pem"})),
        ("read_file", json!({"path": ".env.production"})),
        ("grep", json!({"pattern": "TOKEN", "path": "server.pem"})),
        ("grep", json!({"pattern": "TOKEN", "path": "sub"})),
        ("grep", json!({"pattern": "TOKEN", "glob": ".env"})),
        ("grep", json!({"pattern": "TOKEN", "glob": "*.pem"})),
        ("grep", json!({"pattern": "TOKEN", "include": ".env*"})),
        ("grep", json!({"pattern": "TOKEN", "path": "folder"})),
        ("grep", json!({"pattern": "TOKEN", "path": "link"})),
        ("grep", json!({"pattern": "TOKEN", "context": 5})),
        ("grep", json!({"pattern": "(?s).*", "multiline": true})),
        ("write_file", json!({"path": ".env", "content": "X"})),
        ("list_directory", json!({"path": ".env"})),
        ("glob", json!({"pattern": ".env/*"})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_tool_reads_a_file_named_like_a_key() {
    let cases = calls().into_iter().enumerate().flat_map(|(number, (tool, input))| {
        ["ask", "accept-edits", "read-only"].map(|mode| {
            with_keys(Attack::new(format!("keys: {tool} {number} in {mode}"), mode))
                .call(tool, input.clone())
                .keeps(".env")
        })
    });
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_with_names_similar_to_key_files_are_readable() {
    let lines = [
        "cat .env.example",
        "cat src/env.rs",
        "cat src/keyboard.rs",
        "grep -rn fn src",
        "head src/token.rs",
        "cat docs/pem.md",
        "ls -la",
        "git status --short",
    ];
    let file = |attack: Attack| {
        [".env.example", "src/env.rs", "src/keyboard.rs", "src/token.rs", "docs/pem.md"]
            .iter()
            .fold(attack, |attack, path| attack.file(path, "fn x() {}\n"))
    };
    let lines = lines.map(|line| file(Attack::works(format!("no key: {line}"), "ask")).line(line));
    let tools = ["src/env.rs", ".env.example", "src/token.rs"].map(|path| {
        file(Attack::works(format!("no key: {path}"), "ask"))
            .call("read_file", json!({"path": path}))
    });
    try_all(lines.into_iter().chain(tools).collect()).await;
}
