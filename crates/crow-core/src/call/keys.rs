//! Misspelt argument names.

use serde_json::{Map, Value};

/// Groups of names that models use for each other, squashed.
const SYNONYMS: &[&[&str]] = &[
    &[
        "path",
        "filepath",
        "filename",
        "file",
        "targetfile",
        "absolutepath",
        "relativeworkspacepath",
    ],
    &["path", "directory", "dir", "dirpath", "directorypath", "folder"],
    &["oldstring", "oldstr", "oldtext"],
    &["newstring", "newstr", "newtext"],
    &["content", "contents", "filetext", "filecontent"],
    &["command", "cmd", "commandline"],
    &["pattern", "regex", "query"],
    &["url", "uri"],
    &["todos", "todolist", "items"],
];

/// Maximum number of unknown keys to examine. More of them are not misspelt names.
const MOST_UNKNOWN: usize = 32;

/// Normalizes a name so that its spellings (`camelCase`, `snake_case`, `kebab-case`, `UPPER`) are equal.
pub(super) fn squash(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns pairs of a key of `fields` and the name in `declared` that it should be, if unambiguous.
pub(super) fn renames(
    fields: &Map<String, Value>,
    declared: &Map<String, Value>,
) -> Vec<(String, String)> {
    let unknown: Vec<_> = fields.keys().filter(|key| !declared.contains_key(*key)).collect();
    if unknown.is_empty() || unknown.len() > MOST_UNKNOWN {
        return Vec::new();
    }
    let absent: Vec<_> = declared.keys().filter(|name| !fields.contains_key(*name)).collect();
    let mut pairs = unambiguous(&unknown, &absent, |key, name| squash(key) == squash(name));
    let unknown: Vec<_> =
        unknown.into_iter().filter(|key| pairs.iter().all(|(from, _)| from != *key)).collect();
    let absent: Vec<_> =
        absent.into_iter().filter(|name| pairs.iter().all(|(_, to)| to != *name)).collect();
    pairs.extend(unambiguous(&unknown, &absent, are_synonyms));
    pairs
}

/// Renames keys and preserves their order.
pub(super) fn rename(fields: &mut Map<String, Value>, pairs: &[(String, String)]) {
    let old = std::mem::take(fields);
    for (key, value) in old {
        let to = pairs.iter().find(|(from, _)| *from == key).map(|(_, to)| to.clone());
        fields.insert(to.unwrap_or(key), value);
    }
}

/// Returns the pairs of a key and a name that match each other and nothing else.
fn unambiguous(
    keys: &[&String],
    names: &[&String],
    same: impl Fn(&str, &str) -> bool,
) -> Vec<(String, String)> {
    let pairs = keys.iter().filter_map(|key| {
        let name = only(names.iter().filter(|name| same(key, name)))?;
        only(keys.iter().filter(|other| same(other, name)))?;
        Some(((*key).clone(), (*name).clone()))
    });
    pairs.collect()
}

fn are_synonyms(one: &str, other: &str) -> bool {
    let (one, other) = (squash(one), squash(other));
    SYNONYMS.iter().any(|group| group.contains(&one.as_str()) && group.contains(&other.as_str()))
}

/// Returns the only item, or none if there is not exactly one.
pub(super) fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}
