//! The steps of each path: what calls and restores changed, computed from snapshots.
//!
//! A step is one change of one path by one author. Steps are listed per path in chronological order, calls and restores
//! interleaved, and changes of jobs are moved to where they happened. A call that was cut off has no snapshot after it:
//! its changes reach up to the next call that scanned the same root, or up to now.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crow_core::ids::SnapshotId;

use super::ChangeLedger;
use crate::undo::{
    CallKey, ChangedCall, UndoAction, UndoError, UndoRecord,
    reversal::{PathStep, Reversal, StepAuthor, order_jobs, reversal},
    undone_steps::Author,
};
use crate::{NotCoveredReason, PathChange, SnapshotEntry};

impl ChangeLedger {
    /// Returns the reversals of the changes of chosen calls and restores, one per path.
    pub(in crate::undo) fn reversals(
        &self,
        chosen: &[StepAuthor],
    ) -> Result<Vec<Reversal>, UndoError> {
        let calls = chosen.iter().map(|author| match author {
            StepAuthor::Call(at) => *at,
            StepAuthor::Restore(at) => self.calls_before_record_at(*at),
        });
        let Some(first) = calls.min() else { return Ok(Vec::new()) };
        let chosen: BTreeSet<StepAuthor> = chosen.iter().copied().collect();
        let steps = self.open_steps(first)?.into_iter();
        Ok(steps
            .filter_map(|(path, steps)| reversal(path, &steps, |author| chosen.contains(&author)))
            .collect())
    }

    /// Returns the changes that are not undone, per path and in order: those of calls with index `from` or later, and
    /// those of restores between them.
    pub(in crate::undo) fn open_steps(
        &self,
        from: usize,
    ) -> Result<BTreeMap<PathBuf, Vec<PathStep>>, UndoError> {
        let restores: Vec<(usize, usize)> = self
            .records
            .iter()
            .enumerate()
            .filter(|(_, record)| record.action == UndoAction::Restore)
            .map(|(at, _)| (self.calls_before_record_at(at), at))
            .filter(|(place, _)| *place >= from)
            .collect();
        let mut by_path: BTreeMap<PathBuf, Vec<PathStep>> = BTreeMap::new();
        let mut add = |steps: Vec<(PathBuf, PathStep)>| {
            for (path, step) in steps {
                by_path.entry(path).or_default().push(step);
            }
        };
        for place in from..=self.history.calls.len() {
            for (_, at) in restores.iter().filter(|(own, _)| *own == place) {
                add(self.steps_of_restore(*at)?);
            }
            if self.history.calls.get(place).is_some_and(|call| !call.undone) {
                add(self.open_steps_of_call(place)?);
            }
        }
        // Job changes are recorded late, so they move to where they fit into the chain.
        by_path.values_mut().for_each(order_jobs);
        Ok(by_path)
    }

    /// Returns the changes of a call that are not undone.
    fn open_steps_of_call(&self, at: usize) -> Result<Vec<(PathBuf, PathStep)>, UndoError> {
        let mut steps = self.steps_of_call(at)?;
        if let Some(key) = self.history.calls.get(at).map(ChangedCall::key) {
            let author = Author::Call(&key);
            if self.undone.is_mentioned(author) {
                steps.retain(|(path, _)| !self.undone.is_undone(author, path));
            }
        }
        Ok(steps)
    }

    /// Returns the changes of a call, undone or not.
    fn steps_of_call(&self, at: usize) -> Result<Vec<(PathBuf, PathStep)>, UndoError> {
        let Some(call) = self.history.calls.get(at) else { return Ok(Vec::new()) };
        let changes = match &call.after {
            Some(after) => self.store.changes(&call.before, after)?,
            None => self.changes_of_cut_off(at, &call.before)?,
        };
        let is_repository = |change: &PathChange| {
            // A repository is never removed by an undo.
            let left_out = SnapshotEntry::Unscanned { why: NotCoveredReason::Repository };
            change.before == SnapshotEntry::Absent && change.after == left_out
        };
        // The end of the call was not seen, so copies that undos wrote since are among the changes.
        let is_copy = |change: &PathChange| {
            let mut copies = self.records.iter().flat_map(|record| &record.copies);
            call.cut_off
                && change.before == SnapshotEntry::Absent
                && copies.any(|copy| *copy == change.path)
        };
        let is_of_call = |change: &PathChange| !is_repository(change) && !is_copy(change);
        let (author, shared) = (StepAuthor::Call(at), call.shared);
        let by_job = call.seq != call.started;
        let step = |PathChange { path, before, after }| {
            (path, PathStep { author, before, after, shared, by_job })
        };
        Ok(changes.into_iter().filter(is_of_call).map(step).collect())
    }

