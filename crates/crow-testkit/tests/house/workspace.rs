//! Metadata of the workspace from cargo.

use std::process::Command;

use serde::Deserialize;

use crate::tree;

/// A crate of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub description: Option<String>,
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub name: String,
    kind: Option<String>,
}

impl Dependency {
    /// Returns true if only tests, benchmarks and examples use it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Returns the crates of the workspace.
pub(crate) fn packages() -> Vec<Package> {
    let printed = cargo(&["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let metadata: Metadata = serde_json::from_str(&printed).unwrap();
    metadata.packages
}

/// Runs cargo and returns its standard output. Panics if it fails.
#[expect(clippy::disallowed_methods, reason = "the rules of the house ask cargo")]
pub(crate) fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(tree::root()).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {} failed: {problem}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}
