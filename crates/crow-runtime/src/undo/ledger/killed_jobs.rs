//! Changes of a background job that was killed with its process.
//!
//! The files were not scanned after that job's last writes. The baseline is the last full scan by a call, updated with
//! the recorded changes of calls, jobs and undos since. Whatever differs from it now was made by the job or by somebody
//! else: it is attributed to the job, marked as cut off and shared, so that it can be undone by force.

use std::{collections::BTreeMap, path::PathBuf};

use super::ChangeLedger;
use crate::undo::{ChangedCall, UndoError};
use crate::{
    PathChange, SnapshotEntry,
    changes::{describe, is_known},
};

impl ChangeLedger {
    /// Adds the changes of a job killed with its process, if they are not in the log yet. Of several jobs, the one that
    /// began last gets them.
    pub(super) fn add_killed_job(&mut self) {
        match self.find_killed_job() {
            Ok(None) => {}
            Ok(Some(call)) => {
                self.history.killed_job = Some(call.key());
                self.history.add(call);
            }
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "what a killed job changed is not known");
            }
        }
    }

    /// Returns the changes of a job killed with its process, if they are not in the log yet.
    pub(in crate::undo) fn changed_by_killed_job(&self) -> Option<&ChangedCall> {
        let key = self.history.killed_job.as_ref()?;
        self.history.calls.iter().find(|call| call.key() == *key)
    }

    fn find_killed_job(&self) -> Result<Option<ChangedCall>, UndoError> {
        let killed = self.store.activities().killed_jobs(&self.session)?;
        let starts = self.history.job_starts.iter();
        let is_killed =
            |start: &&ChangedCall| killed.iter().any(|job| job.call_id == start.call_id);
        // Several killed jobs cannot be told apart: the latest one gets all changes.
        let Some(start) = starts.filter(is_killed).max_by_key(|start| start.started) else {
            return Ok(None);
        };
        let changes = self.changes_since_last_look()?;
        if changes.is_empty() {
            return Ok(None);
        }
        let (before, after) = self.store.record(&self.session, &changes)?;
        let described = describe(&self.store, &changes);
        Ok(Some(ChangedCall {
            seq: self.history.last_seq,
            before,
            after: Some(after),
            changes: described.counts,
            files: described.files,
            ..start.clone()
        }))
    }

    /// Returns the differences between the baseline and the current files.
    fn changes_since_last_look(&self) -> Result<Vec<PathChange>, UndoError> {
        let Some((looked, seen)) = &self.history.last_scan else { return Ok(Vec::new()) };
        let Some(roots) = self.store.roots_of(seen)? else { return Ok(Vec::new()) };
        let now = self.store.scan_roots(&self.session, &roots)?.snapshot;
        let mut changes: BTreeMap<PathBuf, PathChange> = self
            .store
            .changes(seen, &now)?
            .into_iter()
            .map(|change| (change.path.clone(), change))
            .collect();
        // Corrects the baseline by what calls, jobs and undos left since the scan.
        for (path, left) in self.left_since(*looked)? {
            let found = match changes.remove(&path) {
                Some(change) => Some(change.after),
                None => self.store.entry(&now, &path)?.filter(is_known),
            };
            if let Some(after) = found.filter(|found| *found != left && is_known(&left)) {
                changes.insert(path.clone(), PathChange { path, before: left, after });
            }
        }
        Ok(changes.into_values().collect())
    }

    /// Returns the states in which calls, jobs and undos since an event of the root left the paths that they changed.
    fn left_since(&self, seq: u64) -> Result<BTreeMap<PathBuf, SnapshotEntry>, UndoError> {
        let mut left = BTreeMap::new();
        let is_later = |at: &usize| self.history.calls.get(*at).is_some_and(|call| call.seq > seq);
        for index in 0..=self.history.calls.len() {
            let records = self.records.iter().filter(|record| {
                self.calls_before_record(record) == index
                    && record.last_seen.is_none_or(|seen| seen >= seq)
            });
            for record in records {
                let changes = self.store.changes(&record.before, &record.after)?;
                left.extend(changes.into_iter().map(|change| (change.path, change.after)));
            }
            if is_later(&index) {
                let steps = self.steps(&[index])?.into_iter();
                left.extend(steps.filter_map(|(path, steps)| {
                    Some((path, steps.into_iter().next_back()?.after))
                }));
            }
        }
        Ok(left)
    }
}
