//! Tools that are run outside of the agent.

use async_trait::async_trait;
use serde_json::Value;

use super::{CallPlan, Effects, Subject, Tool, ToolCategory, ToolContext, ToolError, ToolResult};
use crate::model::ToolDefinition;

/// A tool that is run outside: its calls are decided and announced like any other, and the result is passed through the
/// agent's handle.
#[derive(Debug, Clone)]
pub struct DelegatedTool {
    definition: ToolDefinition,
    category: ToolCategory,
}

impl DelegatedTool {
    /// Makes a tool from its definition for the model.
    pub fn new(definition: ToolDefinition, category: ToolCategory) -> Self {
        Self { definition, category }
    }
}

#[async_trait]
impl Tool for DelegatedTool {
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

    fn is_delegated(&self) -> bool {
        true
    }

    /// The effects of an outside call are unknown.
    async fn plan(&self, _input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if let Some(outside) = &ctx.agent.delegated_calls {
            // A client may answer the announced call before it has started here.
            outside.expect(&ctx.call_id);
        }
        let title = self.definition.name.clone();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        match &ctx.agent.delegated_calls {
            Some(outside) => outside.result(&ctx.call_id, &ctx.cancellation).await,
            None => ToolResult::failure("this runtime accepts no external results"),
        }
    }
}
