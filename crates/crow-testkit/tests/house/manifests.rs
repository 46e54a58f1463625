//! Checks of the manifests.

use std::fs;

use crate::{tree, workspace::packages};

/// Keys that a crate inherits from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "authors", "publish"];

#[test]
fn every_crate_says_what_it_is_in_a_sentence() {
    let silent = packages()
        .into_iter()
        .filter(|package| !package.description.as_deref().is_some_and(|text| text.ends_with('.')));
    assert_eq!(silent.map(|package| package.name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_crate_takes_its_terms_and_lints_from_the_workspace() {
    let mut wrong = Vec::new();
    for package in packages() {
        // A crate's folder has its name.
        let path = tree::root().join("crates").join(&package.name).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        for key in INHERITED {
            if !manifest.lines().any(|line| line == format!("{key}.workspace = true")) {
                wrong.push(format!("{}: {key}", package.name));
            }
        }
        if !manifest.contains("\n[lints]\nworkspace = true\n") {
            wrong.push(format!("{}: lints", package.name));
        }
    }
    assert_eq!(wrong, [""; 0]);
}
