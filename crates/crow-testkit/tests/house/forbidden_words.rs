//! Checks of forbidden words: `unsafe`, and lints that are silenced without a reason.

use crate::{source::words, tree};

/// Files that may contain the keyword `unsafe`.
const UNSAFE_ALLOWED: &[&str] = &["crates/crow-sandbox/src/sandbox/linux/child.rs"];

#[test]
fn no_source_is_unsafe() {
    let mut wrong = Vec::new();
    for source in tree::sources() {
        if UNSAFE_ALLOWED.contains(&source.path.as_str()) {
            continue;
        }
        wrong.extend(
            source.words().filter(|(_, word)| *word == "unsafe").map(|(at, _)| source.location(at)),
        );
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_lint_is_expected_with_a_reason_and_never_allowed() {
    let mut wrong = Vec::new();
    for source in tree::sources() {
        for range in source.attributes() {
            let place = source.location(range.start);
            let code = source.code.get(range.clone()).unwrap();
            let names: Vec<&str> = words(code).map(|(_, word)| word).collect();
            if names.contains(&"allow") {
                wrong.push(format!("{place}: allow"));
            }
            let silent = source.text.get(range).unwrap().contains("reason = \"\"");
            if names.contains(&"expect") && (silent || !names.contains(&"reason")) {
                wrong.push(format!("{place}: expect without a reason"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}
