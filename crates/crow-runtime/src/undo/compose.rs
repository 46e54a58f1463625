//! What undoes several calls: for each path, from what it should be now to what it was before.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{Change, Entry};

/// What one call did to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The place of the call among those that are looked at.
    pub(super) call: usize,
    pub(super) before: Entry,
    pub(super) after: Entry,
    /// Others may have done it.
    pub(super) shared: bool,
}

/// What undoes the steps of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reversal {
    /// From what it was before to what it is, as far as the chosen calls are known to have led from one to the other.
    pub(super) change: Change,
    /// The call before which somebody else changed the path, so that the way back ends there.
    pub(super) broken_after: Option<usize>,
    /// The calls that changed the path.
    pub(super) calls: Vec<usize>,
    /// What the path was before the first of the calls.
    pub(super) first: Entry,
    /// A call whose change may be that of others.
    pub(super) shared: Option<usize>,
}

impl Reversal {
    /// Makes the way back of one change that is known to be whole.
    pub(super) fn of(change: Change) -> Self {
        let first = change.before.clone();
        Self { change, calls: Vec::new(), broken_after: None, first, shared: None }
    }
}

/// Joins the steps of each path, in the order in which they were made, to one way back.
pub(super) fn reversals(steps: BTreeMap<PathBuf, Vec<Step>>) -> Vec<Reversal> {
    steps.into_iter().filter_map(|(path, steps)| reversal(path, steps)).collect()
}

fn reversal(path: PathBuf, steps: Vec<Step>) -> Option<Reversal> {
    let first = steps.first()?.before.clone();
    let calls = steps.iter().map(|step| step.call).collect();
    let mut backwards = steps.into_iter().rev();
    let last = backwards.next()?;
    let mut shared = last.shared.then_some(last.call);
    let Step { mut before, after, .. } = last;
    let mut broken_after = None;
    for earlier in backwards {
        if earlier.after != before {
            broken_after = Some(earlier.call);
            break;
        }
        shared = shared.or_else(|| earlier.shared.then_some(earlier.call));
        before = earlier.before;
    }
    // What was changed and changed back is as it was.
    let changed = before != after || broken_after.is_some();
    let change = Change { path, before, after };
    changed.then_some(Reversal { change, broken_after, calls, first, shared })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(target: &str) -> Entry {
        Entry::Link { target: target.into() }
    }

    fn step(call: usize, before: &str, after: &str) -> Step {
        Step { call, before: link(before), after: link(after), shared: call >= 10 }
    }

    #[test]
    fn the_way_back_goes_as_far_as_the_steps_join() {
        let table = [
            (vec![step(0, "a", "b")], Some(("a", "b", None, None))),
            (vec![step(0, "a", "b"), step(1, "b", "c")], Some(("a", "c", None, None))),
            (vec![step(0, "a", "b"), step(1, "b", "a")], None),
            // Somebody made an x of the b.
            (vec![step(0, "a", "b"), step(1, "x", "c")], Some(("x", "c", Some(0), None))),
            (
                vec![step(0, "a", "b"), step(1, "x", "y"), step(2, "y", "c")],
                Some(("x", "c", Some(0), None)),
            ),
            (vec![step(10, "a", "b"), step(1, "b", "c")], Some(("a", "c", None, Some(10)))),
            // The shared one lies beyond the break.
            (vec![step(10, "a", "b"), step(1, "x", "c")], Some(("x", "c", Some(10), None))),
        ];
        for (steps, expected) in table {
            let first = steps[0].before.clone();
            let found = reversal("/p".into(), steps.clone());
            let expected = expected.map(|(before, after, broken_after, shared)| Reversal {
                change: Change { path: "/p".into(), before: link(before), after: link(after) },
                calls: steps.iter().map(|step| step.call).collect(),
                broken_after,
                first: first.clone(),
                shared,
            });
            assert_eq!(found, expected, "{steps:?}");
        }
    }
}
