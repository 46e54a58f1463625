//! The files of the workspace.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::source::Source;

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the path, relative to the workspace, and the text of every text file, sorted by path.
pub(crate) fn texts() -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &skipped_folders(&root), &mut paths);
    paths.sort();
    let named = paths.into_iter().filter_map(|path| {
        // Skips files that are not text or that an editor has just replaced.
        let text = fs::read_to_string(&path).ok()?;
        Some((path.strip_prefix(&root).unwrap().to_str()?.to_owned(), text))
    });
    named.collect()
}

/// Returns every Rust file of the crates.
pub(crate) fn sources() -> Vec<Source> {
    let rust = texts().into_iter().filter(|(path, _)| {
        path.starts_with("crates/") && Path::new(path).extension().is_some_and(|kind| kind == "rs")
    });
    rust.map(|(path, text)| Source::new(path, text)).collect()
}

/// Returns every Rust file below `src` of a crate, without separate test files.
pub(crate) fn shipped_sources() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|source| {
        let parts: Vec<&str> = source.path.split('/').collect();
        parts.contains(&"src") && !parts.contains(&"tests") && !parts.contains(&"tests.rs")
    });
    sources
}

/// Returns the names of the folders to skip: those that git ignores, and `.git`.
fn skipped_folders(root: &Path) -> Vec<String> {
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap();
    let folders = ignored.lines().filter_map(|line| line.strip_suffix('/'));
    folders.chain([".git"]).map(str::to_owned).collect()
}

fn collect(folder: &Path, skipped: &[String], paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_file() {
            paths.push(entry.path());
        } else if kind.is_dir() && !skipped.iter().any(|name| entry.file_name() == name.as_str()) {
            collect(&entry.path(), skipped, paths);
        }
    }
}
