//! Detection of changes made by background jobs between calls.
//!
//! While a job runs, the state of the files is known after each call (the baseline: a snapshot, plus the paths that
//! calls wrote since). Differences found at the next scan were made by the job, unless others were active as well
//! (`mixed`); then they are marked as shared. Several jobs cannot be told apart: the one that began last gets all
//! changes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    event::AgentEvent,
    ids::{CallId, JobId, SessionId, SnapshotId},
};

use super::{ChangeDescription, describe};
use crate::{
    Activity, ContentRef, JobActivity, PathChange, Scan, SnapshotEntry, SnapshotStore,
    SnapshotStoreError,
};
use crow_sandbox::AgentJobs;
use crow_snapshot::{JobMark, is_of_project};

/// The watched jobs of all agents of this process in one workspace.
#[derive(Debug, Default)]
pub(crate) struct JobWatch(Mutex<JobWatchState>);

#[derive(Debug, Default)]
struct JobWatchState {
    jobs: Vec<WatchedJob>,
    /// Snapshot of the roots when they were last scanned; `None` if there was no scan since the first job began.
    baseline: Option<SnapshotId>,
    /// States written since the baseline by calls that declare their paths.
    touched: BTreeMap<PathBuf, SnapshotEntry>,
    /// Expected value of the store's activity counter: the last one read plus the activities of this process since. A
    /// different value means that others were active.
    begun: u64,
    /// True if others were active since the baseline.
    mixed: bool,
    /// Changes that were found and not taken yet.
    found: Vec<JobChangeEvent>,
}

/// A job and the call that started it.
#[derive(Debug)]
pub(crate) struct WatchedJob {
    pub(crate) jobs: Arc<AgentJobs>,
    pub(crate) id: JobId,
    pub(crate) call_id: CallId,
    /// The session of its agent.
    pub(crate) agent: SessionId,
    /// The root session.
    pub(crate) root: SessionId,
    /// Announces the job to other sessions until dropped.
    pub(crate) _activity: JobActivity,
    /// Mark on disk for later processes, in case this one is killed.
    pub(crate) _mark: JobMark,
}

#[derive(Debug)]
struct JobChangeEvent {
    agent: SessionId,
    event: AgentEvent,
}

impl JobWatch {
    /// Starts to watch a job. `seen` is the snapshot after the call that started it.
    pub(crate) fn add(&self, store: &SnapshotStore, job: WatchedJob, seen: Option<SnapshotId>) {
        let mut state = self.state();
        if state.jobs.is_empty() {
            *state = JobWatchState {
                found: std::mem::take(&mut state.found),
                ..JobWatchState::default()
            };
            state.set_baseline(store, seen);
        }
        state.jobs.push(job);
    }

    /// Returns true if a job was running since the last scan.
    pub(crate) fn is_watching(&self) -> bool {
        !self.state().jobs.is_empty()
    }

    /// Counts an activity of this process in the roots of a store.
    pub(crate) fn count_activity(&self, store: &SnapshotStore) {
        self.state().begun += store.roots().len() as u64;
    }

    /// Records paths changed by a call or an undo. If the state just before their change differs from the baseline, a
    /// job made the difference.
    pub(crate) fn touch(
        &self,
        store: &SnapshotStore,
        changes: Vec<PathChange>,
    ) -> Result<(), SnapshotStoreError> {
        let mut state = self.state();
        if state.jobs.is_empty() {
            return Ok(());
        }
        let mut by_job = Vec::new();
        // For the job, the state before the call's change is the state after its own.
        for PathChange { path, before: after, .. } in &changes {
            let before = state.last_seen(store, path)?.filter(|_| is_known(after));
            if let Some(before) = before.filter(|before| before != after) {
                by_job.push(PathChange { path: path.clone(), before, after: after.clone() });
            }
        }
        let found = state.describe(store, &by_job)?;
        state.found.extend(found);
        let states = changes.into_iter().map(|change| (change.path, change.after));
        state.touched.extend(states);
        Ok(())
    }

    /// Sets the baseline to the state after a call.
    pub(crate) fn set_baseline(&self, store: &SnapshotStore, now: &SnapshotId, overlapped: bool) {
        let mut state = self.state();
        if !state.jobs.is_empty() {
            state.set_baseline(store, Some(now.clone()));
            state.mixed = overlapped;
        }
    }

