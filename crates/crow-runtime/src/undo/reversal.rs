//! Combines several changes of a path into one reversal: from its current state to an earlier one.
//!
//! The changes of a path that are not undone form a chain in chronological order: each starts from the state that the
//! previous one left. The reversal of the last chosen change extends over earlier chosen ones as long as they join. A
//! gap means that another writer edited the path in between: the reversal ends there, and only force goes further.

use std::path::PathBuf;

use crate::{PathChange, SnapshotEntry};

/// The author of a change: a call, or the user through a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StepAuthor {
    /// Index among all calls.
    Call(usize),
    /// Index among all records.
    Restore(usize),
}

/// One change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathStep {
    pub(super) author: StepAuthor,
    pub(super) before: SnapshotEntry,
    pub(super) after: SnapshotEntry,
    /// True if others may have made the change.
    pub(super) shared: bool,
    /// True if a background job made the change, which is reported later than it happened.
    pub(super) by_job: bool,
}

/// The reversal of the chosen changes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reversal {
    /// From the current state (`after`) to the target (`before`), as far as the chosen changes are known to connect
    /// them.
    pub(super) change: PathChange,
    /// The call after which another writer changed the path, so that the reversal ends there.
    pub(super) broken_after: Option<StepAuthor>,
    /// Authors whose changes are undone once the path has the state `change.before`.
    pub(super) joined: Vec<StepAuthor>,
    /// Authors whose changes are undone once the path has the state `first`; includes those after the first chosen one.
    pub(super) all: Vec<StepAuthor>,
    /// The state before the first chosen change.
    pub(super) first: SnapshotEntry,
    /// A call whose change may have been made by others.
    pub(super) shared: Option<usize>,
    /// Author of a later change of the path, which must not be overwritten.
    pub(super) later: Option<StepAuthor>,
}

impl Reversal {
    /// Creates the reversal of a single change.
    pub(super) fn from_change(change: PathChange) -> Self {
        let first = change.before.clone();
        Self {
            change,
            broken_after: None,
            joined: Vec::new(),
            all: Vec::new(),
            first,
            shared: None,
            later: None,
        }
    }

    /// Returns true if the path already has the target state.
    pub(super) fn is_nothing(&self) -> bool {
        self.change.before == self.change.after && self.broken_after.is_none()
    }
}

/// Moves the changes of jobs to where they happened: a job's change is reported later than it was written, so a call
/// that ran meanwhile may precede it in the list.
pub(super) fn order_jobs(steps: &mut Vec<PathStep>) {
    for at in 1..steps.len() {
        let Some([earlier, step]) =
            steps.get(at - 1..=at).and_then(|pair| <&[PathStep; 2]>::try_from(pair).ok())
        else {
            continue;
        };
        // Not the change of a job, or in place already: it continues the chain.
        if !step.by_job || earlier.after == step.before {
            continue;
        }
        let fits = |place: &usize| {
            let before = place.checked_sub(1).and_then(|last| steps.get(last));
            before.is_none_or(|before| before.after == step.before)
                && steps.get(*place).is_some_and(|next| next.before == step.after)
        };
        if let Some(place) = (0..at).rev().find(fits) {
            let step = steps.remove(at);
            steps.insert(place, step);
        }
    }
}

/// Combines the chosen changes of a path into one reversal. Returns `None` if none is chosen.
pub(super) fn reversal(
    path: PathBuf,
    steps: &[PathStep],
    is_chosen: impl Fn(StepAuthor) -> bool,
) -> Option<Reversal> {
    let chosen = |at: &usize| steps.get(*at).is_some_and(|step| is_chosen(step.author));
    let first = (0..steps.len()).find(chosen)?;
    let last = (0..steps.len()).rev().find(chosen)?;
    let (first_step, last_step) = (steps.get(first)?, steps.get(last)?);
    let mut before = last_step.before.clone();
    let mut shared = shared_call(last_step);
    let mut begin = last;
    let mut broken_after = None;
    // Extends the reversal backwards over chosen changes until a gap.
    for at in (first..last).rev().filter(chosen) {
        let Some(earlier) = steps.get(at) else { break };
        if !joins(&steps[at..begin], &before) {
            broken_after = Some(earlier.author);
            break;
        }
        shared = shared.or_else(|| shared_call(earlier));
        before = earlier.before.clone();
        begin = at;
    }
    // All later authors are undone as well, chosen or not.
    let authors = |from: usize| steps[from..].iter().map(|step| step.author).collect();
    Some(Reversal {
        change: PathChange { path, before, after: last_step.after.clone() },
        broken_after,
        joined: authors(begin),
        all: authors(first),
        first: first_step.before.clone(),
        shared,
        later: None,
    })
}

