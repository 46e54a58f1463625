//! Security review 12, permissions for a prefix: operands that are commands.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crow_core::{
    ids::SessionId,
    permission::{Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
};

use crate::project::Project;

/// Allowed prefixes, each with lines in which an operand is a command.
const WIDER: &[(&str, &[&str])] = &[
    // Programs that start the command after their own words.
    (
        "heaptrack",
        &[
            "heaptrack ls",
            "heaptrack touch x",
            "heaptrack /usr/bin/touch x",
            "heaptrack ./evil",
            "heaptrack ./evi?",
            "heaptrack $CMD x",
            "heaptrack jest",
        ],
    ),
    ("doppler", &["doppler run touch x", "doppler run -- touch x", "doppler run ls"]),
    ("doppler run", &["doppler run touch x", "doppler run -- touch x"]),
    ("op", &["op run touch x", "op run -- touch x"]),
    ("infisical", &["infisical run touch x"]),
    ("teller", &["teller run touch x"]),
    ("chamber", &["chamber exec s touch x", "chamber exec s"]),
    ("chamber exec s", &["chamber exec s touch x"]),
    ("aws-vault exec p", &["aws-vault exec p touch x"]),
    ("honcho", &["honcho run touch x", "honcho run x"]),
    ("lerna", &["lerna exec touch x", "lerna exec -- touch x"]),
    ("watchexec", &["watchexec touch x", "watchexec 'touch x'"]),
    (
        "retry",
        &[
            "retry touch x",
            "retry 'touch x'",
            "retry 'A=1 touch x'",
            "retry 'a=1 touch x'",
            "retry 'ls; touch x'",
            "retry 'eval x'",
        ],
    ),
    ("faketime", &["faketime x touch x"]),
    ("torsocks", &["torsocks touch x"]),
    ("proxychains", &["proxychains touch x"]),
    ("trickle", &["trickle touch x"]),
    ("cpulimit", &["cpulimit touch x", "cpulimit -- touch x"]),
    ("with-env", &["with-env touch x", "with-env A=1 touch x"]),
    ("shx", &["shx touch x"]),
    ("ts", &["ts touch x"]),
    ("rr", &["rr record touch x"]),
    ("samply", &["samply record touch x"]),
    ("kcov", &["kcov out touch x", "kcov out ./evil"]),
    ("gdbserver", &["gdbserver :1 touch x"]),
    ("coverage", &["coverage run evil.py"]),
    ("python3 -m coverage", &["python3 -m coverage run evil.py"]),
    ("wait-for-it", &["wait-for-it h:1 -- touch x"]),
    ("start-server-and-test", &["start-server-and-test 'touch x' b c"]),
    ("hyperfine", &["hyperfine 'touch x'", "hyperfine touch"]),
    ("npx cross-env", &["npx cross-env A=1 touch x", "npx cross-env LD_PRELOAD=./e jest"]),
    ("cross-env", &["cross-env A=1 touch x"]),
    // Known programs with a subcommand that starts a command.
    ("uv", &["uv run touch x", "uv tool run x"]),
    ("poetry", &["poetry run touch x"]),
    ("bundle", &["bundle exec touch x"]),
    ("npm", &["npm exec -- touch x", "npm exec touch x", "npm x touch"]),
    ("yarn", &["yarn exec touch x", "yarn workspace web exec touch x"]),
    (
        "pnpm",
        &[
            "pnpm exec touch x",
            "pnpm dlx x",
            "pnpm touch x",
            "pnpm -r touch x",
            "pnpm --filter web touch x",
        ],
    ),
    ("bun", &["bun x touch", "bun run touch x"]),
    ("cargo", &["cargo watch -- touch x", "cargo +nightly watch -- touch x"]),
    ("cargo watch", &["cargo watch -- touch x", "cargo watch 'touch x'"]),
    ("python3 -m timeit", &["python3 -m timeit 'import os'"]),
    ("python3 -m cProfile", &["python3 -m cProfile evil.py"]),
    ("nx", &["nx exec -- touch x"]),
    ("mix", &["mix cmd touch x"]),
    ("docker", &["docker exec c touch x", "docker compose exec web touch x", "docker run x"]),
    ("kubectl", &["kubectl exec p -- touch x"]),
    // Variables and targets of make and its like.
    (
        "make",
        &[
            "make test 'X=$(shell touch x)'",
            "make test 'X=`id`'",
            "make test 'X=$(file >y,z)'",
            "make test MAKEFILES=notes.mk",
            "make test GNUMAKEFLAGS=--eval=x",
            "make test 'X!=touch x'",
            "make test 'V!=touch x'",
            "make test -- 'X!=touch x'",
            "make test PATH=.",
            "make test LD_PRELOAD=./e",
            "make test NODE_OPTIONS=-r./e",
            "make test GIT_SSH_COMMAND=./e",
            "make test RM=./e",
            "make test 'V=; touch x'",
            "make test 'A${shell id}=1'",
            "make '$(shell touch x)'",
        ],
    ),
    ("gmake", &["gmake test 'X=$(shell touch x)'"]),
    ("bmake", &["bmake 'X!=touch x'", "bmake test PATH=.", "bmake -f evil.mk", "bmake -m sub"]),
    ("rake", &["rake test RUBYOPT=-r./e", "rake test PATH=."]),
    ("just", &["just test '$(touch x)'", "just test 'a; touch x'"]),
    ("scons", &["scons CC=./e"]),
    // Options that are harmless with some values only.
    ("ninja", &["ninja -C evil", "ninja -Cevil", "ninja -C ../other"]),
    ("ctest", &["ctest --test-dir evil", "ctest --test-dir=../other", "ctest -S evil.cmake"]),
    ("npx tsc", &["npx tsc -p evil", "npx tsc --project sub/tsconfig.json"]),
    ("rspec", &["rspec --format ./evil", "rspec --format=Evil"]),
    ("git clean", &["git clean -f", "git clean -fd", "git clean -nf"]),
    // Operands that programs open as commands.
    ("ed", &["ed '!touch x'"]),
    (
        "perl -pe s/a/b/",
        &["perl -pe s/a/b/ 'touch x; id|'", "perl -pe s/a/b/ '>y'", "perl -pe s/a/b/ a.txt ' |id'"],
    ),
    ("convert", &["convert '|touch x' y.png", "convert ephemeral:README.md y.png"]),
    ("magick", &["magick '|touch x' y.png"]),
    ("identify", &["identify '|touch x'"]),
    ("montage", &["montage '|touch x' y.png"]),
    ("mogrify", &["mogrify '|touch x'"]),
    ("composite", &["composite '|touch x' y.png"]),
    ("sox", &["sox '|touch x' y.wav"]),
    ("gnuplot", &["gnuplot '<touch x'"]),
    ("gs", &["gs '%pipe%touch x'"]),
    ("duckdb", &["duckdb x.db '.shell touch x'"]),
    ("duckdb x.db", &["duckdb x.db '.shell touch x'"]),
    ("sqlite3", &["sqlite3 x.db '.shell touch x'"]),
    ("soffice", &["soffice 'macro:///Standard.Module1.Main'"]),
    ("sbt", &["sbt '!touch x'"]),
    ("dvips", &["dvips '`touch x'"]),
    ("lynx", &["lynx lynxexec:touch"]),
    ("socat", &["socat - 'EXEC:touch x'", "socat 'SYSTEM:touch x' -"]),
    ("npm test", &["npm test '$(touch x)'", "npm test -- '`touch x`'"]),
    // Packages in files outside of the project.
    (
        "pip install",
        &[
            "pip install git+file:///etc/x",
            "pip install 'x @ file:///etc/x'",
            "pip install 'x@git+file:///etc/x@main'",
            "pip install file://localhost/etc/x",
        ],
    ),
    ("npm install", &["npm install git+file:///etc/x", "npm install x@file:/etc/x"]),
];

