//! Write leases and change recording around a call.

use std::{pin::pin, sync::Arc, time::Duration};

use crow_core::{
    event::AgentEvent,
    ids::{CallId, SessionId, SnapshotId},
    tool::ToolResult,
    workspace::Workspace,
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    NotScanned,
    agent::{
        AgentError,
        job_changes::{JobChanges, report_snapshot_error},
        session_writer::SessionWriter,
    },
    changes::{ChangeRecording, ChangeScope, Lease, Leases},
    config::RuntimeConfig,
};

/// The lease and the recording of a call that may change files.
#[derive(Debug, Default)]
pub(super) struct ChangeGuard {
    _lease: Option<Lease>,
    recording: Option<ChangeRecording>,
}

impl ChangeGuard {
    /// Returns the snapshot before the call.
    pub(super) fn before(&self) -> Option<&SnapshotId> {
        self.recording.as_ref().map(ChangeRecording::before)
    }
}

/// Duration of a scan after which the user is notified.
const LONG_SCAN: Duration = Duration::from_secs(1);
const SCANNING: &str = "reading the files of the project, so that changes can be undone";

/// Records the changes of the calls of an agent, so that they can be undone, and makes calls that change files wait for
/// one another.
pub(crate) struct ChangeTracker {
    config: Arc<RuntimeConfig>,
    workspace: Workspace,
    /// The root session.
    root: SessionId,
    leases: Arc<Leases>,
    tasks: TaskTracker,
    jobs: JobChanges,
}

/// Parts of a new [`ChangeTracker`].
pub(crate) struct ChangeTrackerParts {
    pub config: Arc<RuntimeConfig>,
    pub workspace: Workspace,
    pub root: SessionId,
    pub leases: Arc<Leases>,
    pub tasks: TaskTracker,
    pub jobs: JobChanges,
}

/// The changes that a call may make.
pub(super) struct ExpectedChanges {
    pub scope: ChangeScope,
    /// True if no other call may change files meanwhile.
    pub is_exclusive: bool,
}

impl ChangeTracker {
    pub(crate) fn new(parts: ChangeTrackerParts) -> Self {
        let ChangeTrackerParts { config, workspace, root, leases, tasks, jobs } = parts;
        Self { config, workspace, root, leases, tasks, jobs }
    }

    /// Returns the changes of background jobs between the calls.
    pub(crate) fn jobs(&self) -> &JobChanges {
        &self.jobs
    }

