//! The files of the workspace that a protected script starts first: `./tools/check.sh` of a hook, what an `.envrc` sources,
//! an `entry` of pre-commit, the path of yarn.
//!
//! Only what stands where a command stands, or behind an interpreter, is taken: a hook that reads `package.json` does not
//! make that a program. And only the first step is followed: what such a file starts in turn is code like all other. Folders
//! and patterns (`for f in hooks.d/*`) are not followed: a hook that checks each of `src/*` would hold all sources.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    command_words::{is_python, module_files},
    inventory::{InventoryBuilder, InventoryRole},
};

/// Folders of hooks that lie in the workspace itself.
const HOOK_FOLDERS: &[&str] = &[".husky", ".githooks"];
/// Files with command lines, beside hooks.
const SCRIPTS: &[&str] =
    &[".envrc", ".pre-commit-config.yaml", ".yarnrc.yml", ".yarnrc", ".huskyrc"];
/// Folders of packages, which installations write anew: `source .venv/bin/activate`.
const PACKAGES: &[&str] = &["node_modules", "target", "venv", ".venv", ".direnv"];
/// What stands before a command without being one, the keys of files of settings included.
const BEFORE: &[&str] = &[
    "!",
    "-",
    "exec",
    "command",
    "builtin",
    "sudo",
    "time",
    "env",
    "nohup",
    "if",
    "then",
    "else",
    "elif",
    "while",
    "until",
    "do",
    "eval",
    "npx",
    "run",
    "run:",
    "entry:",
    "args:",
    "path:",
    "rc:",
    "lefthook:",
    "yarnPath:",
    "yarn-path",
];
/// Interpreters of hooks whose text is no shell's: what they start stands between quotes.
const CODE: &[&str] = &["python", "node", "deno", "bun", "perl", "ruby", "php"];
/// The most words of one script.
const MOST_WORDS: usize = 1000;
/// Programs that run the file which is their first argument.
const RUNNERS: &[&str] = &[
    ".",
    "source",
    "source_env",
    "source_env_if_exists",
    "expand_path",
    "find_up",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "node",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "ruby",
    "perl",
    "php",
    "uv",
    "python",
    "python2",
    "python3",
];

impl InventoryBuilder<'_> {
    /// Adds what the scripts start that were found. It comes last: it looks at all the others.
    pub(super) fn script_targets(&mut self) {
        let mut scripts: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
        for (path, entry) in &self.inventory.entries {
            if entry.role != InventoryRole::GitHook && !self.is_script(path) {
                continue;
            }
            // What the kernel seals was not looked into.
            let names = if entry.is_shallow { self.view.names_in(path) } else { [].into() };
            let inner = names.iter().map(|name| path.join(name.as_os_str()));
            let is_example = |path: &PathBuf| path.extension().is_some_and(|end| end == "sample");
            let found = inner.chain([path.clone()]).filter(|path| !is_example(path));
            scripts.extend(found.map(|path| (path, entry.entrance.clone())));
        }
        for (path, entrance) in scripts {
            let state = self.look(&path);
            let Some(bytes) = state.bytes() else { continue };
            let words = started_words(&String::from_utf8_lossy(bytes));
            let worktree = entrance.as_deref().and_then(Path::parent).map(Path::to_owned);
            let root = self.scope.roots.iter().find(|root| path.starts_with(root)).cloned();
            let folders = worktree.or(root).into_iter().chain(path.parent().map(Path::to_owned));
            for folder in folders {
                for word in &words {
                    self.program(&folder.join(word), entrance.as_deref());
                }
            }
        }
    }

    fn is_script(&self, path: &Path) -> bool {
        let root = self.scope.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        root.is_some_and(|below| {
            let name = below.file_name().unwrap_or_default();
            let lefthook = name
                .to_str()
                .is_some_and(|name| name.trim_start_matches('.').starts_with("lefthook"));
            lefthook
                || SCRIPTS.iter().any(|known| name == *known)
                || HOOK_FOLDERS.iter().any(|folder| below.starts_with(folder))
        })
    }
}

/// Returns the words of a script that stand where a file is started from, as paths from a folder.
fn started_words(text: &str) -> BTreeSet<String> {
    let mut started = BTreeSet::new();
    let mut folders = BTreeSet::new();
    // The program that reads the script may be a file of the project itself.
    let first_line = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let ends = [';', '&', '|', '(', ')', '`', '{', '}', '[', ']'];
    for command in first_line.into_iter().chain(lines).flat_map(|line| line.split(ends)) {
        let words: Vec<&str> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'', ',']))
            .filter(|word| !word.is_empty())
            .collect();
        let is_before = |word: &str| {
            let name = if word.starts_with('/') { name_of(word) } else { word };
            BEFORE.contains(&name) || word.contains('=')
        };
        let mut rest = words.iter().copied().skip_while(|word| is_before(word) || *word == "-S");
        let Some(first) = rest.next() else { continue };
        let name = name_of(first);
        if name == "cd" || name == "pushd" {
            folders.extend(rest.find(|word| !word.starts_with('-')).and_then(path_of));
        } else if name == "make" || name == "gmake" {
            let file = rest.skip_while(|word| !["-f", "--file"].contains(word)).nth(1);
            started.extend(file.and_then(path_of));
        } else if RUNNERS.contains(&name) {
            let rest: Vec<&str> = rest.filter(|word| *word != "run").collect();
            let module = rest.iter().skip_while(|word| **word != "-m").nth(1);
            if is_python(name)
                && let Some(module) = module
            {
                started.extend(module_files(module));
            }
            let file = rest.into_iter().find(|word| !word.starts_with('-'));
            if let Some(path) = file.and_then(path_of) {
                started.extend(files_of(name, &path));
                started.insert(path);
            }
        } else if first.contains('/') || ["entry:", "args:"].iter().any(|key| command.contains(key))
        {
            // A bare name is looked for in `PATH`, but for an entry of pre-commit that is a script.
            started.extend(path_of(first));
        }
    }
    if first_line.is_some_and(|line| CODE.iter().any(|program| line.contains(program))) {
        started.extend(literals(text).filter(|word| word.contains('/')).filter_map(path_of));
    }
    // A script that goes somewhere starts what is there.
    let inner = folders.iter().flat_map(|folder| {
        started.iter().map(move |word| format!("{}/{word}", folder.trim_end_matches('/')))
    });
    let inner: Vec<String> = inner.collect();
    started.extend(inner);
    started.into_iter().take(MOST_WORDS).collect()
}

