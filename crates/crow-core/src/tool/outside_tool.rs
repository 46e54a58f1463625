//! A tool that is run outside.

use async_trait::async_trait;
use serde_json::Value;

use super::{CallPlan, Effects, Subject, Tool, ToolCategory, ToolContext, ToolError, ToolResult};
use crate::model::ToolDefinition;

/// A tool that is run outside: the call is decided upon and announced like any other, and its result comes through the
/// agent's handle.
#[derive(Debug, Clone)]
pub struct OutsideTool {
    definition: ToolDefinition,
    category: ToolCategory,
}

impl OutsideTool {
    /// Makes a tool of what the model is told of it.
    pub fn new(definition: ToolDefinition, category: ToolCategory) -> Self {
        Self { definition, category }
    }
}

#[async_trait]
impl Tool for OutsideTool {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn description(&self) -> &str {
        &self.definition.description
    }

    fn parameters_schema(&self) -> Value {
        self.definition.parameters.clone()
    }

    fn category(&self) -> ToolCategory {
        self.category
    }

    fn runs_outside(&self) -> bool {
        true
    }

    /// What happens outside is not known here.
    async fn plan(&self, _input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if let Some(outside) = &ctx.agent.outside {
            // Whoever sees the call announced may be quicker than its start.
            outside.expect(&ctx.call_id);
        }
        let title = self.definition.name.clone();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        match &ctx.agent.outside {
            Some(outside) => outside.result(&ctx.call_id, &ctx.cancellation).await,
            None => ToolResult::failure("this runtime takes no results from outside"),
        }
    }
}
