//! The longest common subsequence of two sequences, and where it is not the only one.
//!
//! The merge needs more than one alignment: it has to know which of its pairs are certain. Two tables of the classic
//! dynamic programme give both. `before[i][j]` is the length of the longest common subsequence (LCS) of the first `i`
//! old and the first `j` new entries, `after[i][j]` that of the entries from `i` and `j` on. An equal pair `(i, j)`
//! is in some LCS exactly if `before[i][j] + 1 + after[i + 1][j + 1]` is the length of the longest, and then it is
//! number `before[i][j]` in it. So the pairs of all LCSs fall into ranks, and each LCS takes one pair of each rank: a
//! rank with a single pair is certain, the old entries of all other ranks are *contested*. Time and memory grow with
//! the product of the lengths, which is bounded.

use std::{collections::HashMap, hash::Hash};

/// Above this many pairs of entries no alignment is computed.
const MAX_CELLS: usize = 2_000_000;

/// A pairing of equal entries of the old and the new sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Alignment {
    /// Kept entries as (old, new), ascending in both.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Old entries that another alignment of the same length pairs differently.
    pub(crate) contested: Vec<usize>,
}

/// One step through two aligned sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlignmentStep {
    Keep {
        old: usize,
        new: usize,
    },
    /// The old entries are replaced by the new ones; either range may be empty.
    Change {
        old: std::ops::Range<usize>,
        new: std::ops::Range<usize>,
    },
}

impl Alignment {
    /// Returns the steps that turn `old_len` entries into `new_len`: both sequences are covered without gaps.
    pub(crate) fn steps(&self, old_len: usize, new_len: usize) -> Vec<AlignmentStep> {
        let mut steps = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        // A pair after both ends closes the last change.
        for &(old, new) in self.pairs.iter().chain(std::iter::once(&(old_len, new_len))) {
            if old_at < old || new_at < new {
                steps.push(AlignmentStep::Change { old: old_at..old, new: new_at..new });
            }
            if old < old_len {
                steps.push(AlignmentStep::Keep { old, new });
            }
            (old_at, new_at) = (old + 1, new + 1);
        }
        steps
    }
}

/// Aligns two sequences; `None` when they are too long.
pub(crate) fn align<T: Eq + Hash>(old: &[T], new: &[T]) -> Option<Alignment> {
    if old.len().saturating_mul(new.len()) > MAX_CELLS {
        return None;
    }
    // Numbers are compared faster than lines.
    let (old, new) = intern(old, new);
    // Both tables are needed: `after` gives one alignment, both together the certainty of its pairs.
    let before = SubsequenceLengths::prefixes(&old, &new);
    let after = SubsequenceLengths::suffixes(&old, &new);
    Some(Alignment {
        pairs: choose(&old, &new, &after),
        contested: contested(&old, &new, &before, &after),
    })
}

/// Aligns two sequences whose equal entries are interchangeable: equal ends are paired first, and if the rest is too
/// long it counts as changed.
pub(crate) fn align_plain<T: Eq + Hash>(old: &[T], new: &[T]) -> Alignment {
    // 1) Equal beginnings and ends need no table, however long they are.
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    // 2) The rest is aligned if it is short enough; otherwise nothing of it is paired.
    let middle = align(&old[head..old_end], &new[head..new_end]);
    let middle =
        middle.unwrap_or_default().pairs.into_iter().map(|(one, other)| (one + head, other + head));
    let pairs = (0..head)
        .map(|at| (at, at))
        .chain(middle)
        .chain((old_end..old.len()).zip(new_end..new.len()));
    Alignment { pairs: pairs.collect(), contested: Vec::new() }
}

/// Replaces entries by numbers that are equal where the entries are.
fn intern<'a, T: Eq + Hash>(old: &'a [T], new: &'a [T]) -> (Vec<usize>, Vec<usize>) {
    let mut ids: HashMap<&'a T, usize> = HashMap::new();
    let mut numbers = Vec::with_capacity(old.len() + new.len());
    for entry in old.iter().chain(new) {
        let next = ids.len();
        numbers.push(*ids.entry(entry).or_insert(next));
    }
    // Both were numbered in one pass, so equal entries have equal numbers.
    let new_numbers = numbers.split_off(old.len());
    (numbers, new_numbers)
}

/// The lengths of the longest common subsequences for every pair of prefixes or suffixes, row by row.
struct SubsequenceLengths {
    width: usize,
    cells: Vec<u32>,
}

impl SubsequenceLengths {
    fn empty(old: &[usize], new: &[usize]) -> Self {
        let width = new.len() + 1;
        Self { width, cells: vec![0; width * (old.len() + 1)] }
    }

