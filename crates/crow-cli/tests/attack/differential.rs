//! Differential test of the planner against real shells.
//!
//! Random command lines are composed from templates (`PLAIN`, `MOVING`, `SHAPES`) and run by bash and dash in the sandbox.
//! A snapshot of all files before and after shows which paths the shell changed, and the marks `@path@` in each file show
//! in the output which files it read. Invariants: nothing outside the project and no protected file changes, no key is
//! printed, a line planned as read-only changes nothing, and every touched path of a line that the planner claims to
//! understand is in its plan (not checked for lines that move paths).

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::{Containment, OutputLimits, ProcessSpec, Processes as _},
    tool::{Access, CommandMeaning, Progress, SideEffects, SimpleCommand, TouchDepth},
    workspace::Workspace,
};
use crow_runtime::{ProcessRunner, Sandbox, SandboxConfig};
use crow_tools::plan_command_line;
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::{
    canaries::{FILE_SECRET, tree},
    scene::visible_temp_dir,
    trial_runner::{has_full_sandbox, is_installed},
};

/// Paths for the generated lines, some outside the project. `HERE` is the base folder of the fixture.
const PATHS: [&str; 24] = [
    "a.txt",
    "b.txt",
    "sub",
    "sub/c.txt",
    "new",
    "sub/new",
    "new/x",
    "link",
    "link/victim",
    "link/new",
    "inner/d.txt",
    "inner/../c.txt",
    "../out/victim",
    "../out/new",
    "HERE/out/victim",
    "HERE/home/.bashrc",
    "HERE/home/.ssh/key",
    "$HOME/.ssh/key",
    "~/.profile",
    ".git/config",
    ".git/hooks/pre-commit",
    ".vscode/tasks.json",
    "*.txt",
    "{a,b}.txt",
];

/// Commands that move or remove no folders and links. `P` is a path.
const PLAIN: [&str; 28] = [
    "cat P",
    "cat P P",
    "head -n 1 P",
    "wc -l P",
    "grep -r @ P",
    "sort P",
    "ls -a P",
    "sed -n 1p P",
    "find P -type f",
    "diff P P",
    "awk '{print}' P",
    "cat < P",
    "git -c core.pager=cat status --short",
    "git -c alias.x='!touch new' x",
    "git -c core.fsmonitor='touch new;' status",
    "touch P",
    "echo x > P",
    "echo x >> P",
    "echo x 2> P",
    "cat <<E > P\ntext $x\nE",
    "cat <<'E' | tee P\n$(touch new)\nE",
    "tee P < P",
    "sed -i s/x/y/ P",
    "sort -o P P",
    "truncate -s 0 P",
    "chmod 600 P",
    "mkdir -p P",
    "dd if=P of=P",
];

/// Commands after which a path may name another file.
const MOVING: [&str; 8] = [
    "rm P",
    "rm -rf P",
    "mv P P",
    "cp -r P P",
    "ln -s P P",
    "ln P P",
    "find P -name '*.txt' -delete",
    "cd P",
];

/// Constructs that start commands. `A` and `B` are commands; inside double quotes they contain no double quotes.
const SHAPES: [&str; 26] = [
    "env A",
    "env X=1 A",
    "env -i A",
    "nohup A",
    "timeout 5 A",
    "nice A",
    "command A",
    "X=1 A",
    "x=P; A",
    "sh -c \"A\"",
    "bash -c \"A; B\"",
    "eval \"A\"",
    "echo P | xargs A",
    "find P -maxdepth 1 -name a.txt -exec A ';'",
    "find P -maxdepth 1 -name '*.txt' -exec A {} +",
    "A; B",
    "A && B",
    "A | B",
    "(A; B)",
    "{ A; B; }",
    "for f in P P; do A; done",
    "if A; then B; fi",
    "cd sub && A",
    "echo \"$(A)\"",
    "cat <<E\n$(A)\nE\nB",
    "A > P 2>&1",
];

/// Texts that bash reads differently from a POSIX shell.
const ONLY_BASH: [&str; 1] = ["{a,b}"];

/// A project, a home and a folder outside, with the sandbox for commands in the project.
struct ShellFixture {
    _folder: tempfile::TempDir,
    base: PathBuf,
    runner: ProcessRunner,
    workspace: Workspace,
}

