//! The tools that a model may call.

use crow_core::{call::offered_name, model::ToolDefinition};
use serde_json::Value;

/// The tools of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfferedTools<'a>(pub(crate) &'a [ToolDefinition]);

impl<'a> OfferedTools<'a> {
    /// Finds the tool that a model means, under its own name or a misspelt one.
    pub(super) fn find(self, name: &str) -> Option<&'a ToolDefinition> {
        let names: Vec<&str> = self.0.iter().map(|tool| tool.name.as_str()).collect();
        let name = offered_name(&names, name)?;
        self.exact(name)
    }

    /// Finds the tool of exactly this name.
    pub(super) fn exact(self, name: &str) -> Option<&'a ToolDefinition> {
        self.0.iter().find(|tool| tool.name == name)
    }
}

/// Returns the value of an argument that was written without quotes: text for an argument that may be text, otherwise
/// JSON if it is.
pub(super) fn raw_argument(tool: &ToolDefinition, key: &str, text: &str) -> Value {
    let kind = tool.parameters.pointer("/properties").and_then(|all| all.get(key)?.get("type"));
    let is_text = match kind {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        // Also alternatives, and keys that are not declared.
        Some(_) | None => false,
    };
    let json = (!is_text).then(|| serde_json::from_str(text.trim()).ok()).flatten();
    json.unwrap_or_else(|| Value::String(text.to_owned()))
}