    /// Waits until a call may change files, and captures the files that it may change. Returns `None` if cancelled
    /// meanwhile.
    pub(super) async fn begin(
        &self,
        session: &mut SessionWriter,
        call_id: &CallId,
        expected: ExpectedChanges,
        cancel: &CancellationToken,
    ) -> Result<Option<ChangeGuard>, AgentError> {
        let ExpectedChanges { scope, is_exclusive } = expected;
        // 1) The lease.
        let lease = if is_exclusive {
            let Some(lease) = self.lease(session, call_id, cancel).await? else { return Ok(None) };
            Some(lease)
        } else {
            None
        };
        // 2) The capture. A slow first one is announced as a wait of the call.
        let Some(stores) = self.config.snapshots.clone() else {
            return Ok(Some(ChangeGuard { _lease: lease, recording: None }));
        };
        let (workspace, root) = (self.workspace.clone(), self.root.clone());
        let watch = stores.job_watch(&workspace);
        let span = tracing::debug_span!("capture", moment = "before");
        let started = self.config.clock.monotonic();
        let in_span = span.clone();
        let work = move || {
            let _entered = in_span.enter();
            ChangeRecording::begin(stores.open_workspace(&workspace)?, watch, root, &scope)
        };
        let mut begun = self.tasks.spawn_blocking(work);
        let in_time = timeout(LONG_SCAN, cancel.run_until_cancelled(&mut begun)).await;
        let begun = if let Ok(begun) = in_time {
            begun
        } else {
            let (call_id, reason) = (call_id.clone(), SCANNING.to_owned());
            session.emit(AgentEvent::CallWait { call_id, reason }).await?;
            cancel.run_until_cancelled(begun).await
        };
        let Some(begun) = begun else { return Ok(None) };
        let recording = match begun {
            Ok(Ok(recording)) => {
                let duration_ms = self.config.since(started).as_millis();
                span.in_scope(|| tracing::debug!(duration_ms, "files captured"));
                self.jobs.record_found(session).await?;
                report_not_scanned(session, recording.not_scanned()).await?;
                Some(recording)
            }
            Ok(Err(error)) => {
                report_snapshot_error(session, &error).await?;
                None
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        };
        Ok(Some(ChangeGuard { _lease: lease, recording }))
    }

    async fn lease(
        &self,
        session: &mut SessionWriter,
        call_id: &CallId,
        cancel: &CancellationToken,
    ) -> Result<Option<Lease>, AgentError> {
        let roots = self.workspace.roots();
        if let Some(lease) = self.leases.try_take(roots) {
            return Ok(Some(lease));
        }
        let reason = "another agent changes files here".to_owned();
        session.emit(AgentEvent::CallWait { call_id: call_id.clone(), reason }).await?;
        let started = self.config.clock.monotonic();
        let lease = cancel.run_until_cancelled(self.leases.take(roots)).await;
        let duration_ms = self.config.since(started).as_millis();
        tracing::debug!(is_taken = lease.is_some(), duration_ms, "waited for the write lease");
        Ok(lease)
    }

    /// Captures the changes of a call and adds them to its result, then releases the lease. Not interrupted by a
    /// cancel, since undo depends on it.
    pub(super) async fn finish(
        &self,
        session: &mut SessionWriter,
        guard: ChangeGuard,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let ChangeGuard { _lease: lease, recording } = guard;
        if let Some(recording) = recording {
            self.end_recording(session, recording, result).await?;
        }
        drop(lease);
        Ok(())
    }

    async fn end_recording(
        &self,
        session: &mut SessionWriter,
        recording: ChangeRecording,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let before = recording.before().clone();
        let span = tracing::debug_span!("capture", moment = "after");
        let started = self.config.clock.monotonic();
        let in_span = span.clone();
        match self.tasks.spawn_blocking(move || in_span.in_scope(|| recording.end())).await {
            Ok(Ok(recorded)) => {
                let duration_ms = self.config.since(started).as_millis();
                span.in_scope(|| tracing::debug!(duration_ms, "files captured"));
                report_not_scanned(session, recorded.not_scanned()).await?;
                recorded.add_to(&mut result.metadata);
            }
            Ok(Err(error)) => {
                result.metadata.snapshot_before = Some(before);
                report_snapshot_error(session, &error).await?;
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        }
        Ok(())
    }

    /// Adds the changes since the start of a call that was cut off to its result.
    pub(super) async fn record_cut_off(
        &self,
        session: &mut SessionWriter,
        before: SnapshotId,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let Some(stores) = self.config.snapshots.clone() else { return Ok(()) };
        let (workspace, root) = (self.workspace.clone(), self.root.clone());
        let cut_off = before.clone();
        let watch = stores.job_watch(&workspace);
        let sessions = Arc::clone(&self.config.store);
        let work = move || {
            let undos = sessions.undos(&root).unwrap_or_else(|error| {
                tracing::warn!(session = %root, %error, "what undos wrote is taken for the work of a call");
                Vec::new()
            });
            let copies = undos.into_iter().flat_map(|undo| undo.copies).collect();
            let store = stores.open_workspace(&workspace)?;
            ChangeRecording::of_cut_off(store, watch, root, cut_off, copies)
        };
        match self.tasks.spawn_blocking(work).await {
            Ok(Ok(recording)) => self.end_recording(session, recording, result).await,
            Ok(Err(error)) => {
                result.metadata.snapshot_before = Some(before);
                report_snapshot_error(session, &error).await
            }
            Err(error) => Err(AgentError::Custom(Box::new(error))),
        }
    }
}

/// Waits for a scan of the project's files. Notifies the user if it takes long, such as the first scan of a large
/// project.
pub(crate) async fn wait_for_scan<T>(
    session: &mut SessionWriter,
    scan: impl Future<Output = T>,
) -> Result<T, AgentError> {
    let mut scan = pin!(scan);
    if let Ok(output) = timeout(LONG_SCAN, &mut scan).await {
        return Ok(output);
    }
    session.inform_user(SCANNING.to_owned()).await?;
    Ok(scan.await)
}

/// Warns the user about roots whose changes cannot be undone, once for each.
async fn report_not_scanned(
    session: &mut SessionWriter,
    roots: &[NotScanned],
) -> Result<(), AgentError> {
    for NotScanned { root, reason } in roots {
        let root = root.display();
        let text = format!("changes of commands in {root} cannot be undone from now on: {reason}");
        session.warn_user_once(text).await?;
    }
    Ok(())
}
