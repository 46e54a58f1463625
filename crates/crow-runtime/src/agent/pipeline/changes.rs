//! Write leases and change recording around a call.

use std::{pin::pin, sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::SnapshotId,
    tool::{Subject, ToolCategory, ToolResult},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::prepare::ReadyCall;
use crate::{
    NotScanned, SnapshotStoreError,
    agent::{AgentError, AgentInternals},
    changes::{ChangeRecording, ChangeScope, Lease},
};

/// Number of recent problem notices that are not repeated.
const KEPT_TROUBLES: usize = 20;

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
const LONG_LOOK: Duration = Duration::from_secs(1);
const LOOKING: &str = "reading the files of the project, so that changes can be undone";

impl AgentInternals {
    /// Waits for a scan of the project's files. Notifies the user if it takes long, such as the first scan of a large
    /// project.
    pub async fn wait_for_scan<T>(
        &mut self,
        look: impl Future<Output = T>,
    ) -> Result<T, AgentError> {
        let mut look = pin!(look);
        if let Ok(output) = timeout(LONG_LOOK, &mut look).await {
            return Ok(output);
        }
        let (level, audience) = (NoticeLevel::Info, NoticeAudience::User);
        self.emit(AgentEvent::Notice { level, audience, text: LOOKING.to_owned() }).await?;
        Ok(look.await)
    }

    /// Waits until a call may change files, and captures the files that it may change. Returns `None` if cancelled
    /// meanwhile, and an empty guard if the call cannot change anything.
    pub(super) async fn begin_changes(
        &mut self,
        ready: &ReadyCall,
        cancel: &CancellationToken,
    ) -> Result<Option<ChangeGuard>, AgentError> {
        let tool = &ready.resolved.tool;
        let scope = ChangeScope::of_effects(&ready.plan.effects);
        let Some(scope) = scope.filter(|_| tool.category() != ToolCategory::Read) else {
            return Ok(Some(ChangeGuard::default()));
        };
        // The sandbox prevents any change: no lease is needed, and there is nothing to capture.
        if self.is_to_run_read_only(ready) && self.can_enforce_read_only().await {
            return Ok(Some(ChangeGuard::default()));
        }
        // A call run outside may wait for a person, so it takes no lease and its changes count as shared. A call that
        // starts agents takes none either: it would deadlock with them.
        let lease = if tool.is_delegated() || tool.category() == ToolCategory::Agent {
            None
        } else {
            let Some(lease) = self.lease(ready, cancel).await? else { return Ok(None) };
            Some(lease)
        };
        let Some(stores) = self.config.snapshots.clone() else {
            return Ok(Some(ChangeGuard { _lease: lease, recording: None }));
        };
        let (workspace, session) = (self.context.workspace.clone(), self.context.root_id.clone());
        let watch = stores.job_watch(&workspace);
        let work = move || {
            ChangeRecording::begin(stores.open_workspace(&workspace)?, watch, session, &scope)
        };
        // A slow first capture is announced as a wait of the call.
        let mut begun = self.tasks.spawn_blocking(work);
        let in_time = timeout(LONG_LOOK, cancel.run_until_cancelled(&mut begun)).await;
        let begun = if let Ok(begun) = in_time {
            begun
        } else {
            let (call_id, reason) = (ready.ctx.call_id.clone(), LOOKING.to_owned());
            self.emit(AgentEvent::CallWait { call_id, reason }).await?;
            cancel.run_until_cancelled(begun).await
        };
        let Some(begun) = begun else { return Ok(None) };
        let recording = match begun {
            Ok(Ok(recording)) => {
                self.record_job_changes().await?;
                self.tell_not_scanned(recording.not_scanned()).await?;
                Some(recording)
            }
            Ok(Err(error)) => {
                self.report_snapshot_error(&error).await?;
                None
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        };
        Ok(Some(ChangeGuard { _lease: lease, recording }))
    }

    /// Returns true if the command of a call runs with the read-only profile, if there is a sandbox.
    fn is_to_run_read_only(&self, ready: &ReadyCall) -> bool {
        match &ready.plan.subject {
            Subject::Command(line) => line.only_reads() || self.runner.is_read_only(),
            Subject::Nothing | Subject::Path(_) => false,
        }
    }

    async fn lease(
        &mut self,
        ready: &ReadyCall,
        cancel: &CancellationToken,
    ) -> Result<Option<Lease>, AgentError> {
        let roots = self.context.workspace.roots().to_vec();
        if let Some(lease) = self.leases.try_take(&roots) {
            return Ok(Some(lease));
        }
        let reason = "another agent changes files here".to_owned();
        self.emit(AgentEvent::CallWait { call_id: ready.ctx.call_id.clone(), reason }).await?;
        let leases = Arc::clone(&self.leases);
        Ok(cancel.run_until_cancelled(leases.take(&roots)).await)
    }

    /// Captures the changes of a call and adds them to its result, then releases the lease. Not interrupted by a
    /// cancel, since undo depends on it.
    pub(super) async fn finish_changes(
        &mut self,
        guard: ChangeGuard,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let ChangeGuard { _lease: lease, recording } = guard;
        if let Some(recording) = recording {
            self.end_recording(recording, result).await?;
        }
        drop(lease);
        Ok(())
    }

    async fn end_recording(
        &mut self,
        recording: ChangeRecording,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let before = recording.before().clone();
        match self.tasks.spawn_blocking(move || recording.end()).await {
            Ok(Ok(recorded)) => {
                self.tell_not_scanned(recorded.not_scanned()).await?;
                recorded.add_to(&mut result.metadata);
            }
            Ok(Err(error)) => {
                result.metadata.snapshot_before = Some(before);
                self.report_snapshot_error(&error).await?;
            }
            Err(error) => return Err(AgentError::Custom(Box::new(error))),
        }
        Ok(())
    }

    /// Adds the changes since the start of a call that was cut off to its result.
    pub(crate) async fn record_cut_off(
        &mut self,
        before: SnapshotId,
        result: &mut ToolResult,
    ) -> Result<(), AgentError> {
        let Some(stores) = self.config.snapshots.clone() else { return Ok(()) };
        let (workspace, session) = (self.context.workspace.clone(), self.context.root_id.clone());
        let cut_off = before.clone();
        let watch = stores.job_watch(&workspace);
        let sessions = Arc::clone(&self.config.store);
        let work = move || {
            let undos = sessions.undos(&session).unwrap_or_else(|error| {
                tracing::warn!(%session, %error, "what undos wrote is taken for the work of a call");
                Vec::new()
            });
            let copies = undos.into_iter().flat_map(|undo| undo.copies).collect();
            let store = stores.open_workspace(&workspace)?;
            ChangeRecording::of_cut_off(store, watch, session, cut_off, copies)
        };
        match self.tasks.spawn_blocking(work).await {
            Ok(Ok(recording)) => self.end_recording(recording, result).await,
            Ok(Err(error)) => {
                result.metadata.snapshot_before = Some(before);
                self.report_snapshot_error(&error).await
            }
            Err(error) => Err(AgentError::Custom(Box::new(error))),
        }
    }

    /// Notifies the user that changes cannot be undone, once for each reason.
    pub(crate) async fn report_snapshot_error(
        &mut self,
        error: &SnapshotStoreError,
    ) -> Result<(), AgentError> {
        self.tell_once(format!("changes of calls cannot be undone from now on: {error}")).await
    }

    /// Notifies the user about roots whose changes cannot be undone, once for each.
    async fn tell_not_scanned(&mut self, roots: &[NotScanned]) -> Result<(), AgentError> {
        for NotScanned { root, reason } in roots {
            let root = root.display();
            let text =
                format!("changes of commands in {root} cannot be undone from now on: {reason}");
            self.tell_once(text).await?;
        }
        Ok(())
    }

    async fn tell_once(&mut self, text: String) -> Result<(), AgentError> {
        if self.reported_errors.contains(&text) {
            return Ok(());
        }
        if self.reported_errors.len() == KEPT_TROUBLES {
            self.reported_errors.pop_front();
        }
        self.reported_errors.push_back(text.clone());
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        self.emit(AgentEvent::Notice { level, audience, text }).await
    }
}
