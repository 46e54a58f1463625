//! What calls did to each path, and what it was between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crow_core::ids::SnapshotId;

use super::{
    UndoError, UndoJournal,
    compose::{Reversal, Step, reversals},
};
use crate::{Change, Entry, WhyNotCovered};

impl UndoJournal {
    pub(super) fn reversals(&self, calls: &[usize]) -> Result<Vec<Reversal>, UndoError> {
        Ok(reversals(self.steps(calls)?))
    }

    /// Returns what calls did to each path.
    pub(super) fn steps(&self, calls: &[usize]) -> Result<BTreeMap<PathBuf, Vec<Step>>, UndoError> {
        let mut steps: BTreeMap<PathBuf, Vec<Step>> = BTreeMap::new();
        for at in calls {
            let Some(call) = self.told.calls.get(*at) else { continue };
            let changes = match &call.after {
                Some(after) => self.store.changes(&call.before, after)?,
                None => self.changes_of_cut_off(*at, &call.before)?,
            };
            for Change { path, before, after } in changes {
                if let (Entry::Absent, Entry::LeftOut { why: WhyNotCovered::Repository }) =
                    (&before, &after)
                {
                    // What a repository keeps is never taken away.
                    continue;
                }
                let step = Step { call: *at, before, after, shared: call.shared };
                steps.entry(path).or_default().push(step);
            }
        }
        Ok(steps)
    }

    /// Returns what calls did to each path, without those whose states are lost.
    fn known_steps(&self, calls: &[usize]) -> BTreeMap<PathBuf, Vec<Step>> {
        let mut known: BTreeMap<PathBuf, Vec<Step>> = BTreeMap::new();
        for at in calls {
            match self.steps(std::slice::from_ref(at)) {
                Ok(steps) => {
                    for (path, mut steps) in steps {
                        known.entry(path).or_default().append(&mut steps);
                    }
                }
                Err(error) => tracing::warn!(session = %self.id, %error, "a call is left out"),
            }
        }
        known
    }

    /// Returns what changed until a call that was cut off had ended: until the next one that looked at the same root, so that
    /// what came later is not taken for the call's, or else until now.
    fn changes_of_cut_off(&self, at: usize, before: &SnapshotId) -> Result<Vec<Change>, UndoError> {
        let Some(mut open) = self.store.roots_of(before)? else {
            let paths = self.store.paths_of(before)?.unwrap_or_default();
            let now = self.store.capture(&self.id, &paths)?.snapshot;
            return Ok(self.store.changes(before, &now)?);
        };
        let mut changes = Vec::new();
        for later in self.told.calls.get(at + 1..).unwrap_or_default() {
            if open.is_empty() {
                break;
            }
            let Some(found) = self.store.roots_of(&later.before)? else { continue };
            let (seen, rest): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|root| found.contains(root));
            open = rest;
            changes
                .extend(self.store.changes_in(before, &later.before, |root| {
                    seen.iter().any(|own| own == root)
                })?);
        }
        if !open.is_empty() {
            let now = self.store.scan_roots(&self.id, &open)?.snapshot;
            changes.extend(self.store.changes(before, &now)?);
        }
        Ok(changes)
    }

    /// Returns the further roots of calls, and of the session, that are not where they were, although no call removed them.
    pub(super) fn gone_roots(&self, calls: &[usize]) -> Result<Vec<PathBuf>, UndoError> {
        let mut roots: BTreeSet<PathBuf> = self.store.roots().iter().cloned().collect();
        for call in calls.iter().filter_map(|at| self.told.calls.get(*at)) {
            roots.extend(self.store.roots_of(&call.before)?.unwrap_or_default());
        }
        let is_removed = |root: &Path| {
            self.told.calls.iter().filter(|call| !call.undone).any(|call| {
                call.after.as_ref().is_some_and(|after| self.store.is_empty(after, root))
                    && !self.store.is_empty(&call.before, root)
            })
        };
        roots.retain(|root| root != self.store.root() && !root.exists() && !is_removed(root));
        Ok(roots.into_iter().collect())
    }

    /// Returns what a path, and what is in it, was when so many calls had been made.
    ///
    /// What changed since a call was cut off need not be its work: of that it is not certain.
    pub(super) fn state_at(
        &self,
        path: &Path,
        place: usize,
    ) -> Result<Vec<(PathBuf, Entry, bool)>, UndoError> {
        let all: Vec<usize> = (0..self.told.calls.len()).collect();
        let mut states = Vec::new();
        for (changed, steps) in self.known_steps(&all) {
            if !changed.starts_with(path) {
                continue;
            }
            let before = steps.iter().rev().find(|step| step.call < place).map(|step| &step.after);
            let state = before.or_else(|| steps.first().map(|step| &step.before));
            let is_whole = |step: &Step| {
                self.told.calls.get(step.call).is_some_and(|call| call.after.is_some())
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

    /// Looks for a path that no call changed in what was captured around a point.
    fn seen_at(&self, path: &Path, place: usize) -> Result<Option<Entry>, UndoError> {
        let before = place.checked_sub(1).and_then(|at| self.told.calls.get(at));
        let before = before.and_then(|call| call.after.as_ref());
        let after = self.told.calls.get(place).map(|call| &call.before);
        for snapshot in before.into_iter().chain(after) {
            match self.store.entry(snapshot, path)? {
                Some(Entry::Absent) | None => {}
                Some(entry) => return Ok(Some(entry)),
            }
        }
        Ok(None)
    }
}
