//! The tool with which a primary hands its work to its reviewers.

use async_trait::async_trait;
use crow_core::tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) const NAME: &str = "submit_for_review";

/// Ends the turn: the agent hands its work to its reviewers, who say whether the task is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubmitForReview;

/// The arguments of [`SubmitForReview`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitForReviewInput {
    /// What was done, how it was checked, and what is still open, in a few sentences for the reviewer.
    #[serde(alias = "result", alias = "message")]
    summary: String,
}

#[async_trait]
impl TypedTool for SubmitForReview {
    type Input = SubmitForReviewInput;

    const NAME: &'static str = NAME;
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Hand your work to the reviewer, who decides whether the task is done. Call it when nothing is left to do and you have seen the result work; it ends your turn."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn ends_turn(&self) -> bool {
        true
    }

    async fn plan(&self, _input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        Ok(CallPlan::without_effects("submit the work for review"))
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
        ToolResult::success("The work is submitted for review.")
    }
}
