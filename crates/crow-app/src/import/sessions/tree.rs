//! Conversations that are stored as trees: each record names its parent, and a rewound conversation goes on in another branch.

use std::collections::{HashMap, HashSet};

/// A record of a tree.
#[derive(Debug)]
pub(super) struct TreeRecord<T> {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) content: T,
}

/// The records from the root to a leaf.
#[derive(Debug, Default)]
pub(super) struct TreePath {
    /// Their positions in the file.
    pub(super) positions: HashSet<usize>,
    /// Number of parents that are not in the file. The record before was taken in their place.
    pub(super) missing_parents: usize,
}

/// Returns the path to the record at position `leaf`. Cycles are cut at the first repeated record.
pub(super) fn path_from_root<T>(records: &[TreeRecord<T>], leaf: Option<usize>) -> TreePath {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (position, record) in records.iter().enumerate() {
        positions.entry(record.id.as_str()).or_insert(position);
    }
    let mut path = TreePath::default();
    let mut next = leaf;
    while let Some(position) = next.filter(|position| path.positions.insert(*position)) {
        next = match records[position].parent.as_deref() {
            None => None,
            Some(parent) => positions.get(parent).copied().or_else(|| {
                // A damaged line: what stands before it is most likely what it followed.
                path.missing_parents += 1;
                position.checked_sub(1)
            }),
        };
    }
    path
}

impl TreePath {
    /// Adds what is to be known about the path to the notes of its conversation.
    pub(super) fn add_notes(&self, left_out: usize, notes: &mut Vec<String>) {
        if self.missing_parents > 0 {
            let count = self.missing_parents;
            notes.push(format!("parents that are not in the file: {count}; the record before each gap was taken instead"));
        }
        if left_out > 0 {
            notes.push(format!("messages on other branches (rewound) are left out: {left_out}"));
        }
    }
}
