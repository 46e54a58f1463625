//! Variables for the template of a system prompt.

use serde::Serialize;

use super::types::BaseDefinition;

/// Variables that the template of a system prompt can use. They contain no date, no directory and no id: the prompt
/// is the same in every request of every session, so that providers can cache it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptContext {
    /// The agent's name.
    pub agent_name: String,
    /// `primary` or `subagent`.
    pub role: String,
    /// Description of the agent in one line.
    pub description: String,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// True if it has a tool that changes files.
    pub can_edit: bool,
    /// The tool with which it ends its turn on purpose; empty if it has none.
    pub end_tool: String,
}

impl PromptContext {
    /// Makes the variables for an agent that has these tools.
    pub fn new(definition: &BaseDefinition, tools: Vec<String>) -> Self {
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        let end_tool = ["task_complete", "submit_for_review"].into_iter().find(|name| has(name));
        Self {
            agent_name: definition.name.clone(),
            role: definition.role.as_str().to_owned(),
            description: definition.description.clone(),
            can_edit: has("edit_file") || has("write_file"),
            end_tool: end_tool.unwrap_or_default().to_owned(),
            tools,
        }
    }
}
