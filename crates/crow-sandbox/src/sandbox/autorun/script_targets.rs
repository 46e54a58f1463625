//! Finds the files of the workspace that a protected script starts directly: `./tools/check.sh` of a hook,
//! what an `.envrc` sources, an `entry` of pre-commit, the path of yarn.
//!
//! Words in the position of a command, or behind an interpreter, count even if the file does not exist yet.
//! The script that an interpreter is given counts whatever its name ends in.
//! All other words count if they name an existing file that looks like a program: a hook that reads
//! `package.json` does not make that one. Only the first step is followed: what such a file starts in turn
//! is ordinary code. Patterns (`for f in hooks.d/*`) are not followed: a hook that checks each of `src/*`
//! would protect all sources.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use crow_core::workspace::path_from_above;

use super::{
    command_words::{BoundedWords, MOST_WORDS, is_python, module_files},
    entry_state::EntryState,
    git_settings::is_of_packages,
    inventory::{InventoryBuilder, InventoryRole, InventoryScope},
    inventory_walk::InventoryWalk,
};

/// Hook folders within the workspace.
const HOOK_FOLDERS: &[&str] = &[".husky", ".githooks"];
/// Files with command lines, apart from hooks.
const SCRIPTS: &[&str] =
    &[".envrc", ".pre-commit-config.yaml", ".yarnrc.yml", ".yarnrc", ".huskyrc"];
/// Words that may precede a command, including keys of settings files.
const COMMAND_PREFIXES: &[&str] = &[
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
/// Interpreters of hooks that are not shell scripts: the programs they start are in quotes.
const CODE_INTERPRETERS: &[&str] = &["python", "node", "deno", "bun", "perl", "ruby", "php"];
/// Extensions of files that nothing runs.
const DATA_EXTENSIONS: &[&str] = &[".json", ".lock", ".md", ".toml", ".txt", ".yaml", ".yml"];
/// Programs that run the code that they read from their standard input.
const SHELLS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "fish", "node", "python3", "perl", "ruby"];
/// Programs that run the file given as their first argument.
const RUNNERS: &[&str] = &[
    ".",
    "source",
    "source_env",
    "source_env_if_exists",
    "dotenv",
    "dotenv_if_exists",
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

impl InventoryWalk<'_> {
    /// Adds the files that the scripts in the inventory start. Must run last, since it examines all other
    /// entries.
    pub(super) fn script_targets(&mut self) {
        let mut scripts: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
        for (path, entry) in &self.paths.inventory.entries {
            if entry.role != InventoryRole::GitHook && !is_script(self.paths.scope, path) {
                continue;
            }
            // The contents of a sealed directory were not read before.
            let names = if entry.is_shallow { self.paths.view.names_in(path) } else { [].into() };
            let inner = names.iter().map(|name| path.join(name.as_os_str()));
            let is_example = |path: &PathBuf| path.extension().is_some_and(|end| end == "sample");
            let found = inner.chain([path.clone()]).filter(|path| !is_example(path));
            scripts.extend(found.map(|path| (path, entry.entrance.clone())));
        }
        for (path, entrance) in scripts {
            let state = self.state_at(&path);
            let worktree = entrance.as_deref().and_then(Path::parent).map(Path::to_owned);
            let root = self.paths.scope.roots.iter().find(|root| path.starts_with(root)).cloned();
            let worktree = worktree.or(root);
            let Some(bytes) = state.bytes().filter(|bytes| self.text_room.take(bytes.len())) else {
                // A script that is too long to be read may start anything.
                if let (EntryState::File { .. }, Some(worktree)) = (&state, &worktree) {
                    self.all_programs(worktree, entrance.as_deref());
                }
                continue;
            };
            let text = String::from_utf8_lossy(bytes).into_owned();
            let words = started_words(&text);
            if let Some(worktree) = &worktree {
                if words.is_cut() {
                    self.all_programs(worktree, entrance.as_deref());
                }
                self.programs_of_script(&text, worktree, entrance.as_deref());
            }
            if let Some(worktree) = &worktree {
                // A script may change to a folder above the working tree.
                for below in words.iter().filter_map(|word| path_from_above(worktree, word)) {
                    self.program(&worktree.join(below), entrance.as_deref());
                }
            }
            if path.file_name().is_some_and(|name| name == ".envrc") && uses_nix(&text) {
                for script in nix_environments(&self.paths, &path.with_file_name(".direnv")) {
                    self.program(&script, entrance.as_deref());
                }
            }
            let folders = worktree.into_iter().chain(path.parent().map(Path::to_owned));
            for folder in folders {
                for word in &words {
                    self.program(&folder.join(word), entrance.as_deref());
                }
            }
        }
    }
}

