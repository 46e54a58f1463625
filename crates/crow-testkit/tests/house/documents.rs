//! Documents name only what exists.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use crate::{source::words, tree};

/// A path such as `crow_core::event::AgentEvent` in backticks promises that all its words are in that crate. What is
/// not there yet is named without its crate.
#[test]
fn documents_name_only_what_exists() {
    let mut known: HashMap<String, HashSet<String>> = HashMap::new();
    for source in tree::sources() {
        let crate_name = source.path.split('/').nth(1).unwrap().replace('-', "_");
        let words = source.words().map(|(_, word)| word.to_owned());
        known.entry(crate_name).or_default().extend(words);
    }
    let mut wrong = Vec::new();
    for (path, line, token) in tokens() {
        if token.starts_with("crow_") && token.contains("::") {
            let mut parts = words(&token).map(|(_, word)| word);
            let crate_words = parts.next().and_then(|name| known.get(name));
            if !parts.all(|part| crate_words.is_some_and(|words| words.contains(part))) {
                wrong.push(format!("{path}:{line}: {token}"));
            }
        } else if ["crates/", "docs/"].iter().any(|folder| token.starts_with(folder))
            && !tree::root().join(&token).exists()
        {
            wrong.push(format!("{path}:{line}: {token}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
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
