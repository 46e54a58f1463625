//! Everyday work that must pass without a question.

use serde_json::json;

use crate::{
    attack::Attack,
    trial_runner::{has_full_sandbox, is_installed, try_all},
};

const REPOSITORY: &str = "rm -rf .git; git init -q -b main .; git config user.email a@b.invalid; git config user.name a; mkdir -p src/deep tests docs; printf 'fn main() {}\\n// TODO: more\\n' > src/main.rs; printf 'pub fn x() {}\\n' > src/deep/lib.rs; printf 'one\\ntwo\\nthree\\n' > notes.txt; printf '{\"name\": \"x\", \"scripts\": {\"test\": \"node -e 0\"}}' > package.json; printf '[package]\\nname = \"x\"\\n' > Cargo.toml; echo text > 'a b.txt'; git add -A; git commit -qm first; echo more >> notes.txt; git commit -qam second; echo most >> notes.txt";

const READS: &[&str] = &[
    "ls -la src tests | head -20",
    "ls -1 | wc -l",
    "cat src/main.rs Cargo.toml",
    "cat -n src/main.rs | sed -n '1,20p'",
    "sed -n '1,5p;7q' notes.txt",
    "sed 's/one/two/g' notes.txt | head",
    "sed -e 's/a/b/' -e '/x/d' notes.txt",
    "awk '{print $1}' notes.txt | sort | uniq -c | sort -rn",
    "awk '/one/,/three/' notes.txt",
    "jq .name package.json",
    "jq -r '.scripts | keys[]' package.json",
    "find . -type f -name '*.rs' -not -path './target/*' | head",
    "find . -maxdepth 2 -type d | sort",
    "grep -rn 'fn main' --include='*.rs' src",
    "grep -rniE 'todo|fixme' src docs tests",
    "grep -c . notes.txt && echo found || echo none",
    "grep -v '^#' notes.txt | cut -d' ' -f1 | tr a-z A-Z",
    "head -n 3 src/*.rs",
    "tail -n +2 notes.txt",
    "wc -l src/*.rs src/*/*.rs",
    "for f in src/*.rs; do echo \"== $f\"; head -2 \"$f\"; done",
    "for i in 1 2 3; do echo $i; done",
    "for i in $(seq 3); do echo \"$i\"; done",
    "while read -r line; do echo \"- $line\"; done < notes.txt",
    "cat notes.txt | while read -r l; do echo \"$l\"; done",
    "if [ -f Cargo.toml ]; then echo rust; elif [ -f package.json ]; then echo node; fi",
    "[[ -d src ]] && ls src",
    "test -e missing || echo missing",
    "x=$(wc -l < notes.txt); echo \"lines: $x\"",
    "echo \"${PWD##*/}\"",
    "diff <(sort notes.txt) <(sort -u notes.txt)",
    "diff -u notes.txt Cargo.toml | head",
    "cd src && ls && cd ..",
    "(cd src && cat main.rs)",
    "cat 'a b.txt'",
    "cat a\\ b.txt",
    "ls nothing 2>/dev/null || true",
    "ls src 2>&1 | head -3",
    "ls src > /dev/null && echo ok",
    "cat <<'EOF'\nplain text with $(no command)\nEOF",
    "printf '%s\\n' a b c | sort -r",
    "du -sh src | cut -f1",
    "stat -c '%s %n' notes.txt",
    "file src/main.rs",
    "md5sum notes.txt; sha256sum notes.txt",
    "tree -L 2 2>/dev/null || ls -R src",
    "which cargo node python3",
    "uname -a; date; whoami; nproc",
    "date +%Y-%m-%d",
    "basename src/main.rs .rs; dirname src/main.rs; realpath src",
    "echo $HOME $PATH | tr ':' '\\n' | head -3",
    "seq 1 10 | paste -sd+",
    "comm -12 <(sort notes.txt) <(sort Cargo.toml)",
    "true && false || echo fallback",
    "# a comment\nls",
    "ls \\\n  -la \\\n  src",
    "git status -sb",
    "git log --oneline -5",
    "git log --graph --decorate --all --oneline",
    "git log -p -1 -- src/main.rs",
    "git log --since='2 weeks ago' --author=a --format='%h %an %s'",
    "git log --stat -3 | head -40",
    "git diff HEAD~1 --stat",
    "git diff HEAD~1..HEAD -- notes.txt",
    "git diff --name-only HEAD~1",
    "git diff --cached",
    "git diff main...HEAD",
    "git --no-pager diff | head",
    "git show HEAD:notes.txt",
    "git show --name-only HEAD",
    "git blame -L 1,2 notes.txt",
    "git branch -a",
    "git branch --show-current",
    "git rev-parse HEAD",
    "git rev-parse --abbrev-ref HEAD",
    "git ls-files | grep rs",
    "git grep -n main",
    "git remote -v",
    "git tag --list",
    "git stash list",
    "git describe --always",
    "git shortlog -sn HEAD",
    "git config --get user.name",
    "git merge-base main HEAD",
    "git check-ignore -v notes.txt || true",
    "git -C src status --short",
    "git reflog | head -3",
    "git cat-file -t HEAD",
    "git diff --word-diff HEAD",
    "git show HEAD~1 | grep '^+'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_read_commands_pass_without_a_question() {
    if !has_full_sandbox("everyday reading") {
        return;
    }
    let case = |line: &&str| {
        // A line that fails for another reason than a question still passed.
        Attack::works(format!("everyday: {line}"), "ask").before(REPOSITORY).line(line)
    };
    try_all(READS.iter().map(case).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_commands_pass_with_prefix_rules() {
    if !has_full_sandbox("everyday work") {
        return;
    }
    let cases: [(&str, &[&str], &str); 9] = [
        ("npm", &["npm test"], "npm test 2>&1 | tail -5"),
        ("npm", &["npm test"], "npm test -- extra"),
        ("npm", &["npm run"], "npm run test && git status"),
        (
            "cargo",
            &["cargo metadata"],
            "cargo metadata --no-deps --offline --format-version 1 2>/dev/null | head -c 99 || true",
        ),
        ("cargo", &["cargo fmt"], "cargo fmt --version; cargo fmt --check 2>/dev/null || true"),
        (
            "git",
            &["git add", "git commit"],
            "git add -A && git commit -q -m \"feat: it's new\" && git log -1",
        ),
        ("git", &["git checkout"], "git checkout -q -b topic && git branch"),
        (
            "git",
            &["git add", "git commit"],
            "git add src/*.rs && git commit -q --allow-empty -F - <<'EOF'\na message\nEOF",
        ),
        ("python3", &["python3 -m json.tool"], "python3 -m json.tool package.json"),
    ];
    let cases = cases.into_iter().filter(|(program, ..)| is_installed(program)).map(
        |(_, allowed, line)| {
            let attack = Attack::works(format!("allowed: {line}"), "ask").before(REPOSITORY);
            allowed.iter().fold(attack, |attack, words| attack.allow(words)).line(line)
        },
    );
    try_all(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_edits_pass_in_accept_edits_mode() {
    let works =
        |name: &str| Attack::works(format!("edit: {name}"), "accept-edits").before(REPOSITORY);
    let new = |path: &str| json!({"path": path, "content": "x\n"});
    let paths = [
        "src/new.rs",
        "a/b/c/d.txt",
        ".gitignore",
        ".editorconfig",
        "README.md",
        "Dockerfile.txt",
        "docs/git.md",
        "src/github/mod.rs",
        "src/.keep",
        "tests/data/hooks.json",
        "[id]/page.tsx",
        "a b/c d.txt",
        "src/vscode.ts",
    ];
    let cases = paths.map(|path| works(path).call("write_file", new(path)));
    let edit = works("of a file that a command read").line("cat src/main.rs").call(
        "edit_file",
        json!({"path": "src/main.rs", "old_string": "TODO: more", "new_string": "done"}),
    );
    let absolute = works("of an absolute path").call("write_file", new("{project}/src/abs.rs"));
    let dots = works("of a path with dots").call("write_file", new("src/../src/./dots.rs"));
    try_all(cases.into_iter().chain([edit, absolute, dots]).collect()).await;
}
