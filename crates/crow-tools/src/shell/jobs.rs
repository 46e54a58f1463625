//! The tools `bash_output` and `bash_kill`: jobs that `bash` started.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::{
    capability::{CapturedOutput, JobInfo, JobOutput, JobState, Jobs, OutputPosition, ProcessEnd},
    ids::JobId,
    tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::output::{append_refusals, to_text};
use crate::paths::display_path;

const MAX_WAIT_MS: u64 = 60_000;

/// Shows the output of a job, or lists the jobs.
#[derive(Debug)]
pub(crate) struct BashOutput;

/// Ends a job.
#[derive(Debug)]
pub(crate) struct BashKill;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashOutputInput {
    /// Default: lists the jobs.
    #[serde(
        default,
        alias = "bash_id",
        alias = "shell_id",
        alias = "task_id",
        alias = "id",
        alias = "job"
    )]
    job_id: Option<String>,
    /// Wait for output or the end, at most 60000.
    #[serde(default, alias = "wait", alias = "timeout", alias = "timeout_ms")]
    wait_ms: Option<u64>,
    /// Byte to read from again.
    #[serde(default, alias = "offset")]
    since: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashKillInput {
    #[serde(alias = "bash_id", alias = "shell_id", alias = "task_id", alias = "id", alias = "job")]
    job_id: String,
}

#[async_trait]
impl TypedTool for BashOutput {
    type Input = BashOutputInput;
    const NAME: &'static str = "bash_output";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Returns what a background job printed since the last read, and whether it still runs."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(
        &self,
        input: &BashOutputInput,
        _ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects(input.job_id.as_deref().unwrap_or("jobs")))
    }

    async fn execute(
        &self,
        input: BashOutputInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let Some(jobs) = &ctx.jobs else { return no_jobs() };
        let Some(id) = input.job_id.map(JobId::new) else {
            return ToolResult::success(list(&jobs.list()));
        };
        let since = input.since.map_or(OutputPosition::LastRead, OutputPosition::Offset);
        let wait_time = Duration::from_millis(input.wait_ms.unwrap_or(0).min(MAX_WAIT_MS));
        let read = if wait_time.is_zero() {
            jobs.read(&id, since)
        } else {
            jobs.wait(&id, since, wait_time, &ctx.cancellation).await
        };
        match read {
            Ok(output) => result(&output, ctx),
            Err(error) => ToolResult::failure(error.to_string()),
        }
    }
}

#[async_trait]
impl TypedTool for BashKill {
    type Input = BashKillInput;
    const NAME: &'static str = "bash_kill";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Ends a background job and returns its last output."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &BashKillInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects(&*input.job_id))
    }

    async fn execute(
        &self,
        input: BashKillInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let Some(jobs) = &ctx.jobs else { return no_jobs() };
        match kill(jobs, &JobId::new(input.job_id), ctx).await {
            Ok(result) => result,
            Err(error) => ToolResult::failure(error.to_string()),
        }
    }
}

async fn kill(
    jobs: &Arc<dyn Jobs>,
    id: &JobId,
    ctx: &ToolContext,
) -> Result<ToolResult, crow_core::capability::JobError> {
    // The job is ended even if this call is cancelled meanwhile.
    match ctx.cancellation.run_until_cancelled(jobs.kill(id)).await {
        Some(ended) => ended?,
        None => return Ok(ToolResult::cancelled()),
    }
    Ok(result(&jobs.read(id, OutputPosition::LastRead)?, ctx))
}

fn no_jobs() -> ToolResult {
    ToolResult::failure("there are no background jobs here")
}

fn list(jobs: &[JobInfo]) -> String {
    if jobs.is_empty() {
        return "There are no jobs.".to_owned();
    }
    let line = |job: &JobInfo| format!("{}: {}", job_summary(job), job.title);
    jobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Describes a job and its state in a few words. The time is in whole seconds, so that a call repeated at once gives
/// the same text.
fn job_summary(job: &JobInfo) -> String {
    let seconds = job.duration.as_secs();
    match &job.state {
        JobState::Running => format!("{} running for {seconds} s", job.id),
        state @ (JobState::Ended(_) | JobState::Failed { .. }) => {
            format!("{} {state} after {seconds} s", job.id)
        }
    }
}

fn result(output: &JobOutput, ctx: &ToolContext) -> ToolResult {
    let captured = CapturedOutput {
        head: Vec::new(),
        tail: output.bytes.clone(),
        total: output.lost + output.bytes.len() as u64,
        spill: output.spill.clone(),
    };
    let mut text = to_text(&captured, |path: &Path| display_path(path, ctx));
    if text.is_empty() {
        text.push_str("(nothing new)");
    }
    let _ = write!(text, "\n[{}, {} bytes so far]", job_summary(&output.job), output.next);
    if output.detached_count > 0 {
        let _ = write!(text, "\n[{}]", detached_processes_note(output.detached_count));
    }
    append_refusals(&output.refused_hosts, &output.quarantined, &mut text, ctx);
    let mut result = ToolResult::success(text);
    result.metadata.extra = Value::Object(extra(output));
    result
}

fn extra(output: &JobOutput) -> Map<String, Value> {
    let mut extra = Map::new();
    extra.insert(JobInfo::EXTRA_KEY.to_owned(), json!(output.job.id));
    extra.insert(JobInfo::RUNNING_KEY.to_owned(), json!(output.job.state.is_running()));
    if let JobState::Ended(ProcessEnd::Exited(code)) = output.job.state {
        extra.insert("exit_code".to_owned(), json!(code));
    }
    extra
}

/// Describes processes that were ended although they had left their process group.
pub(super) fn detached_processes_note(count: usize) -> String {
    let subject = if count == 1 {
        "1 detached process was"
    } else {
        &format!("{count} detached processes were")
    };
    format!("{subject} ended with it: only jobs outlive a call, see run_in_background")
}
