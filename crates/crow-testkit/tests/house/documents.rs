//! Checks of the documents: the paths and links in them exist.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use crate::{source::words, tree};

/// Words of each file, by the Rust name of its crate.
type Known = HashMap<String, Vec<HashSet<String>>>;

/// A path such as `crow_core::event::AgentEvent` in backticks must exist in its crate. An item that does not exist yet
/// is written without its crate.
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

/// Readers of `docs/seeds.md` must be able to use the paths in it.
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
        // The last part is a function, not a module.
        let modules = parts.iter().take(parts.len().saturating_sub(1)).take_while(is_module);
        for module in modules {
            if !public.contains(&((*crate_name).to_owned(), (*module).to_owned())) {
                private.push(format!("{path}:{line}: {token}"));
            }
        }
    }
    assert_eq!(private, [""; 0]);
}

/// Returns true if the crate has the modules of the path, and one file that contains both its type and the members.
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

/// Returns the texts in backticks in the documents, with file and line.
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

/// Links to files of the workspace have existing targets, and the book's summary lists all its pages.
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
            let file_path = tree::root().join(folder).join(file);
            if !file_path.exists() {
                broken.push(format!("{path}: {target}"));
            } else if path.ends_with("SUMMARY.md") {
                listed.insert(folder.join(file).to_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert_eq!(listed, pages);
}
