//! Running of prepared calls.
//!
//! All ready calls of a batch run concurrently on the agent's task. Their results start out as cancelled and are
//! replaced when a call finishes, so that calls dropped after [`CANCEL_GRACE`] are already answered correctly. `guards`
//! maps the index of each running call to its lease and recording.

use std::{
    collections::BTreeMap, panic::AssertUnwindSafe, path::PathBuf, pin::Pin, sync::PoisonError,
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::{CallId, ReplyId},
    tool::{Access, Effects, Progress, ToolRegistry, ToolResult},
    turn::Validity,
};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{
    ExecutedCall,
    call_reports::CallReports,
    changes::ChangeGuard,
    output_bound::bound_output,
    prepare::{PreparedCall, ReadyCall, not_run},
};
use crate::agent::{AgentError, AgentInternals, panic_message};

/// Time for a call to stop by itself after a cancel, before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// Returns the paths that a call declares to write.
pub(super) fn written_paths(effects: &Effects) -> Vec<PathBuf> {
    match effects {
        Effects::Paths(paths) => {
            let written = paths.iter().filter(|effect| effect.access == Access::Write);
            written.map(|effect| effect.path.clone()).collect()
        }
        Effects::None | Effects::Unknown | Effects::UserCommands => Vec::new(),
    }
}

type RunningCall<'a> = Pin<Box<dyn Future<Output = (usize, ToolResult, u64)> + Send + 'a>>;