/// Allowed prefixes, each with lines that they cover.
const COVERED: &[(&str, &[&str])] = &[
    (
        "unknown",
        &[
            "unknown a.txt tests",
            "unknown test",
            "unknown build src/main.rs",
            "unknown https://example.org/ls",
        ],
    ),
    ("doppler run npm test", &["doppler run npm test"]),
    ("doppler run touch", &["doppler run touch x"]),
    ("heaptrack touch", &["heaptrack touch x"]),
    ("poetry run alembic", &["poetry run alembic upgrade head"]),
    ("ssh host", &["ssh host"]),
    ("mysql", &["mysql db 'select max(id) from users'"]),
    ("brew", &["brew install git"]),
    ("apt-get", &["apt-get install git"]),
    ("man", &["man touch"]),
    ("docker run", &["docker run alpine touch x"]),
    ("docker exec", &["docker exec web ls"]),
    ("docker ps", &["docker ps"]),
    ("uv run", &["uv run pytest", "uv run touch x"]),
    ("poetry run", &["poetry run pytest -q"]),
    ("npx", &["npx eslint src"]),
    ("npm run", &["npm run build", "npm run test"]),
    ("cargo", &["cargo test touch", "cargo add touch", "cargo llvm-cov touch"]),
    ("pnpm", &["pnpm test", "pnpm install", "pnpm build"]),
    ("gh run", &["gh run list"]),
    (
        "make",
        &[
            "make test",
            "make test V=1",
            "make DEBUG=1 all",
            "make install PREFIX=out",
            "make -j4 test",
        ],
    ),
    ("just", &["just test name"]),
    ("rake", &["rake db:migrate"]),
    ("perl -pe s/a/b/", &["perl -pe s/a/b/ a.txt"]),
    ("convert", &["convert a.png b.png", "convert rose: b.png"]),
    ("prettier", &["prettier --check src '!src/x'"]),
    ("ag", &["ag 'foo|bar|'"]),
    ("pip install", &["pip install git+https://example.org/x", "pip install black"]),
];

