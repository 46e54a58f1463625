//! List of memory ranges to unmap. Stored without a heap, since the heap is among them.

use std::ops::Range;

/// Maximum number of ranges that the keeper unmaps; further ones stay mapped.
const RANGES: usize = 512;

/// Fixed-size list of memory ranges, stored on the stack.
pub(super) struct MemoryRanges([Range<usize>; RANGES]);

impl MemoryRanges {
    /// Copies the first [`RANGES`] ranges.
    pub(super) fn new(ranges: &[Range<usize>]) -> Self {
        let mut copied = [const { 0..0 }; RANGES];
        for (slot, range) in copied.iter_mut().zip(ranges) {
            slot.clone_from(range);
        }
        Self(copied)
    }

    /// Iterates over the ranges, including empty ones. Allocates nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }
}
