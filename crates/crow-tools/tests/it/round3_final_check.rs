//! Security review 3, final check of the changes made during the review.

use crow_core::{
    permission::{Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
    tool::Access,
};

use crate::project::Project;

/// Allowed prefixes, each with lines that do more than the prefix permits.
const WIDER: &[(&str, &[&str])] = &[
    (
        "cargo test",
        &[
            "IFS=x cargo test",
            "IFS=- read a b <<< x--config=y; cargo test $b",
            "CI=1 cargo test --config x",
            "cargo test \"$2\"",
            "cargo test -p core -- --logfile=../x",
            "cargo test $((x))",
            "cargo test ~+/../other",
        ],
    ),
    ("yarn test", &["yarn test --config evil.js", "yarn test -c evil.js"]),
    ("pnpm test", &["pnpm test --config evil.js", "pnpm test -r --dir sub"]),
    ("bun run test", &["bun run test --config evil.js", "bun run test -r ./evil.ts"]),
    ("npm test", &["npm test -- --require ./evil", "npm test -- -c evil.js", "npm test -g"]),
    ("go run", &["go run -C ../other .", "go run -C=../other .", "go run -exec=./evil ."]),
    ("go build", &["go build -o=../x", "go build -o .envrc ./cmd/server"]),
    ("cargo run", &["cargo run -p x --config y -- z", "cargo run --target ../x.json"]),
    (
        "curl",
        &[
            "curl https://example.org -o out -o ../x",
            "curl -m5 -o../x https://example.org",
            "curl -sfo .git/config https://example.org",
            "curl -o \"$x\" https://example.org",
            "curl https://example.org -o out https://evil.org",
        ],
    ),
    (
        "wget",
        &[
            "wget -qO.git/config https://example.org",
            "wget -O \"$(echo .envrc)\" https://example.org",
        ],
    ),
    (
        "cp",
        &[
            "cp a.txt $HOME",
            "cp a.txt \"$x\"",
            "cp -t .git a.txt",
            "cp --target-directory=.git a.txt",
            "cp a.txt .git/../.git/config",
            "cp a.txt ./.gi{,t}/config",
            "cp a.txt .g[i]t/config",
            "cp a.txt .envrc",
            "cp -r src/. .git",
            "cp a.txt .github/workflows/x.yml",
        ],
    ),
    ("mv", &["mv a.txt .envrc", "mv .git g", "mv src .vscode"]),
    ("mkdir", &["mkdir -p .vscode", "mkdir .git/hooks"]),
    ("touch", &["touch .mcp.json", "touch .git/hooks/x"]),
    ("tee", &["tee .envrc", "tee -a .git/config"]),
    ("dd", &["dd of=.envrc", "dd if=a.txt of=.git/config"]),
    ("install", &["install -D a.txt .git/hooks/x", "install -m755 a.txt .git/hooks"]),
    ("chmod", &["chmod +x .git/hooks/x", "chmod -R +x .git"]),
    ("rm", &["rm -rf .git", "rm -rf .", "rm .git/index", "rm -rf $x", "rm -rf .git*"]),
    ("ln", &["ln -f a.txt .git/config", "ln -s .git g", "ln .git/config c", "ln -s ../other o"]),
    (
        "sed",
        &[
            "sed -i s/a/b/ .github/workflows/ci.yml",
            "sed -i s/a/b/ $(ls)",
            "sed -i.bak s/a/b/ .git/config",
        ],
    ),
    ("find", &["find .git -delete", "find . -name x -exec ./evil {} \\;"]),
    ("tar", &["tar xf a.tar -C\"$x\"", "tar cf a.tar -T list", "tar -xf a.tar .github"]),
    (
        "python",
        &[
            "python -",
            "python",
            "python -u - < a.txt",
            "python -u < a.txt",
            "python /proc/self/fd/0",
        ],
    ),
    ("node", &["node", "node --no-warnings - < a.txt", "node /dev/tty"]),
    ("gzip", &["gzip -c .git/config > .envrc", "gzip .envrc"]),
    ("black", &["black .git", "black ../other"]),
    ("git stash", &["git stash show --ext-diff", "git -c core.pager=x stash list"]),
    ("git checkout", &["git checkout --pathspec-from-file=../x", "git checkout -- ../other"]),
];

/// Lines that must not pass as reads.
const NO_READS: &[&str] = &[
    "x=1; echo $((x ? y : 1))",
    "x=1; echo $((x, y))",
    "x=1; echo $((x = 2, y))",
    "x=1; echo $((x += y))",
    "x=1; echo $((x ** y))",
    "x=1; [ $x -le $y ]",
    "x=1; [ $y -le $x ]",
    "x=1; [ ! $y -le 3 ]",
    "x=1; [ $x$y -le 3 ]",
    "x=1; [ ${x} -le 3 -a $y ]",
    "[ \"$@\" -le 3 ]",
    "[[ $x -le 3 ]]",
    "x=1; test $y -gt 0",
    "x=$((1)); cat $x ../other/Cargo.toml",
    "IFS= read x < a.txt; echo \"${x@P}\"",
    "IFS= read -r -p '$(touch C)' 'a[$(touch C)]'",
    "IFS= read -r x < ../other/Cargo.toml; echo \"$x\"",
    "IFS=$(touch C) read x < a.txt",
    "IFS=`touch C` read x < a.txt",
    "X=$(touch C) read x < a.txt",
    "read x <<< \"$(touch C)\"",
    "while IFS=$(touch C) read -r x; do echo; done < a.txt",
    "while IFS= read -r x; do $x; done < a.txt",
    "while IFS= read -r x; do eval \"$x\"; done < a.txt",
    "while IFS= read -r x; do cat \"$x\"; done < a.txt",
    "while IFS= read -r x; do echo \"$x\" > out; done < a.txt",
    "while IFS= read -r x; do [ $x -gt 1 ]; done < a.txt",
    "i=0; while [ $i -le 3 ]; do i=$((i + 1)); touch x; done",
    "i=0; while [ $i -le 3 ]; do i=$x; done",
    "i=0; until [ $i -ge 3 ]; do i=a$((i + 1)); done",
    "x=1; for x in $(cat a.txt); do [ $x -le 3 ]; done",
    "x=1; x=$((1))a; [ $x -le 3 ]",
    "x=1; : ${x:=a} ${x=b}; [ $x -le 3 ]",
    "x=1; (x=a; [ $x -le 3 ])",
    "x=1; { x=a; }; [ $x -le 3 ]",
    "x=1; if true; then x='-v a[$(touch C)]'; fi; [ $x -le 3 ]",
    "x=1 && [ $x -le 3 ] && touch x",
    "rg -u TOKEN certs",
    "grep -d skip TOKEN certs/server.key",
    "zgrep -r TOKEN .",
];

/// Everyday lines that must pass as reads.
const READS: &[&str] = &[
    "for x in 1 2; do [ $x -le 3 ] && echo $x; done",
    "x=3; if [ $x -gt 2 ]; then echo big; else echo small; fi",
    "[ \"$(wc -l < a.txt)\" -gt 3 ] && echo long",
    "x=1; y=2; [ $x -lt $y ] && echo less",
    "n=$(ls | wc -l); test \"$n\" -eq 3 || echo other",
    "x=$((2 * 3)); echo $((x - 1))",
    "while IFS=: read -r name rest; do echo \"$name\"; done < a.txt",
    "grep -d skip x a.txt",
    "echo {1..3}",
    "cat a.txt | tee",
];

fn passing(policy: &PermissionPolicy, lines: &[&'static str]) -> Vec<&'static str> {
    let project = Project::new();
    lines
        .iter()
        .copied()
        .filter(|text| matches!(project.decide(policy, &project.line(text)), Decision::Allow(_)))
        .collect()
}

#[test]
fn a_permission_covers_no_line_that_does_more_than_its_words() {
    let passed: Vec<String> = WIDER
        .iter()
        .flat_map(|(prefix, lines)| {
            let rule = PermissionRule::allow_bash_prefix(prefix.split(' '));
            let rules = RuleSet::new([rule]).unwrap();
            let policy = PermissionPolicy::new(PermissionMode::Ask).with_rules(rules);
            passing(&policy, lines).into_iter().map(move |text| format!("{prefix}: {text:?}"))
        })
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn number_tests_and_read_loops_pass_only_if_they_are_reads() {
    let policy = PermissionPolicy::new(PermissionMode::Ask).with_read_sandbox(true);
    let passed = passing(&policy, NO_READS);
    assert!(passed.is_empty(), "{passed:#?}");
    let policy = PermissionPolicy::new(PermissionMode::Ask);
    let read = passing(&policy, READS);
    let asked: Vec<&&str> = READS.iter().filter(|text| !read.contains(text)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn a_write_denial_allows_reads_and_a_read_denial_allows_writes() {
    let policy = |rule| {
        let rules = RuleSet::new([rule]).unwrap();
        PermissionPolicy::new(PermissionMode::FullAuto).with_rules(rules)
    };
    let written = policy(PermissionRule::deny_path(Access::Write, "a.txt"));
    let lines = [
        "cat a.txt",
        "cp a.txt b.txt",
        "grep x a.txt",
        "wc -l a.txt",
        "tar cf x.tar a.txt",
        "diff a.txt b.txt",
        "git diff a.txt",
        "git show HEAD:a.txt",
        "scp a.txt host:",
        "docker run -v ./src:/src alpine",
        "less a.txt",
    ];
    assert_eq!(passing(&written, &lines), lines);
    let read = policy(PermissionRule::deny_path(Access::Read, "certs"));
    let lines = ["echo x > certs/new", "mkdir -p certs", "touch certs/x", "rm -f certs/x"];
    assert_eq!(passing(&read, &lines), lines);
}
