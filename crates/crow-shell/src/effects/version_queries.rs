//! Queries of a program's version.
//!
//! Such a query reads nothing of the project, unless a file of the project decides which program answers it. Version
//! managers put shims into `PATH` (rustup, pyenv, rbenv, asdf, mise): `rust-toolchain.toml` may name a folder of the
//! clone, whose `bin/cargo` then runs. Some programs load code of the project before they print their version: yarn
//! runs the file that `.yarnrc` names, flake8 loads plugins. Where such a file exists, the query is no read.

use std::path::Path;

use crow_core::tool::SideEffects;

use super::{arguments::Argument, command_context::CommandContext, line_effects::CommandEffects};

/// Programs of the system, for which no version manager has a shim.
const OF_THE_SYSTEM: [&str; 18] = [
    "awk", "bash", "cc", "curl", "dash", "file", "find", "g++", "gcc", "git", "grep", "make",
    "sed", "ssh", "tar", "tree", "wget", "zsh",
];

/// Programs that start nothing else to print their version. They may be shims.
const PLAIN: [&str; 6] = ["clang", "clang++", "cmake", "jq", "ninja", "rg"];

/// Programs that may start others, such as a compiler or a runtime, which a sandbox must confine. They may be shims.
/// Without pytest, which loads the `conftest.py` of any folder with tests.
const CONFINED: [&str; 44] = [
    "black",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "elixir",
    "eslint",
    "flake8",
    "gem",
    "go",
    "gofmt",
    "golangci-lint",
    "gradle",
    "helm",
    "java",
    "javac",
    "just",
    "kubectl",
    "mix",
    "mvn",
    "mypy",
    "node",
    "npm",
    "npx",
    "php",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "prettier",
    "python",
    "python3",
    "ruby",
    "ruff",
    "rustc",
    "rustfmt",
    "rustup",
    "terraform",
    "tsc",
    "uv",
    "yarn",
];

/// Files in which version managers find the version to run. They choose among the installed versions, unless they
/// contain a path.
const VERSION_FILES: [&str; 24] = [
    ".bun-version",
    ".crystal-version",
    ".deno-version",
    ".dvmrc",
    ".elixir-version",
    ".exenv-version",
    ".go-version",
    ".java-version",
    ".lua-version",
    ".node-version",
    ".nvmrc",
    ".opentofu-version",
    ".perl-version",
    ".php-version",
    ".python-version",
    ".rbenv-version",
    ".ruby-version",
    ".sdkmanrc",
    ".swift-version",
    ".terraform-version",
    ".tool-versions",
    ".zig-version",
    "rust-toolchain",
    "rust-toolchain.toml",
];

/// Settings of version managers, which can name programs, variables and folders.
const MANAGER_SETTINGS: [&str; 17] = [
    ".aqua.yaml",
    ".aqua.yml",
    ".config/mise",
    ".config/mise.local.toml",
    ".config/mise.toml",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".prototools",
    ".rtx.toml",
    ".vfox.toml",
    "aqua",
    "aqua.yaml",
    "aqua.yml",
    "mise",
    "mise.local.toml",
    "mise.toml",
];

/// Files for which single programs run code of the project before they print their version.
const LOADED_BY: [(&str, &[&str]); 11] = [
    ("bundle", &[".bundle", "Gemfile", "Gemfile.lock", "gems.locked", "gems.rb"]),
    ("composer", &["composer.json"]),
    ("dotnet", &["global.json"]),
    ("elixir", &[".erlang"]),
    ("flake8", &[".flake8", "setup.cfg", "tox.ini"]),
    ("gradle", &["gradle.properties", "gradle/gradle-daemon-jvm.properties"]),
    ("mix", &[".erlang"]),
    ("mvn", &[".mvn"]),
    ("pnpm", &[".corepack.env", "package.json"]),
    ("poetry", &[".poetry"]),
    ("yarn", &[".corepack.env", ".yarnrc", ".yarnrc.yml", "package.json"]),
];

/// The largest version file in bytes that is read.
const LARGEST_VERSION_FILE: u64 = 64 * 1024;