/// Returns the scripts in which nix-direnv keeps environments: it sources them while their sources are older.
fn nix_environments(paths: &InventoryBuilder<'_>, folder: &Path) -> Vec<PathBuf> {
    let is_environment = |path: &PathBuf| path.extension().is_some_and(|end| end == "rc");
    let names = paths.view.names_in(folder);
    let existing = names.iter().map(|name| folder.join(name.as_os_str()));
    let planned = paths.planned_writes().iter().filter(|path| path.starts_with(folder));
    let environments = existing.chain(planned.cloned()).filter(is_environment);
    environments.chain([folder.join("bin/nix-direnv-reload")]).collect()
}

/// Returns true if an `.envrc` loads an environment of Nix.
fn uses_nix(text: &str) -> bool {
    text.lines().any(|line| {
        let mut words = line.split([' ', '\t', ';', '&']).filter(|word| !word.is_empty());
        match words.next() {
            Some("use") => matches!(words.next(), Some("flake" | "nix")),
            Some(word) => matches!(word, "use_flake" | "use_nix"),
            None => false,
        }
    })
}

/// Returns true if a file of the workspace holds command lines by its name.
fn is_script(scope: &InventoryScope, path: &Path) -> bool {
    let root = scope.roots.iter().find_map(|root| path.strip_prefix(root).ok());
    root.is_some_and(|below| {
        let name = below.file_name().unwrap_or_default();
        let lefthook =
            name.to_str().is_some_and(|name| name.trim_start_matches('.').starts_with("lefthook"));
        lefthook
            || SCRIPTS.iter().any(|known| name == *known)
            || HOOK_FOLDERS.iter().any(|folder| below.starts_with(folder))
    })
}

/// Returns the words of a script in positions where files are started, as relative paths.
pub(super) fn started_words(text: &str) -> BoundedWords {
    let mut started = BoundedWords::default();
    let mut folders = BoundedWords::default();
    let mut known = HashSet::new();
    // The interpreter of the script may be a file of the project itself.
    let first_line = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ends = ['|', '(', ')', '`', '{', '}', '[', ']'];
    let commands = first_line
        .into_iter()
        .chain(lines)
        .flat_map(|line| line.split([';', '&']))
        .filter(|part| !part.is_empty())
        .flat_map(|part| {
            let runs_output = runs_output(part);
            part.split(ends).map(move |command| (command, runs_output))
        });
    for (command, runs_output) in commands {
        if command.trim().is_empty() || !known.insert((command, runs_output)) {
            continue;
        }
        if known.len() > MOST_WORDS {
            started.cut();
        }
        if started.is_cut() {
            return started;
        }
        let words: Vec<&str> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'', ',']))
            .filter(|word| !word.is_empty())
            .collect();
        // Skip keywords, wrappers and assignments before the command itself.
        let is_before = |word: &str| {
            let name = if word.starts_with('/') { name_of(word) } else { word };
            COMMAND_PREFIXES.contains(&name) || word.contains('=')
        };
        let mut rest = words.iter().copied().skip_while(|word| is_before(word) || *word == "-S");
        let Some(first) = rest.next() else { continue };
        let name = name_of(first);
        // The command decides which of its arguments is a file that it starts.
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
            let file = rest
                .into_iter()
                .map(|word| word.trim_start_matches('<'))
                .find(|word| !word.is_empty() && !word.starts_with('-'));
            // Without a name, direnv loads the `.env` beside the script. Programs of that name have options.
            let is_dotenv = name.starts_with("dotenv");
            if is_dotenv && words.iter().any(|word| word.starts_with('-')) {
                continue;
            }
            let file = file.or_else(|| is_dotenv.then_some(".env"));
            // It is run whatever its name ends in.
            if let Some(path) = file.and_then(path_without_expansion) {
                started.extend(files_of(name, &path));
                started.extend([path]);
            }
        } else if name == "cat" && runs_output {
            started.extend(rest.filter_map(path_without_expansion));
        } else if first.contains('/') || ["entry:", "args:"].iter().any(|key| command.contains(key))
        {
            // A bare name is looked up in `PATH`, except for an entry of pre-commit, where it is a script.
            started.extend(path_of(first));
        }
    }
    // In other languages than shell, every quoted path counts.
    if first_line.is_some_and(|line| CODE_INTERPRETERS.iter().any(|program| line.contains(program)))
    {
        started.extend(literals(text).filter(|word| word.contains('/')).filter_map(path_of));
    }
    // After changing into a folder, a script starts files there.
    let names: Vec<String> = started.iter().cloned().collect();
    for folder in &folders {
        let folder = folder.trim_end_matches('/');
        started.extend(names.iter().map(|name| format!("{folder}/{name}")));
        if started.is_cut() {
            break;
        }
    }
    // Without all folders the words are not all either.
    if folders.is_cut() {
        started.merge(&folders);
    }
    started
}

