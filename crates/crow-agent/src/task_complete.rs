//! The tool with which an agent says that its task is done.

use async_trait::async_trait;
use crow_core::tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) const NAME: &str = "task_complete";

/// Ends the turn: the agent says that its task is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskComplete;

/// The arguments of [`TaskComplete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCompleteInput {
    /// What was done and how it was checked, in a few sentences for the user.
    #[serde(alias = "result", alias = "message", alias = "final_response")]
    summary: String,
}

#[async_trait]
impl TypedTool for TaskComplete {
    type Input = TaskCompleteInput;

    const NAME: &'static str = NAME;
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Say that the whole task is done. Call it only when nothing is left to do and you have seen the result work; it ends your turn."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn ends_turn(&self) -> bool {
        true
    }

    async fn plan(&self, _input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::inert("complete the task"))
    }

    async fn execute(
        &self,
        input: Self::Input,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        if input.summary.trim().is_empty() {
            return ToolResult::failure("summary is empty: say in a few sentences what was done");
        }
        ToolResult::success("The task is marked as complete.")
    }
}
