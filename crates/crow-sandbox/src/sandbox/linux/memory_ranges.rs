//! Ranges of memory that are given back, and so may lie in none of it.

use std::ops::Range;

/// How many ranges of memory the keeper gives back. What else there is it keeps.
const RANGES: usize = 512;

/// Ranges of memory, in no memory but the stack.
pub(super) struct MemoryRanges([Range<usize>; RANGES]);

impl MemoryRanges {
    /// Takes the first ones.
    pub(super) fn new(ranges: &[Range<usize>]) -> Self {
        let mut taken = [const { 0..0 }; RANGES];
        for (to, from) in taken.iter_mut().zip(ranges) {
            to.clone_from(from);
        }
        Self(taken)
    }

    /// Returns them. Allocates nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }
}
