//! The tools for subagents in the background.

use std::time::Duration;

use async_trait::async_trait;
use crow_core::{
    capability::{BackgroundChild, BackgroundState},
    ids::TaskId,
    tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{report, tool::not_started};

/// Seconds to wait if the call names none, and at most.
const DEFAULT_WAIT: u64 = 30;
const MAX_WAIT: u64 = 600;

/// Waits for a subagent in the background and returns its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskOutput;

/// The arguments of [`TaskOutput`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskOutputInput {
    /// The task, as it was named when it was started.
    #[serde(alias = "task_id")]
    id: String,
    /// How many seconds to wait for its end, default 30, at most 600.
    #[serde(default, alias = "timeout", alias = "wait_seconds")]
    wait: Option<u64>,
}

/// Cancels a subagent in the background.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskCancel;

/// The arguments of [`TaskCancel`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCancelInput {
    /// The task, as it was named when it was started.
    #[serde(alias = "task_id")]
    id: String,
}

#[async_trait]
impl TypedTool for TaskOutput {
    type Input = TaskOutputInput;

    const NAME: &'static str = "task_output";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Waits for an agent that works in the background and returns its answer, or says that it goes on."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects(format!("wait for {}", input.id)))
    }

    async fn execute(&self, input: Self::Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let Some(children) = &ctx.children else {
            return ToolResult::failure("no agents can be started here");
        };
        let wait = Duration::from_secs(input.wait.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT));
        match children.wait(&TaskId::new(input.id), wait, &ctx.cancellation).await {
            Ok(child) if child.is_running() && ctx.should_abort() => ToolResult::cancelled(),
            Ok(child) => child_result(&child),
            Err(error) => not_started(&error),
        }
    }
}

#[async_trait]
impl TypedTool for TaskCancel {
    type Input = TaskCancelInput;

    const NAME: &'static str = "task_cancel";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Ends an agent that works in the background. What it did until then stays."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects(format!("end {}", input.id)))
    }

    async fn execute(&self, input: Self::Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let Some(children) = &ctx.children else {
            return ToolResult::failure("no agents can be started here");
        };
        match children.cancel(&TaskId::new(input.id)).await {
            Ok(child) => ToolResult {
                // The call asked for the cancellation, so it succeeded.
                status: crow_core::tool::ToolStatus::Success,
                ..child_result(&child)
            },
            Err(error) => not_started(&error),
        }
    }
}

/// Makes the result that describes a subagent in the background.
fn child_result(child: &BackgroundChild) -> ToolResult {
    let BackgroundChild { id, agent, description, state, duration } = child;
    let mut result = match state {
        BackgroundState::Running => ToolResult::success(format!(
            "{id} ({agent}: {description}) is running, for {} s by now",
            duration.as_secs()
        )),
        BackgroundState::Ended(outcome) => report::result(agent, outcome),
        BackgroundState::NotStarted(error) => not_started(error),
    };
    let extra = json!({ BackgroundChild::EXTRA_KEY: id, "running": child.is_running() });
    match (&mut result.metadata.extra, extra) {
        (serde_json::Value::Object(known), serde_json::Value::Object(more)) => known.extend(more),
        (known, more) => *known = more,
    }
    result
}
