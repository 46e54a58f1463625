//! Putting paths back, and saying what became of each.

use std::{collections::BTreeSet, path::PathBuf};

use crow_core::{
    ids::{SessionId, SnapshotId, UndoId},
    tool::FileChange,
};

use super::{ChangedCall, PathOutcome, RestoredPath, UndoAction, UndoError, compose::Reversal};
use crate::{Change, Entry, PutBack, SnapshotStore, SnapshotStoreError, Undone};

/// What is to be done.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) action: UndoAction,
    pub(super) reversals: Vec<Reversal>,
    /// The places of the calls that are undone or redone.
    pub(super) calls: Vec<usize>,
    pub(super) reverses: Option<UndoId>,
    /// The turn before which the conversation goes on, and the last event before it.
    pub(super) last_kept: Option<(u32, u64)>,
}

/// What was done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) paths: Vec<RestoredPath>,
    /// The calls of which something could not be undone but may be later.
    pub(super) left: BTreeSet<usize>,
    pub(super) before: SnapshotId,
    pub(super) after: SnapshotId,
}

/// Puts paths back.
#[derive(Debug)]
pub(super) struct Act<'a> {
    pub(super) store: &'a SnapshotStore,
    pub(super) session: &'a SessionId,
    pub(super) calls: &'a [ChangedCall],
}

impl Act<'_> {
    /// Tells what would become of each path.
    pub(super) fn foresee(
        &self,
        reversals: &[Reversal],
        force: bool,
    ) -> Result<Vec<RestoredPath>, UndoError> {
        let (changes, refused) = self.sort(reversals, force);
        let mut outcomes = refused;
        for undone in self.store.foresee(&changes)? {
            let mut outcome = self.outcome(&undone, reversals);
            if force
                && let PathOutcome::Conflict { .. } = outcome
                && forcible(&undone.result)
            {
                let how = change_of(&undone.path, reversals);
                outcome = PathOutcome::Restored { how, copy: None };
            }
            outcomes.push(RestoredPath { path: undone.path, outcome });
        }
        Ok(tidy(outcomes))
    }

    /// Puts paths back. What was there before is captured first, so that it can be taken back.
    pub(super) fn carry_out(&self, reversals: &[Reversal], force: bool) -> Result<Done, UndoError> {
        // Calls of other processes that look at the files meanwhile learn that others were at work.
        let _activity = self.store.begin()?;
        let (changes, refused) = self.sort(reversals, force);
        let all: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
        let before = self.store.capture_exactly(self.session, &all)?;
        let mut outcomes = refused;
        for undone in self.store.undo(&changes)? {
            let mut outcome = self.outcome(&undone, reversals);
            if force && forcible(&undone.result) {
                let change = changes.iter().find(|change| change.path == undone.path);
                if let Some(forced) = change.map(|change| self.force(change)) {
                    outcome = forced;
                }
            }
            outcomes.push(RestoredPath { path: undone.path, outcome });
        }
        let after = self.store.capture_exactly(self.session, &all)?;
        let left = left(reversals, &outcomes);
        Ok(Done { paths: tidy(outcomes), left, before, after })
    }

    /// Parts what may be put back from what is refused because others may have made it.
    fn sort(&self, reversals: &[Reversal], force: bool) -> (Vec<Change>, Vec<RestoredPath>) {
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        for reversal in reversals {
            let mut change = reversal.change.clone();
            if force {
                change.before = reversal.first.clone();
            } else if let Some(call) = reversal.shared {
                let outcome = PathOutcome::Conflict { reason: self.shared_reason(call) };
                refused.push(RestoredPath { path: change.path, outcome });
                continue;
            }
            changes.push(change);
        }
        (changes, refused)
    }

    fn shared_reason(&self, call: usize) -> String {
        match self.calls.get(call) {
            Some(call) if call.after.is_none() => format!(
                "{} was cut off, so nobody knows whether it or somebody else changed this",
                words(call)
            ),
            Some(call) => {
                format!("others were at work while {} ran and may have changed it", words(call))
            }
            None => "others may have changed it".to_owned(),
        }
    }

    fn outcome(&self, undone: &Undone, reversals: &[Reversal]) -> PathOutcome {
        let reversal = reversals.iter().find(|reversal| reversal.change.path == undone.path);
        match &undone.result {
            Ok(PutBack::Done | PutBack::Unchanged)
                if let Some(call) = reversal.and_then(|reversal| reversal.broken_after) =>
            {
                let by = self.calls.get(call).map(words).unwrap_or_default();
                let reason = format!(
                    "somebody changed it after {by}: it is as they left it, and what {by} did stays"
                );
                PathOutcome::Conflict { reason }
            }
            Ok(PutBack::Done) => {
                PathOutcome::Restored { how: change_of(&undone.path, reversals), copy: None }
            }
            Ok(PutBack::Unchanged) => PathOutcome::Unchanged,
            Ok(PutBack::Conflict { found }) => PathOutcome::Conflict {
                reason: conflict(found, reversal.map(|reversal| &reversal.change.after)),
            },
            Ok(PutBack::NotEmpty) => {
                PathOutcome::Conflict { reason: "something else is in the folder".to_owned() }
            }
            Ok(PutBack::NotCovered { why }) => {
                PathOutcome::NotRestorable { reason: why.to_string() }
            }
            Err(error) => PathOutcome::Failed { error: error.to_string() },
        }
    }

    /// Puts a path back although it is not what it should be, and keeps a copy of what it is.
    fn force(&self, change: &Change) -> PathOutcome {
        let forced = || -> Result<PathOutcome, SnapshotStoreError> {
            let copy = self.store.keep_copy(&change.path)?;
            let found = self.store.look_at(&change.path, &change.after)?;
            let put = self.store.put_back(&change.path, &found, &change.before)?;
            let how = change_between(&found, &change.before);
            let undone = Undone { path: change.path.clone(), result: Ok(put) };
            let outcome = self.outcome(&undone, &[]);
            let is_done = matches!(outcome, PathOutcome::Restored { .. });
            Ok(if is_done { PathOutcome::Restored { how, copy } } else { outcome })
        };
        forced().unwrap_or_else(|error| PathOutcome::Failed { error: error.to_string() })
    }
}