    /// Returns the changes of a restore that are not undone.
    pub(in crate::undo) fn steps_of_restore(
        &self,
        at: usize,
    ) -> Result<Vec<(PathBuf, PathStep)>, UndoError> {
        let Some(record) = self.records.get(at) else { return Ok(Vec::new()) };
        let author = StepAuthor::Restore(at);
        let is_open =
            |change: &PathChange| !self.undone.is_undone(Author::Restore(&record.id), &change.path);
        let step = |PathChange { path, before, after }| {
            (path, PathStep { author, before, after, shared: false, by_job: false })
        };
        let changes = self.store.changes(&record.before, &record.after)?;
        Ok(changes.into_iter().filter(is_open).map(step).collect())
    }

    /// Returns the number of calls made before the record with index `at`.
    pub(in crate::undo) fn calls_before_record_at(&self, at: usize) -> usize {
        self.records
            .get(at)
            .map_or(self.history.calls.len(), |record| self.calls_before_record(record))
    }

    /// Returns the number of calls made before a record.
    pub(in crate::undo) fn calls_before_record(&self, record: &UndoRecord) -> usize {
        match record.last_seen {
            Some(seen) => self.history.calls.partition_point(|call| call.seq <= seen),
            // A record of an older version has no `last_seen`.
            None => self.history.calls.partition_point(|call| call.time <= record.time),
        }
    }

    /// Returns the changes of calls per path, undone or not.
    pub(in crate::undo) fn steps(
        &self,
        calls: &[usize],
    ) -> Result<BTreeMap<PathBuf, Vec<PathStep>>, UndoError> {
        let mut steps: BTreeMap<PathBuf, Vec<PathStep>> = BTreeMap::new();
        for at in calls {
            for (path, step) in self.steps_of_call(*at)? {
                steps.entry(path).or_default().push(step);
            }
        }
        steps.values_mut().for_each(order_jobs);
        Ok(steps)
    }