/// Lines of everyday work under a permission for their first words.
const EVERYDAY: &[(&str, &str)] = &[
    ("pytest", "pytest -n4 --dist loadfile"),
    ("pytest", "pytest -n auto -q tests"),
    ("npm run build", "npm run build -- --mode production"),
    ("npx tsc", "npx tsc --noEmit -p tsconfig.json"),
    ("npx tsc", "npx tsc -p ."),
    ("ctest", "ctest --test-dir build"),
    ("ruff check", "ruff check . --select E,F"),
    ("mvn", "mvn -q test -Dtest=Foo#bar -DfailIfNoTests=false"),
    ("git push", "git push origin --tags"),
    ("git clean", "git clean -n"),
    ("git clean -fd", "git clean -fd"),
    ("ctest", "ctest --output-on-failure -R x"),
    ("ctest", "ctest -j 4 -VV"),
    ("ninja", "ninja -C build -j2 test"),
    ("rspec", "rspec --format documentation"),
    ("bundle exec rspec", "bundle exec rspec --format progress spec"),
];

fn allowing(prefix: &str) -> PermissionPolicy {
    let rule = PermissionRule::allow_bash_prefix(prefix.split(' '));
    PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new([rule]).unwrap())
}

fn project() -> Project {
    let project = Project::new();
    fs::remove_dir_all(project.root.join("evil")).unwrap();
    for name in ["evil", "evil.sh"] {
        let path = project.root.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    project
}

fn asked(project: &Project, prefix: &str, text: &str) -> Option<String> {
    match project.decide(&allowing(prefix), &project.line(text)) {
        Decision::Allow(_) => None,
        Decision::Ask(ask) => Some(format!("{prefix}: {text}: {}", ask.reason)),
        Decision::Deny(_) => Some(format!("{prefix}: {text}: denied")),
    }
}

#[test]
fn a_permission_for_a_program_does_not_cover_a_command_among_its_operands() {
    let project = project();
    let lines =
        WIDER.iter().flat_map(|(prefix, lines)| lines.iter().map(move |line| (prefix, line)));
    let passed: Vec<_> =
        lines.filter(|(prefix, line)| asked(&project, prefix, line).is_none()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn operands_that_start_nothing_are_covered() {
    let project = project();
    let lines =
        COVERED.iter().flat_map(|(prefix, lines)| lines.iter().map(move |line| (prefix, line)));
    let asked: Vec<_> = lines.filter_map(|(prefix, line)| asked(&project, prefix, line)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn options_of_everyday_work_are_covered() {
    let project = project();
    let asked: Vec<_> =
        EVERYDAY.iter().filter_map(|(prefix, line)| asked(&project, prefix, line)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn an_offer_reaches_the_command_that_a_program_starts() {
    let project = project();
    for (line, wanted) in [
        ("heaptrack ls", Some("heaptrack ls")),
        ("doppler run jest", Some("doppler run jest")),
        ("doppler run -- npm test", Some("doppler run -- npm test")),
        ("doppler run npm run build", Some("doppler run npm run build")),
        ("doppler run git push", None),
        ("doppler run rm x", None),
        ("doppler run python3 -c x", None),
        ("chamber exec s touch x", Some("chamber exec s touch")),
        ("coverage run x.py", Some("coverage run x.py")),
        ("honcho run x", Some("honcho run x")),
        ("lerna run build", Some("lerna run build")),
        ("wait-for-it h:1 -- npm test", Some("wait-for-it h:1 -- npm test")),
        ("start-server-and-test 'npm start' b c", Some("start-server-and-test npm start")),
        ("convert a.png b.png", Some("convert")),
        ("bmake test", Some("bmake test")),
        ("uv run pytest", Some("uv run pytest")),
        ("unknown test", Some("unknown")),
    ] {
        let mut policy = PermissionPolicy::new(PermissionMode::Ask);
        let planned = project.line(line);
        let Decision::Ask(ask) = project.decide(&policy, &planned) else { panic!("{line} passes") };
        let offered = ask.offers.first().map(|offer| offer.label.clone());
        let wanted = wanted.map(|words| format!("commands that begin with `{words}`"));
        assert_eq!(offered, wanted, "{line}");
        let Some(offer) = ask.offers.first() else { continue };
        policy.grant(&SessionId::new("session"), &offer.grants);
        assert!(matches!(project.decide(&policy, &planned), Decision::Allow(_)), "{line}");
    }
}
