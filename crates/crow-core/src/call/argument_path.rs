//! Paths into the arguments of a call.

use std::fmt;

/// Maximum depth of values and schemas that is examined.
const DEEPEST: u32 = 64;
/// Maximum number of characters of a key in a message.
const SHOWN: usize = 60;

/// A path into the arguments, written `edits[0].old_string`.
#[derive(Debug, Clone, Default)]
pub(super) struct ArgumentPath {
    path: String,
    depth: u32,
}

impl ArgumentPath {
    /// Returns the same path, one schema node deeper.
    pub(super) fn within(&self) -> Self {
        Self { path: self.path.clone(), depth: self.depth + 1 }
    }

    /// Returns the path of a field.
    pub(super) fn field(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{}", self.path, short(key)), depth: self.depth + 1 }
    }

    /// Returns the path of an item.
    pub(super) fn item(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), depth: self.depth + 1 }
    }

    /// Returns true if the path is too deep to examine: a schema may refer to itself.
    pub(super) fn is_too_deep(&self) -> bool {
        self.depth >= DEEPEST
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "arguments" } else { &self.path })
    }
}

/// Returns a key, shortened.
pub(super) fn short(key: &str) -> &str {
    key.char_indices().nth(SHOWN).map_or(key, |(end, _)| &key[..end])
}