/// Returns the calls that changed a path that could not be put back but may be later.
fn left(reversals: &[Reversal], outcomes: &[RestoredPath]) -> BTreeSet<usize> {
    let stays = |outcome: &PathOutcome| {
        matches!(outcome, PathOutcome::Conflict { .. } | PathOutcome::Failed { .. })
    };
    let paths: BTreeSet<&PathBuf> =
        outcomes.iter().filter(|path| stays(&path.outcome)).map(|path| &path.path).collect();
    let stay = reversals.iter().filter(|reversal| paths.contains(&reversal.change.path));
    stay.flat_map(|reversal| reversal.calls.iter().copied()).collect()
}

/// Tells whether force helps: a folder with something in it stays in any case.
fn forcible(result: &Result<PutBack, SnapshotStoreError>) -> bool {
    matches!(result, Ok(PutBack::Conflict { found }) if !matches!(found, Entry::Folder { .. }))
}

fn change_of(path: &std::path::Path, reversals: &[Reversal]) -> FileChange {
    let reversal = reversals.iter().find(|reversal| reversal.change.path == path);
    reversal.map_or(FileChange::Modified, |reversal| {
        change_between(&reversal.change.after, &reversal.change.before)
    })
}

fn change_between(is: &Entry, becomes: &Entry) -> FileChange {
    match (is, becomes) {
        (Entry::Absent, _) => FileChange::Created,
        (_, Entry::Absent) => FileChange::Deleted,
        _ => FileChange::Modified,
    }
}

fn conflict(found: &Entry, expected: Option<&Entry>) -> String {
    match (found, expected) {
        (Entry::Absent, _) => "it was deleted since",
        (_, Some(Entry::Absent)) => "it was created again since",
        (Entry::Folder { .. }, _) => "a folder is there since",
        (Entry::Link { .. }, _) => "a link is there since",
        _ => "it was changed since",
    }
    .to_owned()
}

/// Names a call.
fn words(call: &ChangedCall) -> String {
    format!("{} `{}`", call.tool, call.title)
}

/// Sorts paths and leaves out folders that something in them stands for.
fn tidy(mut paths: Vec<RestoredPath>) -> Vec<RestoredPath> {
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    paths.dedup_by(|a, b| a.path == b.path);
    let keep: Vec<bool> = paths
        .iter()
        .enumerate()
        .map(|(at, path)| {
            let inner = paths.get(at + 1).is_some_and(|next| next.path.starts_with(&path.path));
            let plain =
                matches!(path.outcome, PathOutcome::Restored { .. } | PathOutcome::Unchanged);
            !(inner && plain)
        })
        .collect();
    let mut keep = keep.into_iter();
    paths.retain(|_| keep.next().unwrap_or(true));
    paths
}
