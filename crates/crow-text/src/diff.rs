//! Differences between two texts, by lines or by words.
//!
//! Not generic: the algorithm is 80 kB of code for each type of items that it compares.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use similar::{
    DiffOp,
    algorithms::{Capture, Compact, DiffHook as _, IdentifyDistinct, NoFinishHook, Replace, myers},
};

/// Compares two lists of lines or words. The operations cover both lists, from the first item to the last.
pub fn diff(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    operations(old, new, None)
}

/// Compares two lists as [`diff`] does. After `limit`, the differences are no longer the smallest ones.
pub fn diff_within(limit: Duration, old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    operations(old, new, Instant::now().checked_add(limit))
}

fn operations(old: &[&str], new: &[&str], deadline: Option<Instant>) -> Vec<DiffOp> {
    // Most of a file stays as it is, so that only what lies between is searched.
    let prefix = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let rest = old[prefix..].iter().rev().zip(new[prefix..].iter().rev());
    let suffix = rest.take_while(|(old, new)| old == new).count();
    let mut operations = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = (|| -> Result<(), Infallible> {
        if prefix > 0 {
            operations.equal(0, 0, prefix)?;
        }
        // Numbers are compared faster than texts.
        let (old_range, new_range) = (prefix..old.len() - suffix, prefix..new.len() - suffix);
        let numbers = IdentifyDistinct::<u32>::new(old, old_range, new, new_range);
        myers::diff_deadline(
            &mut NoFinishHook::new(&mut operations),
            numbers.old_lookup(),
            numbers.old_range(),
            numbers.new_lookup(),
            numbers.new_range(),
            deadline,
        )?;
        if suffix > 0 {
            operations.equal(old.len() - suffix, new.len() - suffix, suffix)?;
        }
        operations.finish()
    })();
    operations.into_inner().into_inner().into_ops()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use similar::TextDiff;

    use super::*;

    fn lines(text: &str) -> Vec<&str> {
        text.split_inclusive('\n').collect()
    }

    #[test]
    fn empty_and_equal_lists_have_no_differences() {
        assert_eq!(diff(&[], &[]), []);
        let all = DiffOp::Equal { old_index: 0, new_index: 0, len: 2 };
        assert_eq!(diff(&["a", "b"], &["a", "b"]), [all]);
    }

    #[test]
    fn operations_cover_both_lists() {
        assert_eq!(
            diff(&["a", "b", "d"], &["a", "c", "d", "e"]),
            [
                DiffOp::Equal { old_index: 0, new_index: 0, len: 1 },
                DiffOp::Replace { old_index: 1, old_len: 1, new_index: 1, new_len: 1 },
                DiffOp::Equal { old_index: 2, new_index: 2, len: 1 },
                DiffOp::Insert { old_index: 3, new_index: 3, new_len: 1 },
            ]
        );
    }

    #[test]
    fn a_limit_that_is_over_leaves_the_difference_correct() {
        let (old, new) = ("a\nb\nc\n".repeat(500), "c\nb\nx\n".repeat(500));
        let (old, new) = (lines(&old), lines(&new));
        let operations = diff_within(Duration::ZERO, &old, &new);
        let rebuilt: String = operations
            .iter()
            .flat_map(|operation| operation.iter_changes(&old[..], &new[..]))
            .filter(|change| change.tag() != similar::ChangeTag::Delete)
            .map(|change| change.value())
            .collect();
        assert_eq!(rebuilt, new.concat());
    }

    fn numbered_lines(numbers: &[u8]) -> Vec<String> {
        numbers.iter().map(|number| format!("{number}\n")).collect()
    }

    fn assert_same_as_library(old: &[String], new: &[String]) {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
        assert_eq!(diff(&old, &new), TextDiff::from_slices(&old, &new).ops());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn differences_are_those_of_the_library(
            old in prop::collection::vec(0_u8..6, 0..300),
            new in prop::collection::vec(0_u8..6, 0..300),
        ) {
            assert_same_as_library(&numbered_lines(&old), &numbered_lines(&new));
        }

        #[test]
        fn differences_of_edited_texts_are_those_of_the_library(
            old in prop::collection::vec(any::<u8>(), 0..900),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let mut new = old.clone();
            for (at, line) in edits {
                let at = at.index(new.len() + 1);
                if at % 3 == 0 && at < new.len() {
                    new.remove(at);
                } else {
                    new.insert(at, line);
                }
            }
            assert_same_as_library(&numbered_lines(&old), &numbered_lines(&new));
        }
    }
}
