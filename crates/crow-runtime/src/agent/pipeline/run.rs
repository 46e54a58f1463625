//! Running of prepared calls.
//!
//! All ready calls of a batch run concurrently on the agent's task. Their results start out as cancelled and are
//! replaced when a call finishes, so that calls dropped after [`CANCEL_GRACE`] are already answered correctly. `guards`
//! maps the index of each running call to its lease, its recording and its span.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    panic::AssertUnwindSafe,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, AgentState},
    file_views::{ContentHash, FileView, FileViews},
    hooks::{HookKind, HookMoment, HookOutcome},
    ids::CallId,
    tool::{Access, AgentContext, Effects, Progress, ToolCategory, ToolResult, ToolStatus},
    turn::Validity,
};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::{
    ExecutedCall,
    call::ReplyCalls,
    call_reports::CallReports,
    changes::{ChangeGuard, ExpectedChanges},
    output_bound::bound_output,
    prepare::{PreparedCall, ReadyCall, not_run},
};
use crate::{
    agent::{AgentError, hook_port::HookPort, panic_message},
    changes::ChangeScope,
};

/// Time for a call to stop by itself after a cancel, before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(3);
/// Time for the hooks after a cancelled call.
const CANCELLED_HOOKS: Duration = Duration::from_millis(500);
/// Size in bytes of the largest file that is compared after hooks.
const MOST_COMPARED: u64 = 64 << 20;

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

type RunningCall<'a> = Pin<Box<dyn Future<Output = EndedCall> + Send + 'a>>;

/// A call that ended by itself.
struct EndedCall {
    /// Its position in the batch.
    index: usize,
    result: ToolResult,
    duration_ms: u64,
    /// What hooks say beside the result.
    hooked: HookOutcome,
}

impl<'a> ReplyCalls<'a> {
    /// Runs the calls of a batch concurrently and records each result when it arrives.
    pub(super) async fn run_batch(
        &mut self,
        batch: Vec<PreparedCall>,
    ) -> Result<Vec<ExecutedCall>, AgentError> {
        let cancel = self.cancel;
        let mut executed = Vec::with_capacity(batch.len());
        let mut guards = BTreeMap::new();
        let mut running: FuturesUnordered<RunningCall<'a>> = FuturesUnordered::new();
        let mut reports = CallReports::default();
        // 1) Lease, capture and start event of each call.
        for (index, prepared) in batch.into_iter().enumerate() {
            match prepared {
                PreparedCall::Answered(answer) => executed.push(*answer),
                PreparedCall::Ready(ready) if cancel.is_cancelled() => {
                    let call = ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                    self.record_end(&call).await?;
                    executed.push(call);
                }
                PreparedCall::Ready(ready) => {
                    let span = ready.span.clone();
                    let begun = Box::pin(self.begin_changes(&ready));
                    let Some(guard) = begun.instrument(span.clone()).await? else {
                        let call =
                            ExecutedCall { result: not_run(), ..cancelled_until_done(&ready) };
                        self.record_end(&call).await?;
                        executed.push(call);
                        continue;
                    };
                    self.record_start(&ready, &guard).await?;
                    // Pushed in batch order, so `index` addresses the call in `executed`.
                    executed.push(cancelled_until_done(&ready));
                    guards.insert(index, (guard, span));
                    let redactor = &self.pipeline.config.redactor;
                    let report = reports.begin(index, &ready.ctx.call_id, redactor);
                    running.push(self.start(index, *ready, report));
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
                    Some(EndedCall { index, result, duration_ms, hooked }) => {
                        // The rest of the progress output precedes the end of the call.
                        if let Some((call_id, said)) = reports.end(index) {
                            self.report(call_id, said).await?;
                        }
                        if let Some(call) = executed.get_mut(index) {
                            call.result = result;
                            call.result.metadata.duration_ms = duration_ms;
                            call.duration_ms = duration_ms;
                            let (guard, span) = guards.remove(&index).unzip();
                            let span = span.unwrap_or_else(Span::none);
                            Box::pin(self.finish(call, guard)).instrument(span).await?;
                            self.session.show_notices(hooked.notices).await?;
                            self.pipeline.hook_results.add(hooked.context, hooked.stop);
                        }
                    }
                },
                () = &mut patience => break,
                request = self.pipeline.record_queue.next() => request.record(self.session).await?,
                () = reports.wait_for_output() => for (call_id, said) in reports.take() {
                    self.report(call_id, said).await?;
                },
            }
        }
        drop(running);
        // 3) Calls that did not stop in time were dropped above; they are answered as cancelled.
        for (index, (guard, span)) in guards {
            if let Some((call_id, said)) = reports.end(index) {
                self.report(call_id, said).await?;
            }
            if let Some(call) = executed.get_mut(index) {
                Box::pin(self.finish(call, Some(guard))).instrument(span).await?;
            }
        }
        self.pipeline.report_moved_files(self.session).await?;
        self.pipeline.ask_about_moved_files(self.session, cancel).await?;
        Ok(executed)
    }

