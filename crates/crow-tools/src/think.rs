//! `think`: a place for thoughts of models that do not reason by themselves.

use async_trait::async_trait;
use crow_core::tool::{CallPlan, ToolCategory, ToolContext, ToolResult, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Accepts a thought and has no effect.
#[derive(Debug)]
pub(crate) struct Think;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThinkInput {
    #[serde(alias = "thoughts", alias = "text")]
    #[expect(dead_code, reason = "a thought only has to be in the call")]
    thought: String,
}

#[async_trait]
impl TypedTool for Think {
    type Input = ThinkInput;
    const NAME: &'static str = "think";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Writes down a thought, for planning or weighing options. Has no effect."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        _input: ThinkInput,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        ToolResult::success("ok")
    }
}
