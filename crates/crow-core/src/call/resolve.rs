//! Which tool, with which arguments.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{
    message::{CallArguments, ToolCall},
    tool::{Tool, ToolRegistry},
};

/// A call that can be run.
#[derive(Clone)]
pub struct ResolvedCall {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Arguments that fit.
    pub input: Value,
    /// What had to be mended, a line each, for the model.
    pub repairs: Vec<String>,
}

impl fmt::Debug for ResolvedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedCall")
            .field("tool", &self.tool.name())
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// A call that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidCall {
    /// What is wrong and what would be right, for the model.
    pub message: String,
}

/// Finds the tool and makes the arguments fit, or says what is wrong.
pub fn resolve(registry: &ToolRegistry, call: &ToolCall) -> Result<ResolvedCall, InvalidCall> {
    let tool = registry
        .get(&call.name)
        .ok_or_else(|| InvalidCall { message: format!("there is no tool named {}", call.name) })?;
    let input = match &call.arguments {
        CallArguments::Json(value) => value.clone(),
        CallArguments::Malformed(text) => {
            return Err(InvalidCall { message: format!("the arguments are not JSON: {text}") });
        }
    };
    tool.check(&input).map_err(|message| InvalidCall { message })?;
    Ok(ResolvedCall { tool: Arc::clone(tool), input, repairs: Vec::new() })
}