/// Returns the effects of a program that only prints its version; `None` if it does anything else, or if a file of the
/// project may decide what prints it.
pub(super) fn version(
    name: &str,
    arguments: &[Argument],
    context: &CommandContext<'_>,
) -> Option<CommandEffects> {
    let words: Vec<&str> = arguments.iter().map(Argument::as_known).collect::<Option<_>>()?;
    let asks = match words.as_slice() {
        ["--version"] => true,
        ["-V"] => {
            matches!(name, "cargo" | "rustc" | "python" | "python3" | "pip" | "pip3" | "ssh" | "rg")
        }
        ["-v"] => {
            matches!(name, "node" | "npm" | "pnpm" | "yarn" | "ruby" | "php" | "gcc" | "clang")
        }
        ["version"] => matches!(name, "go" | "git" | "docker" | "helm" | "terraform"),
        ["-version"] => matches!(name, "java" | "javac"),
        _ => false,
    };
    let (extent, may_be_shim) = match name {
        _ if !asks => return None,
        name if OF_THE_SYSTEM.contains(&name) => (SideEffects::Reads, false),
        name if PLAIN.contains(&name) => (SideEffects::Reads, true),
        name if CONFINED.contains(&name) => (SideEffects::SandboxedReads, true),
        _ => return None,
    };
    if may_be_shim && !is_same_everywhere(name, context)? {
        return None;
    }
    Some(CommandEffects {
        touches: Vec::new(),
        extent,
        unlisted: Vec::new(),
        may_change_read: false,
    })
}

/// Returns whether no file of the folders that a command may run in, or above them, decides which program answers to a
/// name; `None` if the folders are unknown.
pub(super) fn is_same_everywhere(name: &str, context: &CommandContext<'_>) -> Option<bool> {
    // The user's own settings are in the home directory. Without one there are none.
    let home = std::env::home_dir().unwrap_or_default();
    for folder in context.folders? {
        for above in folder.ancestors() {
            let is_of_the_user = above == home && !context.workspace.contains(above);
            if !is_of_the_user && decides_program(above, name, context)? {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// Returns whether a file of a folder decides which program answers to a name; `None` if it is too much to find out.
fn decides_program(folder: &Path, name: &str, context: &CommandContext<'_>) -> Option<bool> {
    let loaded = LOADED_BY.iter().filter(|(program, _)| *program == name);
    for file in loaded.flat_map(|(_, files)| *files).chain(&MANAGER_SETTINGS) {
        context.budget.take()?;
        let path = folder.join(file);
        let is_there = crow_fs::metadata(&path).is_ok();
        // Without this key, the package managers of `PATH` run themselves.
        let is_harmless = *file == "package.json"
            && content(&path).is_some_and(|it| !may_contain(&it, "packageManager"));
        if is_there && !is_harmless {
            return Some(true);
        }
    }
    for file in VERSION_FILES {
        context.budget.take()?;
        let path = folder.join(file);
        if crow_fs::metadata(&path).is_ok() && content(&path).is_none_or(|it| !has_no_path(&it)) {
            return Some(true);
        }
    }
    // The shims of Rye run the interpreter of the project.
    let uses_rye = || {
        let path = folder.join("pyproject.toml");
        crow_fs::metadata(&path).is_ok() && content(&path).is_none_or(|it| may_contain(&it, "rye"))
    };
    context.budget.take()?;
    Some(matches!(name, "python" | "python3") && uses_rye())
}

/// Returns whether a text of JSON or TOML may contain a key: it can be written with escapes.
fn may_contain(text: &str, key: &str) -> bool {
    [key, "\\u", "\\U", "\\x"].iter().any(|part| text.contains(part))
}

/// Returns whether a version file contains no path, so that it can only choose among installed versions.
fn has_no_path(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    // A key of TOML can be written with escapes, and mise replaces what is in braces.
    lines.into_iter().all(|line| !line.contains(['/', '\\', '{']) && !line.contains("path"))
}

/// Returns the text of a small file; `None` if it is too large or cannot be read.
fn content(path: &Path) -> Option<String> {
    String::from_utf8(crow_fs::read_bounded(path, LARGEST_VERSION_FILE).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_hold_nothing_twice() {
        let programs = LOADED_BY.map(|(program, _)| program);
        for list in
            [&OF_THE_SYSTEM[..], &PLAIN, &CONFINED, &VERSION_FILES, &MANAGER_SETTINGS, &programs]
        {
            assert!(list.is_sorted_by(|one, next| one < next), "{list:?}");
        }
        assert!(programs.iter().all(|program| CONFINED.contains(program)));
    }

    #[test]
    fn a_version_file_with_a_path_is_told_from_one_with_a_version() {
        for (text, expected) in [
            ("1.80.0\n", true),
            ("[toolchain]\nchannel = \"1.80\"\ncomponents = [\"clippy\"]\n", true),
            ("# see https://rust-lang.github.io/rustup\nstable", true),
            ("nodejs 20.1.0\npython 3.12.1 system\n", true),
            ("[toolchain]\npath = \"tc\"\n", false),
            ("[toolchain]\n\"p\\u0061th\" = \"tc\"\n", false),
            ("python path:tc\n", false),
            ("../../clone/pv\n", false),
            ("node {{ exec(command='x') }}\n", false),
        ] {
            assert_eq!(has_no_path(text), expected, "{text}");
        }
    }
}