    /// Sets `undone` of each call: true if none of its changes is in effect.
    pub(super) fn mark_undone(&mut self) {
        let is_undone = |at: usize, key: &CallKey| {
            let author = Author::Call(key);
            if !self.undone.is_mentioned(author) {
                return false;
            }
            match self.steps_of_call(at) {
                Ok(steps) if !steps.is_empty() => {
                    steps.iter().all(|(path, _)| self.undone.is_undone(author, path))
                }
                Ok(_) => true,
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "whether a call is undone is not known");
                    false
                }
            }
        };
        let undone: Vec<bool> = self
            .history
            .calls
            .iter()
            .enumerate()
            .map(|(at, call)| is_undone(at, &call.key()))
            .collect();
        for (call, undone) in self.history.calls.iter_mut().zip(undone) {
            call.undone = undone;
        }
    }

    /// Returns the changes of calls per path, without calls whose snapshots are lost.
    fn known_steps(&self, calls: &[usize]) -> BTreeMap<PathBuf, Vec<PathStep>> {
        let mut by_path: BTreeMap<PathBuf, Vec<PathStep>> = BTreeMap::new();
        for at in calls {
            match self.steps(std::slice::from_ref(at)) {
                Ok(steps) => {
                    for (path, mut steps) in steps {
                        by_path.entry(path).or_default().append(&mut steps);
                    }
                }
                Err(error) => tracing::warn!(session = %self.session, %error, "a call is left out"),
            }
        }
        by_path
    }

    /// Returns the changes up to the end of a call that was cut off: for each root up to the next call that scanned it,
    /// so that later changes are not attributed to this call, else up to now.
    fn changes_of_cut_off(
        &self,
        at: usize,
        before: &SnapshotId,
    ) -> Result<Vec<PathChange>, UndoError> {
        let Some(mut remaining) = self.store.roots_of(before)? else {
            let paths = self.store.paths_of(before)?;
            let paths = paths.expect("invariant: a snapshot without roots is one of single paths");
            let now = self.store.capture(&self.session, &paths)?.snapshot;
            return Ok(self.store.changes(before, &now)?);
        };
        let mut changes = Vec::new();
        for later in &self.history.calls[at + 1..] {
            if remaining.is_empty() {
                break;
            }
            let Some(scanned) = self.store.roots_of(&later.before)? else { continue };
            // The state before the next call that scanned a root ends the changes of the cut-off call there.
            let (covered, rest): (Vec<_>, Vec<_>) =
                remaining.into_iter().partition(|root| scanned.contains(root));
            remaining = rest;
            changes.extend(
                self.store.changes_in(before, &later.before, |root| {
                    covered.iter().any(|own| own == root)
                })?,
            );
        }
        if !remaining.is_empty() {
            let now = self.store.scan_roots(&self.session, &remaining)?.snapshot;
            changes.extend(self.store.changes(before, &now)?);
        }
        Ok(changes)
    }

    /// Returns the roots, other than the project, that are missing although no call removed them. Includes former roots
    /// of the given calls.
    pub(in crate::undo) fn gone_roots(&self, calls: &[usize]) -> Result<Vec<PathBuf>, UndoError> {
        let mut roots: BTreeSet<PathBuf> = self.store.roots().iter().cloned().collect();
        for call in calls.iter().filter_map(|at| self.history.calls.get(*at)) {
            roots.extend(self.store.roots_of(&call.before)?.unwrap_or_default());
        }
        // A call removed the root if it was not empty before the call and is empty after it.
        let is_removed = |root: &Path| {
            self.history.calls.iter().filter(|call| !call.undone).any(|call| {
                call.after.as_ref().is_some_and(|after| self.store.is_empty(after, root))
                    && !self.store.is_empty(&call.before, root)
            })
        };
        roots.retain(|root| root != self.store.root() && !root.exists() && !is_removed(root));
        Ok(roots.into_iter().collect())
    }

    /// Returns the states of a path and of everything in it before the call with index `place`, each with a flag that
    /// is false if it is uncertain.
    ///
    /// Changes since a call that was cut off need not be its work: a path changed only by such calls is uncertain.
    pub(in crate::undo) fn state_at(
        &self,
        path: &Path,
        place: usize,
    ) -> Result<Vec<(PathBuf, SnapshotEntry, bool)>, UndoError> {
        let all: Vec<usize> = (0..self.history.calls.len()).collect();
        let mut states = Vec::new();
        for (changed, steps) in self.known_steps(&all) {
            if !changed.starts_with(path) {
                continue;
            }
            let is_before =
                |step: &&PathStep| matches!(step.author, StepAuthor::Call(at) if at < place);
            // The state after the last earlier step, or else the state before the first step.
            let before = steps.iter().rev().find(is_before).map(|step| &step.after);
            let state = before.or_else(|| steps.first().map(|step| &step.before));
            let is_whole = |step: &PathStep| match step.author {
                StepAuthor::Call(at) => {
                    self.history.calls.get(at).is_some_and(|call| call.after.is_some())
                }
                StepAuthor::Restore(_) => true,
            };
            let is_certain = steps.iter().any(is_whole);
            states.extend(state.map(|state| (changed, state.clone(), is_certain)));
        }
        if states.is_empty() {
            let seen = self.seen_at(path, place)?;
            states.extend(seen.map(|entry| (path.to_path_buf(), entry, true)));
        }
        if states.is_empty() {
            let path = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
            return Err(UndoError::UnknownPath { path });
        }
        Ok(states)
    }

    /// Looks up a path that no call changed in the snapshots around a point.
    fn seen_at(&self, path: &Path, place: usize) -> Result<Option<SnapshotEntry>, UndoError> {
        let before = place.checked_sub(1).and_then(|at| self.history.calls.get(at));
        let before = before.and_then(|call| call.after.as_ref());
        let after = self.history.calls.get(place).map(|call| &call.before);
        for snapshot in before.into_iter().chain(after) {
            match self.store.entry(snapshot, path)? {
                Some(SnapshotEntry::Absent) | None => {}
                Some(entry) => return Ok(Some(entry)),
            }
        }
        Ok(None)
    }
}
