//! Recording of changes made by background jobs, and notices about jobs to the model.

use std::sync::Arc;

use crow_core::{
    capability::{BackgroundChild, JobInfo, Jobs as _},
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    history::History,
    ids::{CallId, JobId, SessionId},
    message::{Block, Message},
    tool::ToolMetadata,
    workspace::Workspace,
};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::{AgentError, AgentInternals, agent_shared::AgentShared};
use super::{
    pipeline::{describe_moved, while_ran},
    recorder::Recorder,
};
use crate::{
    SnapshotStoreError,
    changes::{Leases, SnapshotStores, WatchedJob},
    undo::{ChangedCall, UndoError, UndoJournal},
};
use crow_sandbox::job_number;

/// Scans the workspace for changes that jobs made between calls.
#[derive(Debug, Clone)]
pub(super) struct JobScanner {
    stores: Arc<SnapshotStores>,
    leases: Arc<Leases>,
    tasks: TaskTracker,
    workspace: Workspace,
    session: SessionId,
}

impl JobScanner {
    /// Scans, unless a call is changing files right now: then the next scan finds the changes.
    async fn scan(&self) -> Result<(), SnapshotStoreError> {
        let watch = self.stores.job_watch(&self.workspace);
        let roots = self.workspace.roots();
        let lease = if watch.is_watching() { self.leases.try_take(roots) } else { None };
        let Some(lease) = lease else { return Ok(()) };
        let Self { stores, workspace, session, .. } = self.clone();
        let work = move || {
            let _lease = lease;
            let store = stores.open_workspace(&workspace)?;
            let activity = store.begin()?;
            watch.count_activity(&store);
            watch.scan(&store, &session, &activity).map(drop)
        };
        // The task is never cancelled, and a panic in it is reported by the panic hook.
        self.tasks.spawn_blocking(work).await.unwrap_or(Ok(()))
    }

    /// Scans a last time after the jobs of an agent have ended with it, and stops watching them.
    pub(super) async fn final_scan(self, shared: &AgentShared, recorder: &Recorder) {
        let watch = self.stores.job_watch(&self.workspace);
        let result = self.scan().await;
        watch.forget(&shared.id);
        if let Err(error) = result {
            tracing::warn!(session = %shared.id, %error, "what its jobs changed last is not known");
        }
        for event in watch.take(&shared.id) {
            let event = recorder.redacted(event);
            if let Err(error) = recorder.record(event, &shared.session_token).await {
                tracing::warn!(session = %shared.id, %error, "what its jobs changed last is not told");
            }
        }
    }
}

/// Notifies the user of files that were moved aside when the jobs of an agent ended with it.
pub(super) async fn report_last_moved_files(shared: &AgentShared, recorder: &Recorder) {
    let Some(sandbox) = &shared.tree.sandbox else { return };
    for moved in sandbox.take_unreported() {
        let text = describe_moved(&while_ran(&moved.running_commands), &moved);
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        let event = recorder.redacted(AgentEvent::Notice { level, audience, text });
        if let Err(error) = recorder.record(event, &shared.session_token).await {
            tracing::warn!(session = %shared.id, %error, "a file that was moved aside is not told");
        }
    }
}

impl AgentInternals {
    /// Returns the scanner for changes of jobs; `None` if no files are captured.
    pub(super) fn job_look(&self) -> Option<JobScanner> {
        Some(JobScanner {
            stores: self.config.snapshots.clone()?,
            leases: Arc::clone(&self.leases),
            tasks: self.tasks.clone(),
            workspace: self.context.workspace.clone(),
            session: self.context.root_id.clone(),
        })
    }

    /// Scans for changes of jobs since the last scan, and records them.
    pub(super) async fn scan_jobs(&mut self) -> Result<(), AgentError> {
        let Some(look) = self.job_look() else { return Ok(()) };
        if let Err(error) = look.scan().await {
            self.report_snapshot_error(&error).await?;
        }
        self.record_job_changes().await
    }

    /// Records the changes already found for this agent's jobs.
    pub(crate) async fn record_job_changes(&mut self) -> Result<(), AgentError> {
        let Some(stores) = &self.config.snapshots else { return Ok(()) };
        for event in stores.job_watch(&self.context.workspace).take(&self.shared.id) {
            self.emit(event).await?;
        }
        Ok(())
    }

    /// Records the changes of this session's jobs that were killed with an earlier process.
    pub(crate) async fn record_killed_jobs(&mut self) -> Result<(), AgentError> {
        let Some(stores) = self.config.snapshots.clone() else { return Ok(()) };
        let (config, workspace) = (self.config.clone(), self.context.workspace.clone());
        let root = self.context.root_id.clone();
        let work = move || -> Result<_, UndoError> {
            let store = stores.open_workspace(&workspace)?;
            let killed = store.killed_jobs(&root)?;
            if killed.is_empty() {
                return Ok(None);
            }
            let journal = UndoJournal::open(&config, &root)?;
            Ok(Some((killed, journal.changed_by_killed_job().cloned())))
        };
        // 1) Killed jobs and the files that they changed.
        let task = self.tasks.spawn_blocking(work);
        let found = match self.wait_for_scan(task).await? {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let text = format!("the changes of a killed background job are unknown: {error}");
                return self.report_warning(text).await;
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
            self.emit(event).await?;
        }
        // The marks are removed last: if this process is killed before, the next one finds them.
        for job in killed {
            if let Err(error) = job.forget() {
                self.report_snapshot_error(&error).await?;
            }
        }
        Ok(())
    }