/// Returns true if a chosen change leads to a state, by itself or through the restores that follow it.
fn joins(steps: &[PathStep], state: &SnapshotEntry) -> bool {
    let Some((chosen, between)) = steps.split_first() else { return false };
    if chosen.after == *state {
        return true;
    }
    let mut reached = &chosen.after;
    for step in between {
        if !matches!(step.author, StepAuthor::Restore(_)) || step.before != *reached {
            return false;
        }
        reached = &step.after;
    }
    reached == state
}

fn shared_call(step: &PathStep) -> Option<usize> {
    match step.author {
        StepAuthor::Call(call) if step.shared => Some(call),
        StepAuthor::Call(_) | StepAuthor::Restore(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use StepAuthor::{Call, Restore};

    use super::*;

    fn link(target: &str) -> SnapshotEntry {
        SnapshotEntry::Link { target: target.into() }
    }

    fn step_by(author: StepAuthor, before: &str, after: &str) -> PathStep {
        let (before, after) = (link(before), link(after));
        let shared = matches!(author, Call(10..));
        PathStep { author, before, after, shared, by_job: false }
    }

    fn step(call: usize, before: &str, after: &str) -> PathStep {
        step_by(Call(call), before, after)
    }

    #[test]
    fn a_reversal_extends_as_far_as_the_steps_join() {
        let table = [
            (vec![step(0, "a", "b")], ("a", "b", None, None)),
            (vec![step(0, "a", "b"), step(1, "b", "c")], ("a", "c", None, None)),
            (vec![step(0, "a", "b"), step(1, "b", "a")], ("a", "a", None, None)),
            // Another writer changed b to x.
            (vec![step(0, "a", "b"), step(1, "x", "c")], ("x", "c", Some(0), None)),
            (
                vec![step(0, "a", "b"), step(1, "x", "y"), step(2, "y", "c")],
                ("x", "c", Some(0), None),
            ),
            (vec![step(10, "a", "b"), step(1, "b", "c")], ("a", "c", None, Some(10))),
            // The shared change lies beyond the gap.
            (vec![step(10, "a", "b"), step(1, "x", "c")], ("x", "c", Some(10), None)),
            // A restore bridges two changes only if it starts from the state that the first one left.
            (
                vec![step(0, "a", "b"), step_by(Restore(0), "b", "a"), step(1, "a", "c")],
                ("a", "c", None, None),
            ),
            (
                vec![step(0, "a", "b"), step_by(Restore(0), "x", "a"), step(1, "a", "c")],
                ("a", "c", Some(0), None),
            ),
        ];
        for (steps, (before, after, broken_after, shared)) in table {
            let is_chosen = |author| matches!(author, Call(_));
            let found = reversal("/p".into(), &steps, is_chosen).unwrap();
            let expected =
                PathChange { path: "/p".into(), before: link(before), after: link(after) };
            let broken_after = broken_after.map(Call);
            assert_eq!(
                (found.change, found.broken_after, found.shared),
                (expected, broken_after, shared),
                "{steps:?}"
            );
            assert_eq!(found.first, steps[0].before);
        }
    }

    #[test]
    fn changes_after_a_chosen_one_are_undone_with_it() {
        let steps = [step(0, "a", "b"), step(1, "b", "c"), step(2, "x", "y")];
        let found = reversal("/p".into(), &steps, |author| author == Call(1)).unwrap();
        assert_eq!((found.joined, found.all), (vec![Call(1), Call(2)], vec![Call(1), Call(2)]));
        assert_eq!(reversal("/p".into(), &steps, |_| false), None);
    }

    #[test]
    fn a_job_change_reported_late_moves_to_where_it_happened() {
        let job = |before, after| PathStep { by_job: true, ..step(9, before, after) };
        let table = [
            (vec![step(0, "a", "b"), job("b", "c")], [0, 9]),
            (vec![step(0, "b", "c"), job("a", "b")], [9, 0]),
            // No place fits: it stays last.
            (vec![step(0, "b", "c"), job("x", "y")], [0, 9]),
        ];
        for (mut steps, expected) in table {
            order_jobs(&mut steps);
            let order: Vec<StepAuthor> = steps.iter().map(|step| step.author).collect();
            assert_eq!(order, expected.map(Call));
        }
    }
}
