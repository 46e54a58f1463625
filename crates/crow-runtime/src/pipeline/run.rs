//! Running calls that may run.

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

/// How long a call may take to stop by itself after a cancel, before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// Returns the paths that a call may write to.
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
    /// Runs the calls of a batch side by side and records each result when it comes.
    pub(super) async fn run_batch(
        &mut self,
        tools: &ToolRegistry,
        reply_id: &ReplyId,
        batch: Vec<PreparedCall>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let mut executed = Vec::with_capacity(batch.len());
        let mut holds = BTreeMap::new();
        let mut running: FuturesUnordered<RunningCall<'_>> = FuturesUnordered::new();
        let mut reports = CallReports::default();
        for (index, prepared) in batch.into_iter().enumerate() {
            match prepared {
                PreparedCall::Answered(answer) => executed.push(*answer),
                PreparedCall::Ready(ready) if cancel.is_cancelled() => {
                    let call = ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                    self.record_end(reply_id, &call).await?;
                    executed.push(call);
                }
                PreparedCall::Ready(ready) => {
                    let Some(held) = self.hold(&ready, cancel).await? else {
                        let call =
                            ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                        self.record_end(reply_id, &call).await?;
                        executed.push(call);
                        continue;
                    };
                    self.record_start(reply_id, &ready, &held).await?;
                    executed.push(cancelled_until_done(&ready));
                    holds.insert(index, held);
                    let report = reports.begin(index, &ready.ctx.call_id, &self.config.redactor);
                    running.push(self.start(tools, index, *ready, report));
                }
            }
        }
        let patience = stop_patience(cancel);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                // Calls first: one that reports without pause must not keep others, or itself, from ending.
                biased;
                finished = running.next() => match finished {
                    None => break,
                    Some((index, result, duration_ms)) => {
                        // What a call said stands before its end.
                        if let Some((call_id, said)) = reports.end(index) {
                            self.report(call_id, said).await?;
                        }
                        if let Some(call) = executed.get_mut(index) {
                            call.result = result;
                            call.result.metadata.duration_ms = duration_ms;
                            call.duration_ms = duration_ms;
                            self.finish(reply_id, call, holds.remove(&index)).await?;
                        }
                    }
                },
                () = &mut patience => break,
                event = self.next_to_record() => self.record_for(event).await?,
                () = reports.said() => for (call_id, said) in reports.take() {
                    self.report(call_id, said).await?;
                },
            }
        }
        drop(running);
        // Calls that did not stop in time were dropped; they are answered as cancelled.
        for (index, held) in holds {
            if let Some((call_id, said)) = reports.end(index) {
                self.report(call_id, said).await?;
            }
            if let Some(call) = executed.get_mut(index) {
                self.finish(reply_id, call, Some(held)).await?;
            }
        }
        self.tell_moved_files().await?;
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
        held: &ChangeGuard,
    ) -> Result<(), AgentError> {
        let tool = ready.resolved.tool.name().to_owned();
        self.emit(AgentEvent::CallStart {
            call_id: ready.ctx.call_id.clone(),
            reply_id: reply_id.clone(),
            tool: tool.clone(),
            title: ready.plan.title.clone(),
            arguments: ready.resolved.input.clone(),
            snapshot: held.before().cloned(),
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
            let begun = clock.monotonic();
            let name = resolved.tool.name().to_owned();
            let work = tools.execute(permit, &name, resolved.input, &plan, &ctx);
            let caught = AssertUnwindSafe(work).catch_unwind().await;
            if let Some(sandbox) = sandbox {
                // It was permitted: commands that run beside it are not to blame.
                sandbox.adopt(&written);
            }
            let mut result = caught.unwrap_or_else(|panic| {
                ToolResult::failure(format!(
                    "the tool {name} broke down: {}",
                    panic_message(panic.as_ref())
                ))
            });
            for repair in resolved.repairs.iter().rev() {
                result.output.insert_str(0, &format!("[{repair}]\n"));
            }
            // Before anything is cut: half a secret is a secret, too.
            redactor.redact_result(&mut result);
            let result = bound_output(result, scratch.as_deref(), &ctx.call_id);
            let taken = clock.monotonic().saturating_sub(begun);
            (index, result, u64::try_from(taken.as_millis()).unwrap_or(u64::MAX))
        })
    }

    async fn finish(
        &mut self,
        reply_id: &ReplyId,
        call: &mut ExecutedCall,
        held: Option<ChangeGuard>,
    ) -> Result<(), AgentError> {
        if let Some(held) = held {
            self.let_go(held, &mut call.result).await?;
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

/// What a call is taken for until it has a result: cancelled.
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

/// Ends when calls had their time to stop after a cancel.
async fn stop_patience(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}
