//! Compares plans with real shells: everything that a shell changes or shows must have been planned.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crow_core::{
    tool::{Access, CommandLine, CommandMeaning, SideEffects, SimpleCommand, TouchDepth},
    workspace::Workspace,
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::plan_command_line;
use crate::parse::needs_bash;

/// The number of folders above the project, so that no line climbs out of them.
const FOLDERS_ABOVE: usize = 60;

/// Paths in generated lines. None leads out of the folders above.
const PATHS: [&str; 28] = [
    "a.txt",
    "b.txt",
    "sub",
    "sub/c.txt",
    "sub/deep/d.txt",
    "new",
    "sub/new",
    "new/x",
    "link",
    "link/secret",
    "link/new",
    "inner",
    "inner/d.txt",
    "inner/../c.txt",
    "inner/..",
    "..",
    "../out/secret",
    "nowhere",
    "*.txt",
    "sub/*",
    "{a,b}.txt",
    "./a.txt",
    "sub/../a.txt",
    "link/../p/a.txt",
    ".git/config",
    "hooks/x",
    "\"$f\"",
    "$f",
];

/// Commands that read or change files, but leave folders and links where they are. `P` is replaced by a path.
const PLAIN: [&str; 27] = [
    "cat P",
    "cat P P",
    "head -n 1 P",
    "wc -l P",
    "grep -r @ P",
    "grep @ P",
    "sort P",
    "ls P",
    "sed -n 1p P",
    "find P -type f",
    "diff P P",
    "awk '{print}' P",
    "cut -c1-90 P",
    "cat < P",
    "cd P",
    "touch P",
    "echo x > P",
    "echo x >> P",
    "tee P < P",
    "echo x | tee -a P",
    "sed -i s/x/y/ P",
    "sort -o P P",
    "truncate -s 0 P",
    "chmod 600 P",
    "mkdir -p P",
    "mkdir P",
    "dd if=P of=P",
];

/// Commands that move folders and links, after which a path may mean another file.
const MOVING: [&str; 10] = [
    "rm P",
    "rm -r P",
    "rm -rf P",
    "mv P P",
    "cp P P",
    "cp -r P P",
    "ln -s P P",
    "rmdir P",
    "find P -name '*.txt' -delete",
    "ln P P",
];

/// Compositions of commands. `A` and `B` are replaced by commands.
const SHAPES: [&str; 19] = [
    "A; B",
    "A && B",
    "A || B",
    "A | B",
    "A & B\nwait",
    "(A); B",
    "(A; B)",
    "{ A; B; }",
    "for f in P P; do A; done",
    "for f in a.txt *.txt; do A; B; done",
    "f=P; A; B",
    "if A; then B; fi",
    "cd P && A",
    "cd P; A; B",
    "(cd P && A); B",
    "cd sub && A",
    "A > P",
    "cat <<E\n$(A)\nE\nB",
    "! A; B",
];

struct DifferentialTree {
    /// The topmost folder, whose whole state is compared.
    above: PathBuf,
    _folder: tempfile::TempDir,
    root: PathBuf,
    workspace: Workspace,
}

impl DifferentialTree {
    /// Creates the tree. Each file holds its own name between `@`, so that shown content tells where it came from.
    fn new(top: &Path) -> Self {
        let folder = tempfile::tempdir_in(top).unwrap();
        let above = folder.path().to_owned();
        for name in [
            "p/a.txt",
            "p/b.txt",
            "p/sub/c.txt",
            "p/sub/deep/d.txt",
            "p/.git/config",
            "p/.git/hooks/h",
            "out/secret",
        ] {
            let path = above.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("@{name}@\n")).unwrap();
        }
        let root = above.join("p");
        for (link, target) in [
            ("link", "../out"),
            ("inner", "sub/deep"),
            ("nowhere", "../out/new"),
            ("hooks", ".git/hooks"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        Self {
            above: top.to_owned(),
            _folder: folder,
            workspace: Workspace::new(root.clone()),
            root,
        }
    }

    /// Returns the mode and the content or target of every path.
    fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut state = BTreeMap::new();
        let mut folders = vec![self.above.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let content = if metadata.is_symlink() {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                } else if metadata.is_dir() {
                    folders.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).unwrap()
                };
                state.insert(path, (metadata.permissions().mode(), content));
            }
        }
        state
    }

    #[expect(clippy::disallowed_methods, reason = "the judge is the shell itself")]
    fn run(&self, shell: &str, line: &str) -> String {
        let output = Command::new(shell)
            .args(["-c", line])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.parent().unwrap())
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

/// Returns whether a plan covers an access to a path.
fn is_planned(command: &SimpleCommand, path: &Path, access: Access) -> bool {
    let touched = command.touches.iter().any(|touch| {
        let is_there = path == touch.path
            || touch.depth == TouchDepth::Below && path.starts_with(&touch.path)
            // Parent folders are created with it.
            || access == Access::Write && touch.path.starts_with(path);
        is_there && (touch.access == access || access == Access::Read)
    });
    let redirected = command
        .redirects
        .iter()
        .any(|redirect| redirect.path.as_deref() == Some(path) && redirect.access == access);
    touched || redirected
}