/// Returns true if a pipeline runs what its commands print: `cat x | sh`, `eval "$(cat x)"`.
fn runs_output(pipeline: &str) -> bool {
    let runs = |part: &str| {
        let first = part.split_whitespace().next().unwrap_or_default();
        SHELLS.contains(&name_of(first))
    };
    pipeline.split('|').skip(1).any(runs) || pipeline.split_whitespace().any(|word| word == "eval")
}

/// Returns the name of a program without its folder.
fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the files that an interpreter loads for a path that is a folder, or lacks its extension.
fn files_of(interpreter: &str, path: &str) -> Vec<String> {
    let endings: &[&str] = match interpreter {
        "node" | "deno" | "bun" | "tsx" | "ts-node" => {
            &[".js", ".cjs", ".mjs", ".ts", ".json", "/index.js", "/index.ts", "/package.json"]
        }
        _ if is_python(interpreter) => &["/__main__.py"],
        // Functions of direnv.
        "source_env" | "source_env_if_exists" => &["/.envrc"],
        "dotenv" | "dotenv_if_exists" => &["/.env"],
        _ => &[],
    };
    let path = path.trim_end_matches('/');
    endings.iter().map(|ending| format!("{path}{ending}")).collect()
}

/// Returns the quoted strings of each line.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        ['"', '\''].into_iter().flat_map(move |quote| line.split(quote).skip(1).step_by(2))
    })
}

/// Returns the relative path of a word, without the variable before it or a leading slash left over from a
/// shell expansion.
///
/// Returns `None` for data: `require("./package.json")` starts no program.
fn path_of(word: &str) -> Option<String> {
    let path = path_without_expansion(word)?;
    let is_data = DATA_EXTENSIONS.iter().any(|extension| path.ends_with(extension));
    (!is_data).then_some(path)
}

/// Returns the relative path of a word, as [`path_of`] does, also of one whose name ends like that of data.
fn path_without_expansion(word: &str) -> Option<String> {
    let path = match word.strip_prefix('$') {
        Some(rest) => rest.split_once('/')?.1,
        None => word,
    };
    let path = path.trim_start_matches('/');
    (!path.is_empty() && !is_of_packages(Path::new(path))).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_the_position_of_a_command_are_started() {
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
            ("sh tools/a.txt && . ./tools/b.md", &["tools/a.txt", "./tools/b.md"]),
            ("bash < tools/a.toml", &["tools/a.toml"]),
            ("cat tools/a.yml | sh -e", &["tools/a.yml"]),
            ("eval \"$(cat tools/a.lock)\"", &["tools/a.lock"]),
            ("  entry: sh tools/a.txt", &["tools/a.txt"]),
            ("eval \"$(jq -r .env package.json)\"", &[]),
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
            let missing: Vec<_> = expected.iter().filter(|word| !words.contains(word)).collect();
            assert!(missing.is_empty(), "{text}: {words:?}");
            assert!(!expected.is_empty() || words.iter().next().is_none(), "{text}: {words:?}");
        }
    }
}
