//! The tools that an agent can name.

use std::collections::BTreeSet;

use crow_core::{
    call,
    config::unknown_word_message,
    tool::{SOURCED_NAME, is_sourced_pattern},
};

/// Tools that every product has, because its agent loops need them.
const OF_LOOPS: [&str; 5] =
    ["task", "task_output", "task_cancel", "task_complete", "submit_for_review"];
/// Web tools, which are part of a later version: an agent file that names one gets a warning and no tool.
const PLANNED: [&str; 2] = ["web_fetch", "web_search"];

/// The names of the available tools.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    names: BTreeSet<String>,
}

/// Result of looking up a name from a list of tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    Tool(String),
    /// Not implemented yet, with a message for the user.
    Planned(String),
    /// No tool, with a message for the user.
    Unknown(String),
}

impl ToolNames {
    /// Makes the names from the tools of a product and those of the agent loops.
    pub fn new<'a>(built: impl IntoIterator<Item = &'a str>) -> Self {
        let built = built.into_iter().chain(OF_LOOPS).map(str::to_owned);
        Self { names: built.collect() }
    }

    /// Returns all names, and a pattern that matches all tools of servers.
    pub fn all(&self) -> Vec<String> {
        let sourced = format!("{SOURCED_NAME}*");
        self.names.iter().cloned().chain([sourced]).collect()
    }

    /// Finds a tool by its name, or checks the pattern for tools of servers.
    pub(super) fn find(&self, name: &str) -> ToolName {
        if self.names.contains(name) {
            return ToolName::Tool(name.to_owned());
        }
        if PLANNED.contains(&name) {
            return ToolName::Planned(format!("the tool {name} is not built yet, and is left out"));
        }
        if is_sourced_pattern(name) {
            // The tools of servers are known only while a session is open.
            return ToolName::Tool(name.to_owned());
        }
        if name.starts_with(SOURCED_NAME) {
            return ToolName::Unknown(format!(
                "\"{name}\" is not a server's tool; write mcp__SERVER__TOOL, mcp__SERVER__* or mcp__*"
            ));
        }
        let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
        ToolName::Unknown(match call::resolve_alias(name) {
            Some(meant) => format!("unknown tool \"{name}\", did you mean \"{meant}\"?"),
            None => unknown_word_message("tool", name, &known),
        })
    }

    /// Finds a tool by its own name or one that other programs have for it.
    pub(super) fn find_alias(&self, name: &str) -> ToolName {
        // `Bash(git log:*)` is a tool with a permission rule.
        let bare = name.split('(').next().unwrap_or_default().trim();
        let wanted = normalized(bare);
        let mut known = self.names.iter().map(String::as_str).chain(PLANNED);
        let same = known.find(|name| normalized(name) == wanted);
        self.find(same.or_else(|| call::resolve_alias(bare)).unwrap_or(bare))
    }
}

fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
