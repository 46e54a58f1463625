//! Recording of the changes that background jobs make between calls.

use std::sync::Arc;

use crow_core::{
    capability::JobInfo,
    event::AgentEvent,
    ids::{CallId, JobId, SessionId},
    tool::ToolMetadata,
    workspace::Workspace,
};
use crow_sandbox::AgentJobs;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::{
    AgentError, agent_shared::AgentShared, pipeline::wait_for_scan, recorder::Recorder,
    session_writer::SessionWriter,
};
use crate::{
    SnapshotStoreError,
    changes::{JobWatch, Leases, SnapshotStores, WatchedJob},
    config::RuntimeConfig,
    undo::{ChangedCall, UndoError, UndoJournal},
};

/// Records the changes that the background jobs of an agent make between its calls. Does nothing if no files are
/// captured.
#[derive(Debug, Clone)]
pub(crate) struct JobChanges {
    config: Arc<RuntimeConfig>,
    jobs: Arc<AgentJobs>,
    /// The session of the agent.
    agent: SessionId,
    scanner: Option<JobScanner>,
}

/// Parts of new [`JobChanges`].
pub(super) struct JobChangesParts {
    pub config: Arc<RuntimeConfig>,
    pub jobs: Arc<AgentJobs>,
    pub agent: SessionId,
    pub root: SessionId,
    pub workspace: Workspace,
    pub leases: Arc<Leases>,
    pub tasks: TaskTracker,
}

/// Scans the workspace for changes that jobs made between calls.
#[derive(Debug, Clone)]
struct JobScanner {
    stores: Arc<SnapshotStores>,
    leases: Arc<Leases>,
    tasks: TaskTracker,
    workspace: Workspace,
    root: SessionId,
}

impl JobScanner {
    fn watch(&self) -> Arc<JobWatch> {
        self.stores.job_watch(&self.workspace)
    }

    /// Scans, unless a call is changing files right now: then the next scan finds the changes.
    async fn scan(&self) -> Result<(), SnapshotStoreError> {
        let watch = self.watch();
        let roots = self.workspace.roots();
        let lease = if watch.is_watching() { self.leases.try_take(roots) } else { None };
        let Some(lease) = lease else { return Ok(()) };
        let Self { stores, workspace, root, .. } = self.clone();
        let work = move || {
            let _lease = lease;
            let store = stores.open_workspace(&workspace)?;
            let activity = store.activities().begin()?;
            watch.count_activity(&store);
            watch.scan(&store, &root, &activity).map(drop)
        };
        // The task is never cancelled, and a panic in it is reported by the panic hook.
        self.tasks.spawn_blocking(work).await.unwrap_or(Ok(()))
    }
}

impl JobChanges {
    pub(super) fn new(parts: JobChangesParts) -> Self {
        let JobChangesParts { config, jobs, agent, root, workspace, leases, tasks } = parts;
        let stores = config.snapshots.clone();
        let scanner = stores.map(|stores| JobScanner { stores, leases, tasks, workspace, root });
        Self { config, jobs, agent, scanner }
    }

    /// Scans for changes of jobs since the last scan, and records them.
    pub(super) async fn scan(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        if let Err(error) = scanner.scan().await {
            report_snapshot_error(session, &error).await?;
        }
        self.record_found(session).await
    }

    /// Records the changes already found for this agent's jobs.
    pub(super) async fn record_found(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        for event in scanner.watch().take(&self.agent) {
            session.emit(event).await?;
        }
        Ok(())
    }

    /// Records the changes of this session's jobs that were killed with an earlier process.
    pub(super) async fn record_killed(
        &self,
        session: &mut SessionWriter,
    ) -> Result<(), AgentError> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        let (config, stores) = (Arc::clone(&self.config), Arc::clone(&scanner.stores));
        let (workspace, root) = (scanner.workspace.clone(), scanner.root.clone());
        let work = move || -> Result<_, UndoError> {
            let store = stores.open_workspace(&workspace)?;
            let killed = store.activities().killed_jobs(&root)?;
            if killed.is_empty() {
                return Ok(None);
            }
            let journal = UndoJournal::read(&config, &root)?;
            Ok(Some((killed, journal.changed_by_killed_job().cloned())))
        };
        // 1) Killed jobs and the files that they changed.
        let task = scanner.tasks.spawn_blocking(work);
        let found = match wait_for_scan(session, task).await? {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let text = format!("the changes of a killed background job are unknown: {error}");
                return session.warn_user(text).await;
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        };
        let Some((killed, call)) = found else { return Ok(()) };
        // 2) The event.
        if let Some(ChangedCall { call_id, files, before, after: Some(after), changes, .. }) = call
        {
            let (shared, cut_off) = (true, true);
            let event =
                AgentEvent::JobChanges { call_id, files, before, after, changes, shared, cut_off };
            session.emit(event).await?;
        }
        // The marks are removed last: if this process is killed before, the next one finds them.
        for job in killed {
            if let Err(error) = job.forget() {
                report_snapshot_error(session, &error).await?;
            }
        }
        Ok(())
    }

    /// Starts to watch the job that a call started, if it started one that still runs.
    pub(super) async fn watch(
        &self,
        session: &mut SessionWriter,
        call_id: &CallId,
        metadata: &ToolMetadata,
    ) -> Result<(), AgentError> {
        let Some(scanner) = &self.scanner else { return Ok(()) };
        let extra = &metadata.extra;
        let id = extra.get(JobInfo::EXTRA_KEY).and_then(Value::as_str);
        let Some(id) = id.filter(|_| extra.get(JobInfo::RUNNING_KEY).is_none()) else {
            return Ok(());
        };
        let JobScanner { stores, workspace, root, .. } = scanner.clone();
        let (jobs, call_id, agent) = (Arc::clone(&self.jobs), call_id.clone(), self.agent.clone());
        let (id, seen) = (JobId::new(id), metadata.snapshot_after.clone());
        let work = move || {
            let store = stores.open_workspace(&workspace)?;
            let activity = store.activities().begin_job(&root)?;
            let mark = store.activities().mark_job(&root, &call_id)?;
            let job =
                WatchedJob { jobs, id, call_id, agent, root, _activity: activity, _mark: mark };
            stores.job_watch(&workspace).add(&store, job, seen);
            Ok(())
        };
        match scanner.tasks.spawn_blocking(work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => report_snapshot_error(session, &error).await,
            Err(error) => Err(AgentError::Custom(Box::new(error))),
        }
    }

    /// Ends the jobs.
    pub(super) async fn end_jobs(&self) {
        self.jobs.end().await;
    }

    /// Scans a last time after the jobs of an agent have ended with it, and stops watching them.
    pub(super) async fn final_scan(&self, shared: &AgentShared, recorder: &Recorder) {
        let Some(scanner) = &self.scanner else { return };
        let watch = scanner.watch();
        let result = scanner.scan().await;
        watch.forget(&self.agent);
        if let Err(error) = result {
            tracing::warn!(session = %self.agent, %error, "what its jobs changed last is not known");
        }
        for event in watch.take(&self.agent) {
            let event = recorder.redacted(event);
            if let Err(error) = recorder.record(event, &shared.session_token).await {
                tracing::warn!(session = %self.agent, %error, "what its jobs changed last is not told");
            }
        }
    }
}

/// Warns the user that changes cannot be undone, once for each reason.
pub(super) async fn report_snapshot_error(
    session: &mut SessionWriter,
    error: &SnapshotStoreError,
) -> Result<(), AgentError> {
    session.warn_user_once(format!("changes of calls cannot be undone from now on: {error}")).await
}
