//! Checks of the names of types and of their number of methods.

use std::collections::{BTreeMap, BTreeSet};

use crate::{source::Source, tree};

/// Names that were defined more than once before the rule existed. Other duplicates are refused, and a name that is now
/// defined once must be removed: the list may only get shorter.
const SHARED_NAMES: &str = include_str!("shared_names.txt");

/// Participles that the endings -ed and -ing do not cover.
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "Begun",
    "Done",
    "Found",
    "Gone",
    "Held",
    "Kept",
    "Laid",
    "Left",
    "Lost",
    "Made",
    "Ran",
    "Said",
    "Sent",
    "Shut",
    "Spent",
    "Told",
    "Understood",
    "Undone",
    "Drawn",
    "Known",
    "Shown",
];

/// Nouns that end like a participle.
const NOUNS: &[&str] = &[
    "Encoding", "Feed", "Finding", "Greeting", "Heading", "Meaning", "Need", "Pairing", "Ring",
    "Setting", "Thinking", "Token",
];

/// Maximum number of methods of a type over all its files.
const METHODS: usize = 40;

/// Types that exceed it, each with its own maximum. The numbers may only get smaller.
const LARGE_TYPES: &[(&str, &str, usize)] = &[];

#[test]
fn a_type_name_is_defined_once() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in tree::shipped_sources() {
        for (at, name) in type_definitions(&source) {
            places.entry(name).or_default().push(source.location(at));
        }
    }
    let shared: BTreeMap<String, Vec<String>> =
        places.into_iter().filter(|(_, places)| places.len() > 1).collect();
    let known: BTreeSet<&str> = SHARED_NAMES.lines().collect();
    let wrong: BTreeMap<_, _> =
        shared.iter().filter(|(name, _)| !known.contains(name.as_str())).collect();
    assert_eq!(wrong, BTreeMap::new());
    let unused: Vec<_> = known.into_iter().filter(|name| !shared.contains_key(*name)).collect();
    assert_eq!(unused, [""; 0], "defined once: they need no exception");
}

#[test]
fn no_type_is_named_by_a_participle() {
    let mut wrong = Vec::new();
    for source in tree::shipped_sources() {
        for (at, name) in type_definitions(&source) {
            if is_participle(&name) {
                wrong.push(format!("{}: {name}", source.location(at)));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_type_has_at_most_forty_methods() {
    let mut methods: BTreeMap<(String, String), usize> = BTreeMap::new();
    for source in tree::shipped_sources() {
        let name = source.path.split('/').nth(1).unwrap().to_owned();
        for (type_name, count) in inherent_methods(&source.code) {
            *methods.entry((name.clone(), type_name)).or_default() += count;
        }
    }
    let large: BTreeMap<_, _> = methods.into_iter().filter(|(_, count)| *count > METHODS).collect();
    let mut wrong = Vec::new();
    for ((name, type_name), count) in &large {
        let most = LARGE_TYPES
            .iter()
            .find(|(known, known_type, _)| known == name && known_type == type_name)
            .map_or(METHODS, |(_, _, most)| *most);
        if *count > most {
            wrong.push(format!("{name}: {type_name} has {count} methods, {most} are allowed"));
        }
    }
    assert_eq!(wrong, [""; 0]);
    for (name, type_name, _) in LARGE_TYPES {
        assert!(
            large.contains_key(&((*name).to_owned(), (*type_name).to_owned())),
            "{name}: {type_name} needs no exception"
        );
    }
}

#[test]
fn methods_are_counted_over_all_inherent_impls() {
    let code = "impl<'a, T: Fn()> A<'a, T> {\n    fn a() { fn inner() {} }\n    pub fn b() {}\n}\nimpl B for A { fn c() {} }\nimpl A {\n    fn d() {}\n}\n";
    assert_eq!(inherent_methods(code), [("A".to_owned(), 2), ("A".to_owned(), 1)]);
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    let has_ending =
        name.ends_with("ed") || name.ends_with("ing") || IRREGULAR_PARTICIPLES.contains(&name);
    is_one_word && has_ending && !NOUNS.contains(&name)
}

/// Returns the offsets and names of type definitions, without those in traits, impls and inline tests.
fn type_definitions(source: &Source) -> Vec<(usize, String)> {
    let code = match source.code.find("#[cfg(test)]\nmod tests {") {
        Some(tests) => &source.code[..tests],
        None => &source.code,
    };
    let mut definitions = Vec::new();
    let mut words = crate::source::words(code).peekable();
    while let Some((at, word)) = words.next() {
        let is_indented = code[..at].ends_with("    ");
        let is_definition = ["struct", "enum", "union", "trait"].contains(&word)
            || (word == "type" && !is_indented);
        if let Some((_, name)) = words.peek().filter(|_| is_definition)
            && name.starts_with(char::is_uppercase)
        {
            definitions.push((at, (*name).to_owned()));
        }
    }
    definitions
}

/// Returns the type and the number of functions of each inherent impl.
fn inherent_methods(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let is_item = (at == 0 || code[..at].ends_with('\n'))
            && code[at + 4..].starts_with(|c: char| c == '<' || c.is_whitespace());
        let Some(open) = code[at..].find('{').filter(|_| is_item) else { continue };
        let head = without_generics(&code[at + 4..at + open]);
        if head.split_whitespace().any(|word| word == "for") {
            continue;
        }
        let name = head
            .split("where")
            .next()
            .unwrap()
            .trim()
            .rsplit("::")
            .next()
            .unwrap()
            .trim()
            .to_owned();
        // Counts the functions directly inside the impl's braces.
        let mut depth = 0_u32;
        let mut count = 0;
        for (offset, c) in code[at + open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                'f' if depth == 1 && code[at + open + offset..].starts_with("fn ") => count += 1,
                _ => {}
            }
        }
        found.push((name, count));
    }
    found
}

/// Removes text in angle brackets. The `>` of an arrow does not close a bracket.
fn without_generics(head: &str) -> String {
    let mut depth = 0_u32;
    let mut plain = String::new();
    let mut previous = ' ';
    for c in head.chars() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        previous = c;
    }
    plain
}
