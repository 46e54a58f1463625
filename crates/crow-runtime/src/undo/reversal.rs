//! What takes back several changes of a path: from what it is to what it was before.
//!
//! The changes of a path that are not undone form a chain, in the order in which they were made: what one left, the next
//! found. The way back from the last chosen change goes over earlier ones as long as they join. Where they do not, somebody
//! has edited the path in between: the way back ends there, and only force goes on.

use std::path::PathBuf;

use crate::{PathChange, SnapshotEntry};

/// Who changed a path: a call, or the user by a restore. By its place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StepAuthor {
    /// The place of the call among all calls.
    Call(usize),
    /// The place of the restore among all records.
    Restore(usize),
}

/// One change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathStep {
    pub(super) author: StepAuthor,
    pub(super) before: SnapshotEntry,
    pub(super) after: SnapshotEntry,
    /// Others may have done it.
    pub(super) shared: bool,
    /// A background job did it, which is told later than it happened.
    pub(super) by_job: bool,
}

/// What takes back the chosen changes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reversal {
    /// From what it was before to what it is, as far as the chosen changes are known to have led from one to the other.
    pub(super) change: PathChange,
    /// The call after which somebody else changed the path, so that the way back ends there.
    pub(super) broken_after: Option<StepAuthor>,
    /// Whose changes are undone when the path is as it was before `change`.
    pub(super) joined: Vec<StepAuthor>,
    /// Whose changes are undone when the path is as it was at first: also those after the first chosen one.
    pub(super) all: Vec<StepAuthor>,
    /// What the path was before the first of the chosen changes.
    pub(super) first: SnapshotEntry,
    /// A call whose change may be that of others.
    pub(super) shared: Option<usize>,
    /// Who changed the path since what is taken back: nothing is put over that.
    pub(super) later: Option<StepAuthor>,
}

impl Reversal {
    /// Makes the way back of one change that is known to be whole.
    pub(super) fn of(change: PathChange) -> Self {
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

    /// Returns whether the path is to become what it is already.
    pub(super) fn is_nothing(&self) -> bool {
        self.change.before == self.change.after && self.broken_after.is_none()
    }
}

/// Puts the changes of a path that jobs made where they belong: a job is told later than it wrote, so a call that ran
/// meanwhile may stand before it.
pub(super) fn order_jobs(steps: &mut Vec<PathStep>) {
    for at in 1..steps.len() {
        let Some([earlier, step]) =
            steps.get(at - 1..=at).and_then(|pair| <&[PathStep; 2]>::try_from(pair).ok())
        else {
            continue;
        };
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

/// Joins the chosen ones of the changes of a path to one way back. None are chosen: there is none.
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
    for at in (first..last).rev().filter(chosen) {
        let Some(earlier) = steps.get(at) else { break };
        if !joins(steps.get(at..begin).unwrap_or_default(), &before) {
            broken_after = Some(earlier.author);
            break;
        }
        shared = shared.or_else(|| shared_call(earlier));
        before = earlier.before.clone();
        begin = at;
    }
    let authors = |from: usize| {
        let steps = steps.get(from..).unwrap_or_default();
        steps.iter().map(|step| step.author).collect()
    };
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

/// Tells whether a chosen change leads to a state: by itself, or by the restores that follow it.
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

    fn made(author: StepAuthor, before: &str, after: &str) -> PathStep {
        let (before, after) = (link(before), link(after));
        let shared = matches!(author, Call(10..));
        PathStep { author, before, after, shared, by_job: false }
    }

    fn step(call: usize, before: &str, after: &str) -> PathStep {
        made(Call(call), before, after)
    }

    #[test]
    fn the_way_back_goes_as_far_as_the_steps_join() {
        let table = [
            (vec![step(0, "a", "b")], ("a", "b", None, None)),
            (vec![step(0, "a", "b"), step(1, "b", "c")], ("a", "c", None, None)),
            (vec![step(0, "a", "b"), step(1, "b", "a")], ("a", "a", None, None)),
            // Somebody made an x of the b.
            (vec![step(0, "a", "b"), step(1, "x", "c")], ("x", "c", Some(0), None)),
            (
                vec![step(0, "a", "b"), step(1, "x", "y"), step(2, "y", "c")],
                ("x", "c", Some(0), None),
            ),
            (vec![step(10, "a", "b"), step(1, "b", "c")], ("a", "c", None, Some(10))),
            // The shared one lies beyond the break.
            (vec![step(10, "a", "b"), step(1, "x", "c")], ("x", "c", Some(10), None)),
            // A restore leads from one to the other, and does not count where it does not.
            (
                vec![step(0, "a", "b"), made(Restore(0), "b", "a"), step(1, "a", "c")],
                ("a", "c", None, None),
            ),
            (
                vec![step(0, "a", "b"), made(Restore(0), "x", "a"), step(1, "a", "c")],
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
    fn what_came_after_a_chosen_change_is_undone_with_it() {
        let steps = [step(0, "a", "b"), step(1, "b", "c"), step(2, "x", "y")];
        let found = reversal("/p".into(), &steps, |author| author == Call(1)).unwrap();
        assert_eq!((found.joined, found.all), (vec![Call(1), Call(2)], vec![Call(1), Call(2)]));
        assert_eq!(reversal("/p".into(), &steps, |_| false), None);
    }

    #[test]
    fn a_job_that_is_told_late_stands_where_it_wrote() {
        let job = |before, after| PathStep { by_job: true, ..step(9, before, after) };
        let table = [
            (vec![step(0, "a", "b"), job("b", "c")], [0, 9]),
            (vec![step(0, "b", "c"), job("a", "b")], [9, 0]),
            // Nowhere: it stays where it was told.
            (vec![step(0, "b", "c"), job("x", "y")], [0, 9]),
        ];
        for (mut steps, expected) in table {
            order_jobs(&mut steps);
            let order: Vec<StepAuthor> = steps.iter().map(|step| step.author).collect();
            assert_eq!(order, expected.map(Call));
        }
    }
}
