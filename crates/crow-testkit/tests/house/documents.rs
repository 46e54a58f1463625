//! Checks of the documents: the paths, links and passages in them exist.

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
pub(crate) fn tokens() -> Vec<(String, usize, String)> {
    let mut tokens = Vec::new();
    for (path, text) in documents() {
        for (number, line) in text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            tokens.extend(quoted.map(|token| (path.clone(), number + 1, token.to_owned())));
        }
    }
    tokens
}

/// Folder of the book's pages.
const BOOK: &str = "docs/book/src";

/// Returns the Markdown files of the workspace with their texts.
fn documents() -> impl Iterator<Item = (String, String)> {
    let is_document = |path: &str| Path::new(path).extension().is_some_and(|kind| kind == "md");
    tree::texts().into_iter().filter(move |(path, _)| is_document(path))
}

/// Links to files of the workspace have existing targets, also behind a `#`, and the book's summary lists all its pages.
#[test]
fn links_between_documents_lead_somewhere() {
    let texts: HashMap<String, String> = documents().collect();
    let mut broken = Vec::new();
    let mut listed = HashSet::new();
    let mut pages = HashSet::new();
    for (path, text) in &texts {
        let folder = Path::new(path).parent().unwrap();
        if folder == Path::new(BOOK) && !path.ends_with("SUMMARY.md") {
            pages.insert(path.clone());
        }
        for target in relative_links(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { path.clone() } else { resolved(folder, file) };
            let has_anchor = |text: &String| anchor.is_empty() || anchors(text).contains(anchor);
            if !tree::root().join(&file).exists() || !texts.get(&file).is_none_or(has_anchor) {
                broken.push(format!("{path}: {target}"));
            } else if path.ends_with("SUMMARY.md") {
                listed.insert(file);
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert_eq!(listed, pages);
}

/// The book is also read without the repository. A page may include a file of the repository, whose links count, too.
#[test]
fn links_of_the_book_stay_in_the_book() {
    let mut outside = Vec::new();
    for (path, text) in documents().filter(|(path, _)| path.starts_with(BOOK)) {
        let included = text.lines().filter_map(included);
        for text in included.chain([text.clone()]) {
            let leaves = |target: &String| !resolved(Path::new(BOOK), target).starts_with(BOOK);
            outside.extend(relative_links(&text).filter(leaves).map(|to| format!("{path}: {to}")));
            let is_missing = |target: &String| {
                let file = target.split('#').next().unwrap();
                !file.is_empty() && !tree::root().join(BOOK).join(file).exists()
            };
            outside
                .extend(relative_links(&text).filter(is_missing).map(|to| format!("{path}: {to}")));
        }
    }
    assert_eq!(outside, [""; 0]);
}

/// The Rust code of the book compiles, because it is copied from files that do.
#[test]
fn passages_in_rust_are_from_files_of_the_workspace() {
    let unindented =
        |text: &str| text.lines().flat_map(|line| [line.trim(), "\n"]).collect::<String>();
    let sources: Vec<String> =
        tree::sources().iter().map(|source| unindented(&source.text)).collect();
    let mut count = 0;
    for (path, text) in documents().filter(|(path, _)| path.starts_with(BOOK)) {
        for block in text.split("\n```rust\n").skip(1) {
            let passage = unindented(block.split("\n```").next().unwrap());
            let is_known = sources.iter().any(|source| source.contains(&passage));
            assert!(is_known, "{path}: no source contains this passage:\n{passage}");
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn links_and_anchors_outside_of_code_are_found() {
    let text = "# One `two`, three!\n[a](b.md#c) `[d](e)`\n```sh\n# f\n[g](h)\n```\n<img src=\"i.svg\">\n## Four\n## Four\n[j](https://k)";
    assert_eq!(relative_links(text).collect::<Vec<_>>(), ["b.md#c", "i.svg"]);
    let expected = ["one-two-three", "four", "four-1"].map(str::to_owned);
    assert_eq!(anchors(text), HashSet::from(expected));
    assert_eq!(resolved(Path::new("a/b"), "../c/./d.md"), "a/c/d.md");
}

/// Returns the targets of the links and pictures in a document that are neither addresses nor in code.
fn relative_links(text: &str) -> impl Iterator<Item = String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        // Text in backticks is at the odd places.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (start, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')] {
            let found = line.split(start).skip(1).filter_map(|rest| rest.split(end).next());
            targets.extend(found.map(str::to_owned));
        }
    }
    targets.into_iter().filter(|target| !target.contains("://") && !target.contains(' '))
}

/// Returns the anchors of the headings as forges and mdBook make them.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let mut names = std::iter::once(anchor.clone()).chain(repeated);
        let free = names.find(|name| !anchors.contains(name)).unwrap();
        anchors.insert(free);
    }
    anchors
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the text that a line of a page includes: a file, or its part between two anchors.
fn included(line: &str) -> Option<String> {
    let target = line.strip_prefix("{{#include ")?.strip_suffix("}}")?;
    let (file, anchor) = target.split_once(':').unwrap_or((target, ""));
    let text = std::fs::read_to_string(tree::root().join(BOOK).join(file)).unwrap();
    if anchor.is_empty() {
        return Some(text);
    }
    let (_, rest) = text.split_once(&format!("<!-- ANCHOR: {anchor} -->")).unwrap();
    let (part, _) = rest.split_once(&format!("<!-- ANCHOR_END: {anchor} -->")).unwrap();
    Some(part.to_owned())
}

/// Returns a relative path in a folder without `.` and `..`.
fn resolved(folder: &Path, path: &str) -> String {
    let mut parts: Vec<&str> = folder.to_str().unwrap().split('/').collect();
    parts.retain(|part| !part.is_empty());
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}
