//! A tool of a server as a tool of the agent.

use std::sync::Arc;

use async_trait::async_trait;
use crow_core::tool::{
    CallPlan, Effects, Subject, Tool, ToolCategory, ToolContext, ToolError, ToolResult,
};
use serde_json::Value;

use crate::{listed::ListedTool, result::to_result, server::McpServer, text};

/// Maximum length in bytes of the arguments in the title of a call.
const LONGEST_ARGUMENTS: usize = 200;

/// A tool of a server. Every call needs permission: what the server claims about its tools is not trusted.
pub(crate) struct McpTool {
    name: String,
    description: String,
    tool: ListedTool,
    server: Arc<McpServer>,
}

impl McpTool {
    pub(crate) fn new(name: String, tool: ListedTool, server: Arc<McpServer>) -> Self {
        let description = if tool.description.is_empty() {
            format!(
                "The tool {} of the MCP server {}.",
                text::one_line(&tool.name, 100),
                server.label
            )
        } else {
            tool.description.clone()
        };
        Self { name, description, tool, server }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters_schema(&self) -> Value {
        self.tool.schema.clone()
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::External
    }

    fn check(&self, input: &Value) -> Result<(), String> {
        if input.is_object() { Ok(()) } else { Err("expected an object".to_owned()) }
    }

    async fn plan(&self, input: &Value, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let tool = text::one_line(&self.tool.name, 100);
        let arguments = match input.as_object() {
            Some(fields) if fields.is_empty() => String::new(),
            _ => format!(" {}", text::one_line(&input.to_string(), LONGEST_ARGUMENTS)),
        };
        let effects =
            if self.server.settings.may_change_files() { Effects::Unknown } else { Effects::None };
        let title = format!("{}: {tool}{arguments}", self.server.label);
        Ok(CallPlan { title, effects, subject: Subject::Nothing })
    }

    async fn execute(&self, input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let Value::Object(arguments) = input else {
            return ToolResult::failure("the arguments of the call are not an object");
        };
        let called = self.server.call(&self.tool, &arguments, ctx).await;
        match called {
            _ if ctx.should_abort() => ToolResult::cancelled(),
            Ok(answer) => to_result(answer),
            Err(why) => ToolResult::failure(why),
        }
    }
}
