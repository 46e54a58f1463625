//! The tool trait in its erased form.

use std::error::Error;

use async_trait::async_trait;
use serde_json::Value;

use super::{CallPlan, Preview, ToolCategory, ToolContext, ToolResult};
use crate::model::ToolDefinition;

/// Why a call cannot be planned or previewed, by who must act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model: it reads the text and tries otherwise.
    #[error("{0}")]
    Model(String),
    /// Nobody: the call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// The user: the tool itself is broken.
    #[error("the tool failed")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl ToolError {
    /// Makes the result that answers the call.
    pub fn to_result(&self) -> ToolResult {
        match self {
            Self::Model(message) => ToolResult::failure(message.clone()),
            Self::Cancelled => ToolResult::cancelled(),
            Self::Fatal(source) => ToolResult::failure(format!("the tool failed: {source}")),
        }
    }
}

/// Something that a model can call.
///
/// [`plan`](Self::plan) works from arguments and file metadata, [`preview`](Self::preview) reads,
/// [`execute`](Self::execute) acts.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name to call.
    fn name(&self) -> &str;

    /// Returns what the model is told about the tool.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments.
    fn parameters_schema(&self) -> Value;

    /// Returns what kind of thing the tool does.
    fn category(&self) -> ToolCategory;

    /// Returns whether a call needs permission where no rule speaks of it.
    fn requires_permission(&self) -> bool {
        true
    }

    /// Returns whether a successful call ends the turn.
    fn ends_turn(&self) -> bool {
        false
    }

    /// Returns whether calls are run outside: their results come through the agent's handle, also before the call waits.
    fn runs_outside(&self) -> bool {
        false
    }

    /// Checks arguments against what the tool takes. The text goes to the model.
    fn check(&self, input: &Value) -> Result<(), String> {
        let _ = input;
        Ok(())
    }

    /// Tells what a call would do. Without an own answer it does what tools of its category may: permission is asked for
    /// accordingly.
    async fn plan(&self, input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let _ = (input, ctx);
        Ok(CallPlan::of_category(self.name(), self.category()))
    }

    /// Works out what the user is shown before allowing the call.
    async fn preview(
        &self,
        input: &Value,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let _ = (input, plan, ctx);
        Ok(None)
    }

    /// Does it. Called only with a permit, see [`ToolRegistry::execute`](super::ToolRegistry::execute).
    async fn execute(&self, input: Value, plan: &CallPlan, ctx: &ToolContext) -> ToolResult;

    /// Returns the tool as the model is told of it.
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            parameters: self.parameters_schema(),
        }
    }
}
