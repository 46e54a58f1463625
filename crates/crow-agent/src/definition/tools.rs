//! Which tools an agent can name.

use std::collections::BTreeSet;

use crow_core::{
    call,
    config::unknown,
    tool::{SOURCED_NAME, is_sourced_pattern},
};

/// Tools that every product has, because its loops need them.
const OF_LOOPS: [&str; 5] =
    ["task", "task_output", "task_cancel", "task_complete", "submit_for_review"];
/// Tools that are known and not built yet.
const PLANNED: [&str; 2] = ["web_fetch", "web_search"];

/// The names of the tools that there are.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    built: BTreeSet<String>,
}

/// What a name in a list of tools comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolName {
    Tool(String),
    /// Not built yet: what to say.
    Planned(String),
    /// No tool: what to say.
    Unknown(String),
}

impl ToolNames {
    /// Takes the tools of a product.
    pub fn new<'a>(built: impl IntoIterator<Item = &'a str>) -> Self {
        let built = built.into_iter().chain(OF_LOOPS).map(str::to_owned);
        Self { built: built.collect() }
    }

    /// Returns all of them, and a pattern that stands for all that servers may have.
    pub fn all(&self) -> Vec<String> {
        let sourced = format!("{SOURCED_NAME}*");
        self.built.iter().cloned().chain([sourced]).collect()
    }

    pub(super) fn find(&self, name: &str) -> ToolName {
        if self.built.contains(name) {
            return ToolName::Tool(name.to_owned());
        }
        if PLANNED.contains(&name) {
            return ToolName::Planned(format!("the tool {name} is not built yet, and is left out"));
        }
        if is_sourced_pattern(name) {
            // Which there are is known only while a session is open.
            return ToolName::Tool(name.to_owned());
        }
        if name.starts_with(SOURCED_NAME) {
            return ToolName::Unknown(format!(
                "\"{name}\" names no tool of a server; it is written as mcp__SERVER__TOOL, mcp__SERVER__* or mcp__*"
            ));
        }
        let known: Vec<&str> = self.built.iter().map(String::as_str).collect();
        ToolName::Unknown(match call::alias(name) {
            Some(meant) => format!("unknown tool \"{name}\", did you mean \"{meant}\"?"),
            None => unknown("tool", name, &known),
        })
    }

    /// Finds a tool by the name that other agents have for it.
    pub(super) fn find_foreign(&self, name: &str) -> ToolName {
        // `Bash(git log:*)` is a tool with a rule.
        let bare = name.split('(').next().unwrap_or_default().trim();
        let wanted = squash(bare);
        let mut known = self.built.iter().map(String::as_str).chain(PLANNED);
        let same = known.find(|name| squash(name) == wanted);
        self.find(same.or_else(|| call::alias(bare)).unwrap_or(bare))
    }
}

fn squash(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