    /// Scans the roots and finds the changes of jobs since the baseline. `activity` is that of the scan itself. Blocks.
    pub(crate) fn scan(
        &self,
        store: &SnapshotStore,
        session: &SessionId,
        activity: &Activity,
    ) -> Result<Scan, SnapshotStoreError> {
        // Determined before the scan: jobs that have ended by now have written everything.
        let ended: Vec<(SessionId, JobId)> = {
            let state = self.state();
            let ended = state.jobs.iter().filter(|job| !job.jobs.is_running(&job.id));
            ended.map(|job| (job.agent.clone(), job.id.clone())).collect()
        };
        let now = store.scan(session)?;
        let mut state = self.state();
        if state.jobs.is_empty() {
            return Ok(now);
        }
        let overlapped = activity.overlapped();
        state.mixed |= overlapped;
        let found = state.find_changes(store, &now.snapshot);
        state.set_baseline(store, Some(now.snapshot.clone()));
        state.mixed = overlapped;
        state.jobs.retain(|job| !ended.iter().any(|(a, id)| *a == job.agent && *id == job.id));
        state.found.extend(found?);
        Ok(now)
    }

    /// Takes the changes found for the jobs of an agent.
    pub(crate) fn take(&self, agent: &SessionId) -> Vec<AgentEvent> {
        let mut state = self.state();
        let (own, others): (Vec<JobChangeEvent>, Vec<JobChangeEvent>) =
            std::mem::take(&mut state.found).into_iter().partition(|found| found.agent == *agent);
        state.found = others;
        own.into_iter().map(|found| found.event).collect()
    }

    /// Stops watching the jobs of an agent that has ended.
    pub(crate) fn forget(&self, agent: &SessionId) {
        self.state().jobs.retain(|job| job.agent != *agent);
    }

    fn state(&self) -> MutexGuard<'_, JobWatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobWatchState {
    fn set_baseline(&mut self, store: &SnapshotStore, now: Option<SnapshotId>) {
        self.baseline = now.filter(is_of_project);
        self.touched.clear();
        self.mixed = false;
        self.begun = store.activities().count().unwrap_or(0);
    }

    /// Finds the changes of jobs since the baseline.
    fn find_changes(
        &self,
        store: &SnapshotStore,
        now: &SnapshotId,
    ) -> Result<Option<JobChangeEvent>, SnapshotStoreError> {
        let Some(baseline) = &self.baseline else { return Ok(None) };
        let mut changes = store.changes(baseline, now)?;
        // Paths written by calls are compared with what the calls wrote, not with the scan.
        changes.retain(|change| !self.touched.contains_key(&change.path));
        for (path, before) in &self.touched {
            let after = store.entry(now, path)?.filter(is_known);
            if let Some(after) = after.filter(|after| after != before) {
                changes.push(PathChange { path: path.clone(), before: before.clone(), after });
            }
        }
        self.describe(store, &changes)
    }

    /// Returns the last known state of a path, from the baseline or from a call that wrote it.
    fn last_seen(
        &self,
        store: &SnapshotStore,
        path: &Path,
    ) -> Result<Option<SnapshotEntry>, SnapshotStoreError> {
        match (self.touched.get(path), &self.baseline) {
            (Some(entry), _) => Ok(Some(entry.clone())),
            (None, Some(baseline)) => Ok(store.entry(baseline, path)?.filter(is_known)),
            (None, None) => Ok(None),
        }
    }

    /// Attributes changes to the job that began last.
    fn describe(
        &self,
        store: &SnapshotStore,
        changes: &[PathChange],
    ) -> Result<Option<JobChangeEvent>, SnapshotStoreError> {
        let Some(job) = self.jobs.last().filter(|_| !changes.is_empty()) else { return Ok(None) };
        let (before, after) = store.record(&job.root, changes)?;
        let ChangeDescription { files, counts, .. } = describe(store, changes);
        // Shared if anyone else was active: another session here, an unexpected activity, or a job elsewhere.
        let is_mixed = self.mixed
            || self.jobs.iter().any(|other| other.root != job.root)
            || !store.activities().count().is_ok_and(|begun| begun == self.begun)
            || store.activities().others_have_jobs(&job.root).unwrap_or(true);
        let call_id = job.call_id.clone();
        let event = AgentEvent::JobChanges {
            call_id,
            files,
            before,
            after,
            changes: counts,
            shared: is_mixed,
            cut_off: false,
        };
        Ok(Some(JobChangeEvent { agent: job.agent.clone(), event }))
    }
}

/// Returns true if the entry says something about the content. Single paths are captured more completely than scans, so
/// an entry that a scan left out must not count as a difference.
pub(crate) fn is_known(entry: &SnapshotEntry) -> bool {
    !matches!(
        entry,
        SnapshotEntry::Unscanned { .. }
            | SnapshotEntry::File { content: ContentRef::NotStored { .. }, .. }
    )
}