/// Compares what a shell did with the plan. Returns false if the plan does not claim to know.
fn check(line: &str, shell: &str, is_moving: bool, top: &Path) -> Result<bool, TestCaseError> {
    let tree = DifferentialTree::new(top);
    let plan: CommandLine = plan_command_line(line, &tree.root, &tree.workspace, None);
    let CommandMeaning::Commands(commands) = &plan.meaning else { return Ok(false) };
    let is_hidden = |command: &SimpleCommand| {
        command.side_effects == SideEffects::Hidden
            || command.redirects.iter().any(|it| it.path.is_none() && !it.is_device())
    };
    if commands.iter().any(is_hidden) || shell != "bash" && needs_bash(line) {
        return Ok(false);
    }
    let before = tree.state();
    let output = tree.run(shell, line);
    let after = tree.state();
    let paths = before.keys().chain(after.keys());
    let changed: Vec<&PathBuf> =
        paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    if plan.only_reads() {
        prop_assert!(changed.is_empty(), "{shell}: {line:?} changed {changed:?}: {plan:?}");
    }
    if !is_moving {
        for path in changed {
            let is_known = commands.iter().any(|it| is_planned(it, path, Access::Write));
            prop_assert!(is_known, "{shell}: {line:?} changed {path:?}: {plan:?}");
        }
        let above = tree.root.parent().unwrap();
        for name in output.split('@').skip(1).step_by(2) {
            let path = above.join(name);
            if before.contains_key(&path) {
                let is_known = commands.iter().any(|it| is_planned(it, &path, Access::Read));
                prop_assert!(is_known, "{shell}: {line:?} showed {path:?}: {plan:?}");
            }
        }
    }
    Ok(true)
}

/// Replaces each `P` with a path.
fn filled(text: &str, paths: &[&str]) -> String {
    let mut pieces = text.split(' ');
    let mut paths = paths.iter();
    let mut filled = String::new();
    for piece in pieces.by_ref() {
        if !filled.is_empty() {
            filled.push(' ');
        }
        let bare = piece.trim_end_matches([';', ')']);
        match bare.strip_suffix('P').filter(|rest| rest.is_empty() || rest.ends_with('=')) {
            Some(start) => {
                let end = &piece[bare.len()..];
                filled.push_str(start);
                filled.push_str(paths.next().copied().unwrap_or("a.txt"));
                filled.push_str(end);
            }
            None => filled.push_str(piece),
        }
    }
    filled
}

fn command(kinds: &'static [&'static str]) -> impl Strategy<Value = String> {
    (select(kinds), prop::collection::vec(select(&PATHS[..]), 2))
        .prop_map(|(text, paths)| filled(text, &paths))
}

fn line() -> impl Strategy<Value = (String, bool)> {
    let plain = command(&PLAIN).prop_map(|text| (text, false));
    let alone = command(&MOVING).prop_map(|text| (text, false));
    let mixed = prop_oneof![3 => command(&PLAIN), 1 => command(&MOVING)];
    let moving = composed(mixed).prop_map(|text| (text, true));
    let composite = composed(command(&PLAIN)).prop_map(|text| (text, false));
    prop_oneof![1 => plain, 2 => alone, 5 => composite, 2 => moving]
}

fn composed(simple: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    simple.prop_recursive(2, 4, 2, |inner| {
        let paths = prop::collection::vec(select(&PATHS[..]), 2);
        (select(&SHAPES[..]), paths, inner.clone(), inner).prop_map(
            |(shape, paths, left, right)| {
                let filled = filled(shape, &paths);
                let mut text = String::new();
                for char in filled.chars() {
                    match char {
                        'A' => text.push_str(&left),
                        'B' => text.push_str(&right),
                        _ => text.push(char),
                    }
                }
                text
            },
        )
    })
}

#[test]
fn what_real_shells_touch_was_planned() {
    let default = Config::default().cases;
    // `PROPTEST_CASES` sets a larger number.
    let cases = if default == 256 { 60 } else { default };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let has_dash = ["/bin/dash", "/usr/bin/dash"].iter().any(|path| Path::new(path).exists());
    let shells = if has_dash { &["bash", "dash"][..] } else { &["bash"][..] };
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap().join("d/".repeat(FOLDERS_ABOVE));
    fs::create_dir_all(&top).unwrap();
    let understood = Cell::new(0);
    let result = runner.run(&line(), |(line, is_moving)| {
        for shell in shells {
            understood.set(understood.get() + u32::from(check(&line, shell, is_moving, &top)?));
        }
        Ok(())
    });
    assert_eq!(result.map_err(|error| error.to_string()), Ok(()));
    assert!(understood.get() > cases / 4, "only {} lines were understood", understood.get());
}
