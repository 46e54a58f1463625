//! Conversations that are stored as trees: each entry names the one before it, and a rewound conversation goes on beside what it
//! left behind.

use std::collections::{HashMap, HashSet};

/// A record of a tree.
#[derive(Debug)]
pub(super) struct TreeRecord<T> {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) content: T,
}

/// Returns the ids from the root to the record `leaf`. A chain that leads in a circle ends where it closes.
pub(super) fn branch_to<'a, T>(
    records: &'a [TreeRecord<T>],
    leaf: Option<&'a str>,
) -> HashSet<&'a str> {
    let parents: HashMap<&str, Option<&str>> =
        records.iter().map(|record| (record.id.as_str(), record.parent.as_deref())).collect();
    let mut branch = HashSet::new();
    let mut next = leaf;
    while let Some(id) = next {
        if !branch.insert(id) {
            break;
        }
        next = parents.get(id).copied().flatten();
    }
    branch
}