impl AgentInternals {
    /// Runs the calls of a batch concurrently and records each result when it arrives.
    pub(super) async fn run_batch(
        &mut self,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        batch: Vec<PreparedCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let mut executed = Vec::with_capacity(batch.len());
        let mut guards = BTreeMap::new();
        let mut running: FuturesUnordered<RunningCall<'_>> = FuturesUnordered::new();
        let mut reports = CallReports::default();
        // 1) Lease, capture and start event of each call.
        for (index, prepared) in batch.into_iter().enumerate() {
            match prepared {
                PreparedCall::Answered(answer) => executed.push(*answer),
                PreparedCall::Ready(ready) if cancel.is_cancelled() => {
                    let call = ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                    self.record_end(reply_id, &call).await?;
                    executed.push(call);
                }
                PreparedCall::Ready(ready) => {
                    let Some(guard) = self.begin_changes(&ready, cancel).await? else {
                        let call =
                            ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                        self.record_end(reply_id, &call).await?;
                        executed.push(call);
                        continue;
                    };
                    self.record_start(reply_id, &ready, &guard).await?;
                    // Pushed in batch order, so `index` addresses the call in `executed`.
                    executed.push(cancelled_until_done(&ready));
                    guards.insert(index, guard);
                    let report = reports.begin(index, &ready.ctx.call_id, &self.config.redactor);
                    running.push(self.start(tools, index, *ready, report));
                }
            }
        }
        // 2) Results, progress output and questions, until all calls ended or the grace period is over.
        let patience = stop_patience(cancel);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                // Results have priority, so that a call that reports without pause cannot delay the end of any call.
                biased;
                finished = running.next() => match finished {
                    None => break,
                    Some((index, result, duration_ms)) => {
                        // The rest of the progress output precedes the end of the call.
                        if let Some((call_id, said)) = reports.end(index) {
                            self.report(call_id, said).await?;
                        }
                        if let Some(call) = executed.get_mut(index) {
                            call.result = result;
                            call.result.metadata.duration_ms = duration_ms;
                            call.duration_ms = duration_ms;
                            self.finish(reply_id, call, guards.remove(&index)).await?;
                        }
                    }
                },
                () = &mut patience => break,
                event = self.next_to_record() => self.record_for(event).await?,
                () = reports.wait_for_output() => for (call_id, said) in reports.take() {
                    self.report(call_id, said).await?;
                },
            }
        }
        drop(running);
        // 3) Calls that did not stop in time were dropped above; they are answered as cancelled.
        for (index, guard) in guards {
            if let Some((call_id, said)) = reports.end(index) {
                self.report(call_id, said).await?;
            }
            if let Some(call) = executed.get_mut(index) {
                self.finish(reply_id, call, Some(guard)).await?;
            }
        }
        self.report_moved_files().await?;
        self.ask_about_moved_files(cancel).await?;
        Ok(executed)
    }

    async fn report(&mut self, call_id: CallId, output: String) -> Result<(), AgentError> {
        if !output.is_empty() && self.history().is_open(&call_id) {
            self.emit(AgentEvent::CallProgress { call_id, output }).await?;
        }
        Ok(())
    }

    async fn record_start(
        &mut self,
        reply_id: &ReplyId,
        ready: &ReadyCall,
        guard: &ChangeGuard,
    ) -> Result<(), AgentError> {
        let tool = ready.resolved.tool.name().to_owned();
        self.emit(AgentEvent::CallStart {
            call_id: ready.ctx.call_id.clone(),
            reply_id: reply_id.clone(),
            tool: tool.clone(),
            title: ready.plan.title.clone(),
            arguments: ready.resolved.input.clone(),
            snapshot: guard.before().cloned(),
        })
        .await?;
        self.set_state(AgentState::ExecutingTool(tool)).await
    }

    fn start<'a>(
        &self,
        tools: &'a ToolRegistry,
        index: usize,
        ready: ReadyCall,
        report: Progress,
    ) -> RunningCall<'a> {
        let ReadyCall { resolved, plan, permit, mut ctx } = ready;
        let redactor = self.config.redactor.clone();
        ctx.progress = report;
        let clock = std::sync::Arc::clone(&self.config.clock);
        let scratch = self.context.scratch.clone();
        let written = written_paths(&plan.effects);
        let sandbox = self.shared.tree.sandbox.clone().filter(|_| !written.is_empty());
        Box::pin(async move {
            let started = clock.monotonic();
            let name = resolved.tool.name().to_owned();
            let work = tools.execute(permit, &name, resolved.input, &plan, &ctx);
            let caught = AssertUnwindSafe(work).catch_unwind().await;
            if let Some(sandbox) = sandbox {
                // The change was permitted, so the sandbox must not attribute it to commands that run at the same time.
                sandbox.adopt(&written);
            }
            let mut result = caught.unwrap_or_else(|panic| {
                ToolResult::failure(format!(
                    "the tool {name} panicked: {}",
                    panic_message(panic.as_ref())
                ))
            });
            for repair in resolved.repairs.iter().rev() {
                result.output.insert_str(0, &format!("[{repair}]\n"));
            }
            // Redacted before the output is cut: half a secret is a secret, too.
            redactor.redact_result(&mut result);
            let result = bound_output(result, scratch.as_deref(), &ctx.call_id);
            let elapsed = clock.monotonic().saturating_sub(started);
            (index, result, u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
        })
    }

    async fn finish(
        &mut self,
        reply_id: &ReplyId,
        call: &mut ExecutedCall,
        guard: Option<ChangeGuard>,
    ) -> Result<(), AgentError> {
        if let Some(guard) = guard {
            self.finish_changes(guard, &mut call.result).await?;
        }
        self.record_end(reply_id, call).await?;
        self.watch_job(&call.id, &call.result.metadata).await?;
        let metadata = &call.result.metadata;
        if !metadata.files_modified.is_empty() {
            let files = metadata.files_modified.clone();
            let snapshot = metadata.snapshot_after.clone();
            self.emit(AgentEvent::FilesChanged { call_id: call.id.clone(), files, snapshot })
                .await?;
        }
        if metadata.extra.get("todos").is_some() {
            let items =
                self.context.todo.lock().unwrap_or_else(PoisonError::into_inner).items().to_vec();
            self.emit(AgentEvent::Plan { items }).await?;
        }
        Ok(())
    }
}

/// Returns the provisional answer of a call until it has a result: cancelled.
fn cancelled_until_done(ready: &ReadyCall) -> ExecutedCall {
    ExecutedCall {
        id: ready.ctx.call_id.clone(),
        name: ready.resolved.tool.name().to_owned(),
        arguments: ready.resolved.input.clone(),
        result: ToolResult::cancelled(),
        duration_ms: 0,
        validity: Validity::Valid,
        ends_turn: ready.resolved.tool.ends_turn(),
        denial: None,
    }
}

/// Completes when the grace period after a cancel is over.
async fn stop_patience(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}