impl ShellFixture {
    /// Creates the files. Each contains its own path between `@` marks, so output shows which files were read.
    fn new() -> Self {
        let folder = visible_temp_dir();
        let base = folder.path().canonicalize().unwrap();
        for name in [
            "project/a.txt",
            "project/b.txt",
            "project/sub/c.txt",
            "project/sub/deep/d.txt",
            "project/.git/config",
            "project/.git/HEAD",
            "project/.git/hooks/pre-commit",
            "out/victim",
        ] {
            put(&base.join(name), &format!("@{name}@\n"));
        }
        put(&base.join("home/.ssh/key"), FILE_SECRET);
        for name in ["project/.git/objects", "project/.git/refs", "private"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let root = base.join("project");
        for (link, target) in [("link", "../out"), ("inner", "sub/deep")] {
            symlink(target, root.join(link)).unwrap();
        }
        let mut config = SandboxConfig::new(base.join("private"));
        config.hidden.push(base.join("home/.ssh"));
        let sandbox = Sandbox::new(config, "session", vec![root.clone()]);
        let home = base.join("home").to_str().unwrap().to_owned();
        let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let env = BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), home)]);
        let runner = ProcessRunner::new(env).in_sandbox(Arc::new(sandbox));
        Self { _folder: folder, base, runner, workspace: Workspace::new(root) }
    }

    fn root(&self) -> &Path {
        self.workspace.cwd()
    }

    /// Returns mode and content of every path except the sandbox's temporary files.
    fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let inside = |name: &String| !name.starts_with("private/") && name != "private";
        let all = tree(&self.base).into_iter().filter(|(name, _)| inside(name));
        all.map(|(name, state)| (self.base.join(name), state)).collect()
    }

    /// Runs a line with write access to the project, even if the plan says that it only reads.
    async fn run(&self, shell: &str, line: &str) -> String {
        let spec = ProcessSpec {
            argv: [shell, "-c", line].map(str::to_owned).to_vec(),
            cwd: self.root().to_owned(),
            env: BTreeMap::new(),
            timeout: Duration::from_secs(20),
            output: OutputLimits { head: 1 << 20, tail: 0, spill: None, spill_cap: 0 },
            progress: Progress::default(),
            only_reads: false,
        };
        let outcome = self.runner.run(spec, CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.containment, Containment::Full);
        String::from_utf8_lossy(&outcome.output.head).into_owned()
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns true if the planned command includes this access to the path.
fn is_planned(command: &SimpleCommand, path: &Path, access: Access) -> bool {
    let touched = command.touches.iter().any(|touch| {
        let is_there = path == touch.path
            || touch.depth == TouchDepth::Below && path.starts_with(&touch.path)
            // Parent folders are created together with the path.
            || access == Access::Write && touch.path.starts_with(path);
        is_there && (touch.access == access || access == Access::Read)
    });
    let redirected = command
        .redirects
        .iter()
        .any(|redirect| redirect.path.as_deref() == Some(path) && redirect.access == access);
    touched || redirected
}

/// Compares the effects of a line in a shell with its plan and with the sandbox's limits. Returns true if the plan claims to
/// know all effects.
fn check(
    line: &str,
    shell: &str,
    is_moving: bool,
    runtime: &Runtime,
) -> Result<bool, TestCaseError> {
    let fixture = ShellFixture::new();
    let line = line.replace("HERE", fixture.base.to_str().unwrap());
    let plan = plan_command_line(&line, fixture.root(), &fixture.workspace, None);
    // 1) Run the line and compare the files before and after.
    let before = fixture.state();
    let output = runtime.block_on(fixture.run(shell, &line));
    let after = fixture.state();
    let paths = before.keys().chain(after.keys());
    let changed: Vec<&PathBuf> =
        paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    // 2) Limits of the sandbox, whatever was planned.
    for path in &changed {
        let Ok(inside) = path.strip_prefix(fixture.root()) else {
            let path = path.display();
            return Err(TestCaseError::fail(format!("{shell}: {line:?} changed {path} outside")));
        };
        let is_protected =
            [".git/config", ".git/hooks", ".vscode"].iter().any(|name| inside.starts_with(name));
        prop_assert!(!is_protected, "{shell}: {line:?} changed {path:?}, which is protected");
    }
    prop_assert!(!output.contains(FILE_SECRET), "{shell}: {line:?} showed a key");
    if plan.only_reads() {
        prop_assert!(changed.is_empty(), "{shell}: {line:?} changed {changed:?}: {plan:?}");
    }
    // 3) If the plan claims to know all effects, they must match.
    let CommandMeaning::Commands(commands) = &plan.meaning else { return Ok(false) };
    let is_hidden = |command: &SimpleCommand| {
        matches!(command.side_effects, SideEffects::Hidden)
            || command.redirects.iter().any(|it| it.path.is_none() && !it.is_device())
    };
    if commands.iter().any(is_hidden) {
        return Ok(false);
    }
    if !is_moving {
        for path in changed {
            let is_known = commands.iter().any(|it| is_planned(it, path, Access::Write));
            prop_assert!(is_known, "{shell}: {line:?} changed {path:?}: {plan:?}");
        }
        // Every second part between `@` marks is the path of a file that was read.
        for name in output.split('@').skip(1).step_by(2) {
            let path = fixture.base.join(name);
            if before.contains_key(&path) {
                let is_known = commands.iter().any(|it| is_planned(it, &path, Access::Read));
                prop_assert!(is_known, "{shell}: {line:?} showed {path:?}: {plan:?}");
            }
        }
    }
    Ok(true)
}

/// Replaces each occurrence of `letter` that is a word of its own with the next value, or `a.txt` if none is left.
fn substitute(text: &str, letter: char, values: &[String]) -> String {
    let mut values = values.iter();
    let is_word =
        |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    let (mut result, mut last) = (String::new(), None);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == letter && !is_word(last) && !is_word(chars.peek().copied()) {
            result.push_str(values.next().map_or("a.txt", String::as_str));
        } else {
            result.push(char);
        }
        last = Some(char);
    }
    result
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(select(&PATHS[..]).prop_map(str::to_owned), 2)
}

