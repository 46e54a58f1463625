//! Merging of layers.

use super::{Node, Value};

/// The keys that give the kind of a table.
const KINDS: [&str; 2] = ["type", "level"];

impl Node {
    /// Merges a node over this one, key by key. Lists and single values are replaced as a whole. So is a table that
    /// gives its kind and is of another kind than this one, because its other keys would mean something else.
    #[must_use]
    pub fn overlaid_by(mut self, over: Self) -> Self {
        if !self.is_same_kind(&over) {
            return over;
        }
        match (&mut self.value, over.value) {
            (Value::Table(entries), Value::Table(others)) => {
                for (key, entry) in others {
                    match entries.remove(&key) {
                        Some(lower) => {
                            let node = lower.node.overlaid_by(entry.node);
                            entries.insert(key, super::TableEntry { key: entry.key, node });
                        }
                        None => {
                            entries.insert(key, entry);
                        }
                    }
                }
                self
            }
            (_, value) => Self { origin: over.origin, value },
        }
    }

    fn is_same_kind(&self, over: &Self) -> bool {
        let kind = |node: &Self| {
            KINDS.into_iter().find_map(|key| Some((key, node.find(&[key])?.value.clone())))
        };
        match kind(over) {
            Some(over_kind) => kind(self) == Some(over_kind),
            None => true,
        }
    }
}