    async fn report(&mut self, call_id: CallId, output: String) -> Result<(), AgentError> {
        if !output.is_empty() && self.session.history().is_open(&call_id) {
            self.session.emit(AgentEvent::CallProgress { call_id, output }).await?;
        }
        Ok(())
    }

    /// Waits until a call may change files, and captures the files that it may change. Returns `None` if cancelled
    /// meanwhile, and an empty guard if the call cannot change anything.
    async fn begin_changes(
        &mut self,
        ready: &ReadyCall,
    ) -> Result<Option<ChangeGuard>, AgentError> {
        let tool = &ready.resolved.tool;
        let scope = ChangeScope::of_effects(&ready.plan.effects);
        let Some(scope) = scope.filter(|_| tool.category() != ToolCategory::Read) else {
            return Ok(Some(ChangeGuard::default()));
        };
        // The sandbox prevents any change: no lease is needed, and there is nothing to capture.
        let sandbox = &self.pipeline.sandbox;
        if sandbox.runs_read_only(&ready.plan) && sandbox.can_enforce_read_only().await {
            return Ok(Some(ChangeGuard::default()));
        }
        // A call run outside may wait for a person, so it takes no lease and its changes count as shared. A call that
        // starts agents takes none either: it would deadlock with them.
        let is_exclusive = !tool.is_delegated() && tool.category() != ToolCategory::Agent;
        let expected = ExpectedChanges { scope, is_exclusive };
        let changes = &self.pipeline.changes;
        changes.begin(self.session, &ready.ctx.call_id, expected, self.cancel).await
    }

    async fn record_start(
        &mut self,
        ready: &ReadyCall,
        guard: &ChangeGuard,
    ) -> Result<(), AgentError> {
        let tool = ready.resolved.tool.name().to_owned();
        let start = AgentEvent::CallStart {
            call_id: ready.ctx.call_id.clone(),
            reply_id: self.reply_id.clone(),
            tool: tool.clone(),
            title: ready.plan.title.clone(),
            arguments: ready.resolved.input.clone(),
            snapshot: guard.before().cloned(),
        };
        self.session.emit(start).await?;
        self.session.set_state(AgentState::ExecutingTool(tool)).await
    }