    /// Starts to watch the job that a call started, if it started one that still runs.
    pub(crate) async fn watch_job(
        &mut self,
        call_id: &CallId,
        metadata: &ToolMetadata,
    ) -> Result<(), AgentError> {
        let Some(stores) = self.config.snapshots.clone() else { return Ok(()) };
        let extra = &metadata.extra;
        let id = extra.get(JobInfo::EXTRA_KEY).and_then(Value::as_str);
        let Some(id) = id.filter(|_| extra.get(JobInfo::RUNNING_KEY).is_none()) else {
            return Ok(());
        };
        let (workspace, session) = (self.context.workspace.clone(), self.context.root_id.clone());
        let (jobs, call_id, agent) =
            (Arc::clone(&self.jobs), call_id.clone(), self.shared.id.clone());
        let (id, seen) = (JobId::new(id), metadata.snapshot_after.clone());
        let work = move || {
            let store = stores.open_workspace(&workspace)?;
            let activity = store.begin_job(&session)?;
            let mark = store.mark_job(&session, &call_id)?;
            let job = WatchedJob {
                jobs,
                id,
                call_id,
                agent,
                root: session,
                _activity: activity,
                _mark: mark,
            };
            stores.job_watch(&workspace).add(&store, job, seen);
            Ok(())
        };
        match self.tasks.spawn_blocking(work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => self.report_snapshot_error(&error).await,
            Err(error) => Err(AgentError::Custom(Box::new(error))),
        }
    }

    /// Tells the model of jobs that ended and whose end it has not seen, each once.
    pub(super) async fn report_ended_jobs(&mut self) -> Result<(), AgentError> {
        let ended = self.jobs.take_ended();
        if ended.is_empty() {
            return Ok(());
        }
        let lines = ended.iter().map(|JobInfo { id, title, state, .. }| {
            format!("{id} ({title}) {state}; its output was not read")
        });
        self.add_notice(lines.collect::<Vec<_>>().join("\n")).await
    }

    /// Tells the model which jobs and background tasks ended with an earlier process of the session. Consults the
    /// history each time, since it may have been rewound to before the model was told.
    pub(super) async fn report_gone_jobs(&mut self) -> Result<(), AgentError> {
        let gone = self.gone_jobs();
        if gone.is_empty() {
            return Ok(());
        }
        self.add_notice(gone.iter().map(|id| gone_line(id)).collect::<Vec<_>>().join("\n")).await
    }

    /// Returns the jobs and tasks of earlier processes that the model believes to be running.
    fn gone_jobs(&self) -> Vec<String> {
        let mut running: Vec<String> = Vec::new();
        let jobs = jobs_in(&self.history).filter(|(id, _)| self.jobs.is_earlier(id));
        let is_earlier = |id: &str| self.children.background.is_earlier(id);
        let tasks = named_in(&self.history, BackgroundChild::EXTRA_KEY);
        for (id, metadata) in jobs.chain(tasks.filter(|(id, _)| is_earlier(id))) {
            running.retain(|other| *other != id);
            if metadata.extra.get(JobInfo::RUNNING_KEY) != Some(&Value::Bool(false)) {
                running.push(id);
            }
        }
        if running.is_empty() {
            return Vec::new();
        }
        // The history yields no messages while calls are open; the model is not called then.
        let Ok(messages) = self.history.messages() else { return Vec::new() };
        // Jobs whose end the model was told of already are left out.
        for line in messages.iter().flat_map(|message| texts(message)).flat_map(str::lines) {
            running.retain(|id| !reports_end(line, id));
        }
        running
    }
}

/// Returns the highest job number in the results of the history.
pub(super) fn last_job(history: &History) -> u64 {
    jobs_in(history).filter_map(|(id, _)| job_number(&id)).max().unwrap_or(0)
}

/// Returns the job ids in the results of the history, with the metadata of the results.
fn jobs_in(history: &History) -> impl Iterator<Item = (String, ToolMetadata)> {
    named_in(history, JobInfo::EXTRA_KEY)
}

/// Returns the names under `key` in the results of the history, with the metadata of the results.
pub(super) fn named_in(
    history: &History,
    key: &'static str,
) -> impl Iterator<Item = (String, ToolMetadata)> {
    history.results_with_extra(key).filter_map(move |metadata| {
        let name = metadata.extra.get(key)?.as_str()?.to_owned();
        Some((name, metadata))
    })
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = match message {
        Message::User(user) => user.content.as_slice(),
        Message::Assistant(_) | Message::Results(_) => &[],
    };
    blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    })
}

/// Returns true if the line is one that reports the end of a job.
fn reports_end(line: &str, id: &str) -> bool {
    line == gone_line(id) || line.strip_prefix(id).is_some_and(|rest| rest.starts_with(" ("))
}

fn gone_line(id: &str) -> String {
    format!(
        "{id} no longer exists: it ended with the program that ran it, before this session was resumed"
    )
}