/// Returns the name of a program without the folder that it is in.
fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the files that an interpreter takes for a path that is a folder, or lacks its ending.
fn files_of(interpreter: &str, path: &str) -> Vec<String> {
    let endings: &[&str] = match interpreter {
        "node" | "deno" | "bun" | "tsx" | "ts-node" => {
            &[".js", ".cjs", ".mjs", ".ts", ".json", "/index.js", "/index.ts", "/package.json"]
        }
        _ if is_python(interpreter) => &["/__main__.py"],
        _ => &[],
    };
    endings.iter().map(|ending| format!("{path}{ending}")).collect()
}

/// Returns what stands between quotes on one line.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        ['"', '\''].into_iter().flat_map(move |quote| line.split(quote).skip(1).step_by(2))
    })
}

/// Returns the path that a word names from a folder: without the variable or the blank that a shell's expansion left.
fn path_of(word: &str) -> Option<String> {
    let path = match word.strip_prefix('$') {
        Some(rest) => rest.split_once('/')?.1,
        None => word,
    };
    let path = path.trim_start_matches('/');
    let is_of_packages = path.split('/').any(|part| PACKAGES.contains(&part));
    (!path.is_empty() && !is_of_packages).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_place_of_a_command_is_started() {
        for (text, expected) in [
            ("#!/bin/sh\nexec ./tools/check.sh \"$@\"", &["./tools/check.sh"][..]),
            ("npm test && node scripts/lint.js --fix", &["scripts/lint.js"]),
            ("source \"tools/env.sh\"\nexport A=b/c", &["tools/env.sh"]),
            ("\"$(git rev-parse --show-toplevel)/tools/x.sh\" a/b", &["tools/x.sh"]),
            (". \"$(dirname -- \"$0\")/_/husky.sh\"", &["_/husky.sh"]),
            ("A=b $PWD/tools/x.sh", &["tools/x.sh"]),
            ("if ! \"$PWD/tools/x.sh\"; then exit 1; fi", &["tools/x.sh"]),
            ("- id: x\n  entry: lint.sh --all\n  files: src/main.rs", &["lint.sh"]),
            ("    run: python3 -B tools/lint.py {staged_files}", &["tools/lint.py"]),
            ("yarnPath: .yarn/releases/yarn-4.cjs", &[".yarn/releases/yarn-4.cjs"]),
            ("cat package.json | grep a/b; source .venv/bin/activate", &[]),
            ("# ./tools/x.sh", &[]),
            ("#!scripts/run", &["scripts/run"]),
            ("#!/usr/bin/env -S ./scripts/run -x", &["./scripts/run"]),
            ("#!/usr/bin/env -S sh scripts/run", &["scripts/run"]),
            ("cd scripts && ./run", &["scripts/./run"]),
            ("cd \"$PWD/scripts\"\n./run", &["scripts/./run"]),
            ("python3 scripts", &["scripts/__main__.py"]),
            ("python3 -m scripts.lint", &["scripts/lint.py", "scripts/lint/__main__.py"]),
            ("node scripts/lint", &["scripts/lint.js", "scripts/lint/index.js"]),
            ("make -f scripts/lint.mk all", &["scripts/lint.mk"]),
            ("#!/usr/bin/python3\nsubprocess.run([\"scripts/run\"])", &["scripts/run"]),
            ("#!/usr/bin/perl\nrequire './scripts/l.pl';", &["./scripts/l.pl"]),
            ("source \"$(expand_path tools/e)\"", &["tools/e"]),
            ("source \"$(find_up e.sh)\"", &["e.sh"]),
            ("rc: ./cfg/rc\nlefthook: ./bin/lh", &["./cfg/rc", "./bin/lh"]),
            ("  entry: python3\n  args: [scripts/x.py]", &["scripts/x.py"]),
            ("yarn-path \"tools/y.js\"", &["tools/y.js"]),
        ] {
            let words = started_words(text);
            let missing: Vec<_> = expected.iter().filter(|word| !words.contains(**word)).collect();
            assert!(missing.is_empty(), "{text}: {words:?}");
            assert!(!expected.is_empty() || words.is_empty(), "{text}: {words:?}");
        }
    }
}