    fn at(&self, old: usize, new: usize) -> u32 {
        self.cells[old * self.width + new]
    }

    fn set(&mut self, old: usize, new: usize, value: u32) {
        self.cells[old * self.width + new] = value;
    }

    /// Computes `at(i, j)` for the first `i` and `j` entries.
    fn prefixes(old: &[usize], new: &[usize]) -> Self {
        let mut table = Self::empty(old, new);
        for (i, one) in old.iter().enumerate() {
            for (j, other) in new.iter().enumerate() {
                // Pairing two equal entries is never worse than leaving one of them out.
                let best = if one == other {
                    table.at(i, j) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
                table.set(i + 1, j + 1, best);
            }
        }
        table
    }

    /// Computes `at(i, j)` for the entries from `i` and `j` on.
    fn suffixes(old: &[usize], new: &[usize]) -> Self {
        let mut table = Self::empty(old, new);
        // Backwards: a cell depends on those after it.
        for (i, one) in old.iter().enumerate().rev() {
            for (j, other) in new.iter().enumerate().rev() {
                let best = if one == other {
                    table.at(i + 1, j + 1) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
                table.set(i, j, best);
            }
        }
        table
    }
}

/// Walks along one longest common subsequence, the one that pairs early.
fn choose(old: &[usize], new: &[usize], after: &SubsequenceLengths) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(one), Some(other)) = (old.get(i), new.get(j)) {
        if one == other {
            // Equal heads are always in some longest one.
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if after.at(i + 1, j) >= after.at(i, j + 1) {
            // Skipping the old entry leaves at least as many pairs as skipping the new one.
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Returns the old entries that are not certain: the k-th pair of a longest common subsequence is fixed when only one pair of
/// entries can be the k-th.
fn contested(
    old: &[usize],
    new: &[usize],
    before: &SubsequenceLengths,
    after: &SubsequenceLengths,
) -> Vec<usize> {
    let longest = after.at(0, 0);
    let mut by_rank: Vec<Vec<usize>> = vec![Vec::new(); longest as usize];
    for (i, one) in old.iter().enumerate() {
        for (j, other) in new.iter().enumerate() {
            // The pair is in a longest common subsequence if the lengths before and after it add up to the longest.
            let rank = before.at(i, j);
            if one == other && rank + 1 + after.at(i + 1, j + 1) == longest {
                by_rank[rank as usize].push(i);
            }
        }
    }
    // One entry may be in several ranks, or several times in one (paired with different new entries).
    let mut contested: Vec<usize> =
        by_rank.into_iter().filter(|members| members.len() > 1).flatten().collect();
    contested.sort_unstable();
    contested.dedup();
    contested
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(old: &str, new: &str) -> Alignment {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        align(&chars(old), &chars(new)).unwrap()
    }

    #[test]
    fn equal_entries_are_paired_in_order() {
        assert_eq!(aligned("abcd", "axcd").pairs, [(0, 0), (2, 2), (3, 3)]);
        assert!(aligned("", "ab").pairs.is_empty());
        assert!(aligned("ab", "").pairs.is_empty());
    }

    #[test]
    fn an_entry_that_could_be_kept_at_two_places_is_contested() {
        assert_eq!(aligned("aa", "a").contested, [0, 1]);
        assert_eq!(aligned("a", "aa").contested, [0]);
        assert_eq!(aligned("xay", "xaay").contested, [1]);
        assert_eq!(aligned("ab", "ba").contested, [0, 1]);
        assert!(aligned("abc", "abc").contested.is_empty());
        assert!(aligned("aba", "aba").contested.is_empty());
    }

    #[test]
    fn steps_cover_both_sequences() {
        let steps = aligned("abc", "xbcd").steps(3, 4);
        assert_eq!(
            steps,
            [
                AlignmentStep::Change { old: 0..1, new: 0..1 },
                AlignmentStep::Keep { old: 1, new: 1 },
                AlignmentStep::Keep { old: 2, new: 2 },
                AlignmentStep::Change { old: 3..3, new: 3..4 },
            ]
        );
    }

    #[test]
    fn long_plain_sequences_keep_at_least_their_equal_ends() {
        let old: Vec<usize> = (0..5000).collect();
        let new: Vec<usize> = (0..10).chain(10_000..15_000).chain(4990..5000).collect();
        let pairs = align_plain(&old, &new).pairs;
        assert_eq!(pairs.len(), 20);
        assert_eq!(pairs.last(), Some(&(4999, 5019)));
    }
}
