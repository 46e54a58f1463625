//! Documents name only what exists.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use crate::{source::words, tree};

/// The words of each file, by the name of its crate in Rust.
type Known = HashMap<String, Vec<HashSet<String>>>;

/// A path such as `crow_core::event::AgentEvent` in backticks promises that its crate has it. What is not there yet is
/// named without its crate.
#[test]
fn documents_name_only_what_exists() {
    let mut known = Known::new();
    for source in tree::sources() {
        let crate_name = source.path.split('/').nth(1).unwrap().replace('-', "_");
        let words = source.words().map(|(_, word)| word.to_owned()).collect();
        known.entry(crate_name).or_default().push(words);
    }
    let mut wrong = Vec::new();
    for (path, line, token) in tokens() {
        let is_code = token.starts_with("crow_") && token.contains("::");
        let is_file = token.starts_with("crates/") || token.starts_with("docs/");
        if is_code && !exists(&token, &known) || is_file && !tree::root().join(&token).exists() {
            wrong.push(format!("{path}:{line}: {token}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Whoever reads where a thing of the seeds is must be able to use it by that path.
#[test]
fn modules_on_paths_in_the_table_of_the_seeds_are_public() {
    let mut public: HashSet<(String, String)> = HashSet::new();
    for source in tree::sources() {
        let crate_name = source.path.split('/').nth(1).unwrap().replace('-', "_");
        let words: Vec<&str> = source.words().map(|(_, word)| word).collect();
        for next in words.windows(3) {
            if next[..2] == ["pub", "mod"] {
                public.insert((crate_name.clone(), next[2].to_owned()));
            }
        }
    }
    let mut private = Vec::new();
    for (path, line, token) in tokens() {
        if path != "docs/seeds.md" || !token.starts_with("crow_") {
            continue;
        }
        let parts: Vec<&str> = words(&token).map(|(_, word)| word).collect();
        let Some((crate_name, parts)) = parts.split_first() else { continue };
        let is_module = |part: &&&str| part.starts_with(char::is_lowercase);
        // What nothing follows is a function.
        let modules = parts.iter().take(parts.len().saturating_sub(1)).take_while(is_module);
        for module in modules {
            if !public.contains(&((*crate_name).to_owned(), (*module).to_owned())) {
                private.push(format!("{path}:{line}: {token}"));
            }
        }
    }
    assert_eq!(private, [""; 0]);
}

/// Returns whether the crate has the modules of the path, and a file that names its type and the members together.
fn exists(path: &str, known: &Known) -> bool {
    let mut parts = words(path).map(|(_, word)| word);
    let Some(files) = parts.next().and_then(|name| known.get(name)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let is_type = |part: &&str| part.starts_with(char::is_uppercase);
    let modules = parts.iter().position(is_type).unwrap_or(parts.len() - 1);
    let (modules, names) = parts.split_at(modules);
    modules.iter().all(|module| files.iter().any(|words| words.contains(*module)))
        && files.iter().any(|words| names.iter().all(|name| words.contains(*name)))
}

/// Returns what stands in backticks in the documents, with its file and line.
fn tokens() -> Vec<(String, usize, String)> {
    let mut tokens = Vec::new();
    for (path, text) in tree::texts() {
        if Path::new(&path).extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            tokens.extend(quoted.map(|token| (path.clone(), number + 1, token.to_owned())));
        }
    }
    tokens
}

/// A link to a file of the workspace, in any document, leads somewhere; and the book lists each of its pages.
#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    let mut listed = HashSet::new();
    let mut pages = HashSet::new();
    for (path, text) in tree::texts() {
        if Path::new(&path).extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let folder = Path::new(&path).parent().unwrap();
        if folder == Path::new("docs/book/src") && !path.ends_with("SUMMARY.md") {
            pages.insert(path.clone());
        }
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") || file.contains(' ') {
                continue;
            }
            let place = tree::root().join(folder).join(file);
            if !place.exists() {
                broken.push(format!("{path}: {target}"));
            } else if path.ends_with("SUMMARY.md") {
                listed.insert(folder.join(file).to_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert_eq!(listed, pages);
}
