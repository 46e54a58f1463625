//! Updates of the environment from results of tools.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{Environment, EnvironmentError, EnvironmentState};

/// Most bytes of a result that is stored as it is.
const LARGEST_RESULT: usize = 16 * 1024;
/// Most sources that results of searches add.
const MOST_SOURCES: usize = 200;
/// Extension with the last results of tools without a handler, by tool.
const TOOL_RESULTS: &str = "tool_results";

/// Updates the state from the result of a tool: parsed as JSON, or as a string if it is none. Returns the reason if the
/// result cannot be used.
pub type ToolResultHandler =
    Arc<dyn Fn(&mut EnvironmentState, &Value) -> Result<(), String> + Send + Sync>;

impl Environment {
    /// Sets the handler for the results of a tool, and replaces the present one.
    pub fn register_handler(
        &mut self,
        tool: impl Into<String>,
        handler: impl Fn(&mut EnvironmentState, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.handlers.insert(tool.into(), Arc::new(handler));
    }

    /// Updates the state from the result of a tool by its handler. Without a handler, `directory_tree` is stored in
    /// [`WorkspaceState::extra`](super::WorkspaceState::extra), the results of `search` become sources in the
    /// [`KnowledgeBase`](super::KnowledgeBase), and any other result replaces the one before in the extension
    /// `tool_results`.
    ///
    /// Fails if the handler rejects the result or panics, and if the new state would violate the schema: nothing changes
    /// then.
    pub fn update_from_tool_result(
        &mut self,
        tool: &str,
        result: &str,
    ) -> Result<(), EnvironmentError> {
        let value = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.into()));
        // The handler works on a copy, so a failure leaves no half of an update.
        let mut state = self.state.clone();
        match self.handlers.get(tool) {
            Some(handler) => {
                let outcome = catch_unwind(AssertUnwindSafe(|| handler(&mut state, &value)));
                let tool = tool.to_owned();
                match outcome {
                    Ok(Ok(())) => {}
                    Ok(Err(message)) => {
                        return Err(EnvironmentError::ResultRejected { tool, message });
                    }
                    Err(panic) => {
                        let message = panic_message(panic.as_ref());
                        return Err(EnvironmentError::HandlerPanicked { tool, message });
                    }
                }
            }
            None => match tool {
                "directory_tree" => {
                    state.workspace.extra.insert(tool.to_owned(), bounded(value, result));
                }
                "search" => add_sources(&mut state, &value),
                _ => add_tool_result(&mut state, tool, bounded(value, result)),
            },
        }
        self.replace_state(state)
    }
}

/// Returns a result, or a note in place of one that is too large.
fn bounded(value: Value, result: &str) -> Value {
    if result.len() <= LARGEST_RESULT {
        return value;
    }
    json!({ "omitted_bytes": result.len() })
}

fn add_tool_result(state: &mut EnvironmentState, tool: &str, value: Value) {
    let results = state.extensions.entry(TOOL_RESULTS.to_owned()).or_insert(Value::Null);
    match results {
        Value::Object(results) => {
            results.insert(tool.to_owned(), value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let mut map = Map::new();
            map.insert(tool.to_owned(), value);
            *results = Value::Object(map);
        }
    }
}

/// Adds the results of a search as sources: a list, or the list in `results`, of objects with a `url`, `path` or `title`.
fn add_sources(state: &mut EnvironmentState, value: &Value) {
    let list = value.get("results").unwrap_or(value).as_array();
    let text = |item: &Value, keys: &[&str]| {
        let found = keys.iter().find_map(|key| item.get(key).and_then(Value::as_str));
        found.map(str::to_owned)
    };
    for item in list.into_iter().flatten() {
        let sources = &mut state.knowledge.sources;
        let Some(name) = text(item, &["url", "path", "title"]) else { continue };
        if sources.len() >= MOST_SOURCES && !sources.contains_key(&name) {
            continue;
        }
        let description = text(item, &["snippet", "text", "description", "title"]);
        sources.insert(name, description.unwrap_or_else(|| "found by a search".to_owned()));
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
