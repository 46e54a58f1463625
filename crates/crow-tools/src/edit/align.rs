//! The longest common subsequence of two sequences, and where it is not the only one.

use std::{collections::HashMap, hash::Hash};

/// Above this many pairs of entries no alignment is computed.
const MAX_CELLS: usize = 2_000_000;

/// Which entries of the old sequence are which of the new one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Alignment {
    /// Kept entries as (old, new), ascending in both.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Old entries that another alignment of the same length pairs differently.
    pub(crate) contested: Vec<usize>,
}

/// One step through two aligned sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Keep { old: usize, new: usize },
    /// The old entries give way to the new ones; either range may be empty.
    Change { old: std::ops::Range<usize>, new: std::ops::Range<usize> },
}

impl Alignment {
    /// The steps that turn `old_len` entries into `new_len`.
    pub(crate) fn steps(&self, old_len: usize, new_len: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        for &(old, new) in self.pairs.iter().chain(std::iter::once(&(old_len, new_len))) {
            if old_at < old || new_at < new {
                steps.push(Step::Change { old: old_at..old, new: new_at..new });
            }
            if old < old_len {
                steps.push(Step::Keep { old, new });
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
    let (old, new) = intern(old, new);
    let before = Table::prefixes(&old, &new);
    let after = Table::suffixes(&old, &new);
    Some(Alignment {
        pairs: choose(&old, &new, &after),
        contested: contested(&old, &new, &before, &after),
    })
}

/// Aligns two sequences of which equal entries are interchangeable: equal ends are paired first, and where
/// the rest is too long it counts as changed.
pub(crate) fn align_plain<T: Eq + Hash>(old: &[T], new: &[T]) -> Alignment {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let middle = align(old.get(head..old_end).unwrap_or_default(), new.get(head..new_end).unwrap_or_default());
    let middle = middle.unwrap_or_default().pairs.into_iter().map(|(one, other)| (one + head, other + head));
    let pairs = (0..head).map(|at| (at, at)).chain(middle).chain((old_end..old.len()).zip(new_end..new.len()));
    Alignment { pairs: pairs.collect(), contested: Vec::new() }
}

fn intern<T: Eq + Hash>(old: &[T], new: &[T]) -> (Vec<usize>, Vec<usize>) {
    let mut ids = HashMap::new();
    let mut number = |entries: &'_ [T]| -> Vec<usize> {
        entries
            .iter()
            .map(|entry| {
                let next = ids.len();
                // The key only has to live as long as this function: hashes of equal entries are equal.
                *ids.entry(Key::of(entry)).or_insert(next)
            })
            .collect()
    };
    (number(old), number(new))
}