    fn start(&self, index: usize, ready: ReadyCall, report: Progress) -> RunningCall<'a> {
        let ReadyCall { resolved, plan, permit, mut ctx, span } = ready;
        ctx.progress = report;
        let tools = self.tools;
        let config = Arc::clone(&self.pipeline.config);
        let scratch = self.session.context().scratch.clone();
        let change = self.pipeline.sandbox.permitted_change(written_paths(&plan.effects));
        let hooks = self.pipeline.hooks.clone();
        let work = async move {
            tracing::debug!("call started");
            let started = config.clock.monotonic();
            let name = resolved.tool.name().to_owned();
            let input = hooks.has(HookKind::AfterCall).then(|| resolved.input.clone());
            change.prepare().await;
            let work = tools.execute(permit, &name, resolved.input, &plan, &ctx);
            let caught = AssertUnwindSafe(work).catch_unwind().await;
            // The change was permitted, so the sandbox must not attribute it to commands that run at the same time.
            let has_succeeded =
                caught.as_ref().is_ok_and(|result| result.status == ToolStatus::Success);
            change.accept(ctx.agent.file_views.take_written(&ctx.call_id), has_succeeded);
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
            config.redactor.redact_result(&mut result);
            let limit = ctx.model.output_limit();
            let mut result = bound_output(result, limit, scratch.as_deref(), &ctx.call_id);
            let elapsed = config.since(started);
            let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            // While the lease is held: what hooks change is part of what the call changes, and is undone with it.
            let hooked = match input {
                Some(input) => {
                    let moment = HookMoment::AfterCall {
                        call_id: &ctx.call_id,
                        tool: &name,
                        input: &input,
                        plan: &plan,
                        result: &result,
                        duration: elapsed,
                    };
                    let mut hooked = run_hooks_after(&hooks, moment, &ctx.cancellation).await;
                    if hooked.has_run {
                        refresh_views(&ctx.agent, &mut result).await;
                    }
                    if let Some(mut objection) = hooked.objection.take() {
                        config.redactor.redact_string(&mut objection);
                        let _ = write!(result.output, "\n[a hook says: {objection}]");
                    }
                    hooked
                }
                None => HookOutcome::default(),
            };
            EndedCall { index, result, duration_ms, hooked }
        };
        Box::pin(work.instrument(span))
    }

    async fn finish(
        &mut self,
        call: &mut ExecutedCall,
        guard: Option<ChangeGuard>,
    ) -> Result<(), AgentError> {
        let (status, duration_ms) = (call.result.status, call.duration_ms);
        tracing::debug!(?status, duration_ms, "call ended");
        if let Some(guard) = guard {
            self.pipeline.changes.finish(self.session, guard, &mut call.result).await?;
        }
        self.record_end(call).await?;
        let jobs = self.pipeline.changes.jobs();
        jobs.watch(self.session, &call.id, &call.result.metadata).await?;
        let metadata = &call.result.metadata;
        if !metadata.files_modified.is_empty() {
            let files = metadata.files_modified.clone();
            let snapshot = metadata.snapshot_after.clone();
            let call_id = call.id.clone();
            self.session.emit(AgentEvent::FilesChanged { call_id, files, snapshot }).await?;
        }
        if metadata.extra.get("todos").is_some() {
            let todo = &self.session.context().todo;
            let items = todo.lock().unwrap_or_else(PoisonError::into_inner).items().to_vec();
            self.session.emit(AgentEvent::Plan { items }).await?;
        }
        Ok(())
    }
}

/// Runs the hooks after a call. Those of a cancelled call get a little time, within that of the call to stop.
async fn run_hooks_after(
    hooks: &HookPort,
    moment: HookMoment<'_>,
    cancel: &CancellationToken,
) -> HookOutcome {
    if !cancel.is_cancelled() {
        return hooks.run(moment, cancel).await;
    }
    let token = CancellationToken::new();
    let run = hooks.run(moment, &token);
    tokio::time::timeout(CANCELLED_HOOKS, run).await.unwrap_or_default()
}

/// Takes over what hooks made of the files that a call wrote, so that the agent can edit them without reading them again,
/// and tells the model of it: a hook that formats files runs after each edit.
async fn refresh_views(agent: &AgentContext, result: &mut ToolResult) {
    let written = FileViews::in_extra(&result.metadata.extra).into_iter();
    let written: Vec<_> = written.filter(|view| view.lines.is_none()).collect();
    if written.is_empty() {
        return;
    }
    let changed = tokio::task::spawn_blocking(move || {
        let now = written.into_iter().filter_map(|view| {
            let content = crow_fs::read_bounded(&view.path, MOST_COMPARED).ok()?;
            let hash = ContentHash::of_content(&content);
            (hash != view.hash).then_some(FileView { hash, ..view })
        });
        now.collect::<Vec<_>>()
    });
    let Ok(changed) = changed.await else { return };
    for view in changed {
        let path = agent.workspace.display(&view.path);
        let _ = write!(result.output, "\n[a hook changed {path} after this call]");
        FileViews::replace_in_extra(&mut result.metadata.extra, &view);
        agent.file_views.insert(view);
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
