//! What background jobs change between calls.
//!
//! While a job runs, the files are known after each call. What differs from that when they are looked at next is the work of
//! the job, unless others were at work, too.

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

/// The jobs of all agents of this process that may change files of one workspace.
#[derive(Debug, Default)]
pub(crate) struct JobWatch(Mutex<JobWatchState>);

#[derive(Debug, Default)]
struct JobWatchState {
    jobs: Vec<WatchedJob>,
    /// The roots as they were last seen. Nothing if nobody saw it since the first job began.
    known: Option<SnapshotId>,
    /// What calls that declare their paths have made of them since.
    touched: BTreeMap<PathBuf, SnapshotEntry>,
    /// How many activities should have begun by now: those of this process are known.
    begun: u64,
    /// Others were at work since.
    mixed: bool,
    /// What was found and not yet told.
    found: Vec<JobChangeEvent>,
}

/// A job, and the call that started it.
#[derive(Debug)]
pub(crate) struct WatchedJob {
    pub(crate) jobs: Arc<AgentJobs>,
    pub(crate) id: JobId,
    pub(crate) call_id: CallId,
    /// The session of its agent.
    pub(crate) agent: SessionId,
    /// The root session.
    pub(crate) root: SessionId,
    /// Tells other sessions of it, until it is dropped.
    pub(crate) _activity: JobActivity,
    /// Tells later processes of it if this one is killed.
    pub(crate) _mark: JobMark,
}

#[derive(Debug)]
struct JobChangeEvent {
    agent: SessionId,
    event: AgentEvent,
}

impl JobWatch {
    /// Watches a job. The call that started it was the last to look at the files.
    pub(crate) fn add(&self, store: &SnapshotStore, job: WatchedJob, seen: Option<SnapshotId>) {
        let mut state = self.state();
        if state.jobs.is_empty() {
            *state = JobWatchState {
                found: std::mem::take(&mut state.found),
                ..JobWatchState::default()
            };
            state.sees(store, seen);
        }
        state.jobs.push(job);
    }

    /// Returns whether a job was at work since the files were looked at last.
    pub(crate) fn is_watching(&self) -> bool {
        !self.state().jobs.is_empty()
    }

    /// An activity of this process began in the roots of a store.
    pub(crate) fn began(&self, store: &SnapshotStore) {
        self.state().begun += store.roots().len() as u64;
    }

    /// A call or an undo changed paths. What they were right before is the work of a job, where that is not what was seen
    /// last.
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

    /// A call ended, and left the roots in this state.
    pub(crate) fn know(&self, store: &SnapshotStore, now: &SnapshotId, overlapped: bool) {
        let mut state = self.state();
        if !state.jobs.is_empty() {
            state.sees(store, Some(now.clone()));
            state.mixed = overlapped;
        }
    }

    /// Scans the roots, and finds what jobs changed since it was last seen. `activity` is the one that looks. Blocks.
    pub(crate) fn look(
        &self,
        store: &SnapshotStore,
        session: &SessionId,
        activity: &Activity,
    ) -> Result<Scan, SnapshotStoreError> {
        // What has ended by now has written all that it ever will.
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
        let found = state.find(store, &now.snapshot);
        state.sees(store, Some(now.snapshot.clone()));
        state.mixed = overlapped;
        state.jobs.retain(|job| !ended.iter().any(|(a, id)| *a == job.agent && *id == job.id));
        state.found.extend(found?);
        Ok(now)
    }

    /// Takes what was found of the jobs of an agent.
    pub(crate) fn take(&self, agent: &SessionId) -> Vec<AgentEvent> {
        let mut state = self.state();
        let (own, others): (Vec<JobChangeEvent>, Vec<JobChangeEvent>) =
            std::mem::take(&mut state.found).into_iter().partition(|found| found.agent == *agent);
        state.found = others;
        own.into_iter().map(|found| found.event).collect()
    }

    /// Forgets the jobs of an agent that has ended.
    pub(crate) fn forget(&self, agent: &SessionId) {
        self.state().jobs.retain(|job| job.agent != *agent);
    }

    fn state(&self) -> MutexGuard<'_, JobWatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobWatchState {
    fn sees(&mut self, store: &SnapshotStore, now: Option<SnapshotId>) {
        self.known = now.filter(is_of_project);
        self.touched.clear();
        self.mixed = false;
        self.begun = store.begun().unwrap_or(0);
    }

    /// Finds what jobs changed since the roots were last seen.
    fn find(
        &self,
        store: &SnapshotStore,
        now: &SnapshotId,
    ) -> Result<Option<JobChangeEvent>, SnapshotStoreError> {
        let Some(known) = &self.known else { return Ok(None) };
        let mut changes = store.changes(known, now)?;
        changes.retain(|change| !self.touched.contains_key(&change.path));
        for (path, before) in &self.touched {
            let after = store.entry(now, path)?.filter(is_known);
            if let Some(after) = after.filter(|after| after != before) {
                changes.push(PathChange { path: path.clone(), before: before.clone(), after });
            }
        }
        self.describe(store, &changes)
    }

    /// Returns what a path was when it was seen last, by a scan or by a call that wrote it.
    fn last_seen(
        &self,
        store: &SnapshotStore,
        path: &Path,
    ) -> Result<Option<SnapshotEntry>, SnapshotStoreError> {
        match (self.touched.get(path), &self.known) {
            (Some(entry), _) => Ok(Some(entry.clone())),
            (None, Some(known)) => Ok(store.entry(known, path)?.filter(is_known)),
            (None, None) => Ok(None),
        }
    }

    /// Makes changes the work of the job that began last.
    fn describe(
        &self,
        store: &SnapshotStore,
        changes: &[PathChange],
    ) -> Result<Option<JobChangeEvent>, SnapshotStoreError> {
        let Some(job) = self.jobs.last().filter(|_| !changes.is_empty()) else { return Ok(None) };
        let (before, after) = store.record(&job.root, changes)?;
        let ChangeDescription { files, counts, .. } = describe(store, changes);
        let is_mixed = self.mixed
            || self.jobs.iter().any(|other| other.root != job.root)
            || !store.begun().is_ok_and(|begun| begun == self.begun)
            || store.others_have_jobs(&job.root).unwrap_or(true);
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

/// Single paths are captured further than scans go: what a scan leaves out says nothing.
pub(crate) fn is_known(entry: &SnapshotEntry) -> bool {
    !matches!(
        entry,
        SnapshotEntry::LeftOut { .. }
            | SnapshotEntry::File { content: ContentRef::NotStored { .. }, .. }
    )
}
