//! Queries of a program's version.

use crow_core::tool::SideEffects;

use super::{arguments::Argument, line_effects::CommandEffects};

/// Programs that print their version without looking at the project.
const PLAIN: [&str; 24] = [
    "awk", "bash", "cc", "clang", "clang++", "cmake", "curl", "dash", "file", "find", "g++", "gcc",
    "git", "grep", "jq", "make", "ninja", "rg", "sed", "ssh", "tar", "tree", "wget", "zsh",
];

/// Programs that a file of the project may replace first: a toolchain file, a version file, a wrapper.
const HELD: [&str; 45] = [
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
    "pytest",
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

/// Returns the effects of a program that only prints its version; `None` if it does anything else.
pub(super) fn version(name: &str, arguments: &[Argument]) -> Option<CommandEffects> {
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
    let extent = match name {
        _ if !asks => return None,
        name if PLAIN.contains(&name) => SideEffects::Reads,
        name if HELD.contains(&name) => SideEffects::SandboxedReads,
        _ => return None,
    };
    Some(CommandEffects { touches: Vec::new(), extent, unlisted: Vec::new() })
}
