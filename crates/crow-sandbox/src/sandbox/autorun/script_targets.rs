//! The files of the workspace that a protected script starts first: `./tools/check.sh` of a hook, what an `.envrc` sources,
//! an `entry` of pre-commit, the path of yarn.
//!
//! Only what stands where a command stands, or behind an interpreter, is taken: a hook that reads `package.json` does not
//! make that a program. And only the first step is followed: what such a file starts in turn is code like all other.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::inventory::{InventoryBuilder, InventoryRole};

/// Folders of hooks that lie in the workspace itself.
const HOOK_FOLDERS: &[&str] = &[".husky", ".githooks"];
/// Files with command lines, beside hooks.
const SCRIPTS: &[&str] = &[".envrc", ".pre-commit-config.yaml", ".yarnrc.yml", ".huskyrc"];
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
    "path:",
    "yarnPath:",
];
/// Programs that run the file which is their first argument.
const RUNNERS: &[&str] = &[
    ".",
    "source",
    "source_env",
    "source_env_if_exists",
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
    let mut found = BTreeSet::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    for command in lines.flat_map(|line| line.split([';', '&', '|', '(', ')', '`', '{', '}'])) {
        let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', ',']));
        let mut words = words.filter(|word| !word.is_empty());
        let is_before = |word: &&str| BEFORE.contains(word) || word.contains('=');
        let Some(first) = words.find(|word| !is_before(word)) else { continue };
        let name = first.rsplit('/').next().unwrap_or(first);
        let started = if RUNNERS.contains(&name) {
            words.find(|word| !word.starts_with('-') && *word != "run")
        } else {
            // A bare name is looked for in `PATH`, but for an entry of pre-commit that is a script.
            (first.contains('/') || command.contains("entry:")).then_some(first)
        };
        found.extend(started.and_then(path_of));
    }
    found
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
        ] {
            let words = started_words(text);
            let missing: Vec<_> = expected.iter().filter(|word| !words.contains(**word)).collect();
            assert!(missing.is_empty(), "{text}: {words:?}");
            assert!(!expected.is_empty() || words.is_empty(), "{text}: {words:?}");
        }
    }
}