fn command(kinds: &'static [&'static str]) -> impl Strategy<Value = String> {
    (select(kinds), paths()).prop_map(|(text, paths)| substitute(text, 'P', &paths))
}

fn composed(simple: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    simple.prop_recursive(3, 4, 2, |inner| {
        (select(&SHAPES[..]), paths(), inner.clone(), inner).prop_map(|(shape, paths, a, b)| {
            // Text inside quotes must not end them.
            let quoted = |text: String| {
                if shape.contains('"') { text.replace('"', "'") } else { text }
            };
            let shape = substitute(shape, 'P', &paths);
            // Both letters are replaced only in the shape itself, not in text already inserted.
            let pieces: Vec<String> = shape
                .split_inclusive(' ')
                .map(|piece| {
                    let with_a = substitute(piece, 'A', &[quoted(a.clone())]);
                    if with_a == piece {
                        substitute(piece, 'B', &[quoted(b.clone())])
                    } else {
                        with_a
                    }
                })
                .collect();
            pieces.concat()
        })
    })
}

/// Generates lines, each with true if it may move paths.
fn line() -> impl Strategy<Value = (String, bool)> {
    let mixed = prop_oneof![3 => command(&PLAIN), 1 => command(&MOVING)];
    prop_oneof![
        1 => command(&PLAIN).prop_map(|text| (text, false)),
        1 => command(&MOVING).prop_map(|text| (text, true)),
        4 => composed(command(&PLAIN)).prop_map(|text| (text, false)),
        2 => composed(mixed).prop_map(|text| (text, true)),
    ]
}

#[test]
fn paths_that_shells_touch_are_planned_and_inside_the_project() {
    if !has_full_sandbox("shell lines that are compared with their plans") {
        return;
    }
    let default = Config::default().cases;
    // `PROPTEST_CASES` sets a larger number.
    let cases = if default == 256 { 40 } else { default };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let shells = if is_installed("dash") { &["bash", "dash"][..] } else { &["bash"][..] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let understood = Cell::new(0);
    let result = runner.run(&line(), |(line, is_moving)| {
        let only_bash = ONLY_BASH.iter().any(|text| line.contains(text));
        for shell in shells.iter().filter(|shell| **shell == "bash" || !only_bash) {
            let is_understood = check(&line, shell, is_moving, &runtime)?;
            understood.set(understood.get() + u32::from(is_understood));
        }
        Ok(())
    });
    assert_eq!(result.map_err(|error| error.to_string()), Ok(()));
    assert!(understood.get() > cases / 5, "only {} lines were understood", understood.get());
}
