//! Pages of a server's tool list, parsed tool by tool.

use rmcp::model::{Cursor, CustomResult, JsonObject, ServerResult, Tool};
use serde_json::Value;

/// A page of the tool list. An invalid definition does not invalidate the other tools.
#[derive(Debug)]
pub(crate) struct ToolPage {
    pub tools: Vec<Tool>,
    /// Names of the tools whose definition does not parse; `(tool N)` where there is no name.
    pub invalid: Vec<String>,
    pub next_cursor: Option<Cursor>,
}

impl ToolPage {
    /// Converts an answer to a page; none if it is not a tool list.
    pub(crate) fn from_result(result: ServerResult) -> Option<Self> {
        if let ServerResult::ListToolsResult(page) = result {
            let next_cursor = page.next_cursor;
            return Some(Self { tools: page.tools, invalid: Vec::new(), next_cursor });
        }
        // If one tool is invalid, the library fails to parse the list and returns it as a custom result.
        let ServerResult::CustomResult(CustomResult(Value::Object(page))) = result else {
            return None;
        };
        Self::from_object(page)
    }

    fn from_object(mut page: JsonObject) -> Option<Self> {
        let Some(Value::Array(listed)) = page.remove("tools") else { return None };
        let (mut tools, mut invalid) = (Vec::new(), Vec::new());
        for (index, tool) in listed.into_iter().enumerate() {
            let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
            match serde_json::from_value(tool) {
                Ok(tool) => tools.push(tool),
                Err(_) => invalid.push(name.unwrap_or_else(|| format!("(tool {})", index + 1))),
            }
        }
        let next_cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Some(Self { tools, invalid, next_cursor })
    }
}
