//! The tool trait, independent of the argument type.

use std::error::Error;

use async_trait::async_trait;
use serde_json::Value;

use super::{CallPlan, Preview, ToolCategory, ToolContext, ToolResult};
use crate::model::ToolDefinition;

/// Error of planning or previewing a call, by who must act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model: it gets the text and tries something else.
    #[error("{0}")]
    Model(String),
    /// No one needs to act: the call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// The user: the tool itself is broken.
    #[error("the tool failed")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl ToolError {
    /// Makes the result with which the call is answered.
    pub fn to_result(&self) -> ToolResult {
        match self {
            Self::Model(message) => ToolResult::failure(message.clone()),
            Self::Cancelled => ToolResult::cancelled(),
            Self::Fatal(source) => ToolResult::failure(format!("the tool failed: {source}")),
        }
    }
}

/// A tool that a model can call.
///
/// [`plan`](Self::plan) uses arguments and file metadata only, [`preview`](Self::preview) may read files,
/// [`execute`](Self::execute) has effects.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name that the model calls.
    fn name(&self) -> &str;

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments.
    fn parameters_schema(&self) -> Value;

    /// Returns the category of the tool.
    fn category(&self) -> ToolCategory;

    /// Returns true if a call that no rule matches needs permission.
    fn requires_permission(&self) -> bool {
        true
    }

    /// Returns true if a successful call ends the turn.
    fn ends_turn(&self) -> bool {
        false
    }

    /// Returns true if calls are run outside: the result is passed through the agent's handle, possibly before the
    /// call waits.
    fn is_delegated(&self) -> bool {
        false
    }

    /// Checks the arguments. The error text goes to the model.
    fn check(&self, input: &Value) -> Result<(), String> {
        let _ = input;
        Ok(())
    }

    /// Plans a call: returns what it would touch. By default that is what tools of its category may touch, and
    /// permission is asked for accordingly.
    async fn plan(&self, input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let _ = (input, ctx);
        Ok(CallPlan::of_category(self.name(), self.category()))
    }

    /// Returns the preview that the user is shown before allowing the call, if any.
    async fn preview(
        &self,
        input: &Value,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let _ = (input, plan, ctx);
        Ok(None)
    }

    /// Runs the call. Called only with a permit, see [`ToolRegistry::execute`](super::ToolRegistry::execute).
    async fn execute(&self, input: Value, plan: &CallPlan, ctx: &ToolContext) -> ToolResult;

    /// Returns the definition for the model.
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            parameters: self.parameters_schema(),
        }
    }
}
