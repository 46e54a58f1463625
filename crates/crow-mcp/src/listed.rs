//! The tools that a server lists, within limits.

use std::collections::BTreeSet;

use rmcp::model::{Prompt, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{schema, text};

/// Maximum number of tools of a server. Many tools are found by a search, so no request carries them all.
pub(crate) const MOST_TOOLS: usize = 500;
/// Maximum bytes of a server's names, descriptions and schemas together.
const MOST_BYTES: usize = 1024 * 1024;
/// Maximum length of a description in bytes.
const LONGEST_DESCRIPTION: usize = 2 * 1024;
/// Maximum length in bytes of a tool's own name. Tools with longer names are dropped.
const LONGEST_NAME: usize = 256;
/// Maximum number of prompts of a server, and of arguments of a prompt.
const MOST_PROMPTS: usize = 100;
const MOST_ARGUMENTS: usize = 20;
/// Maximum length of a prompt's description in bytes.
const LONGEST_PROMPT_DESCRIPTION: usize = 200;
/// Maximum length of a tool's name in messages to the user.
const LONGEST_SHOWN: usize = 40;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedTool {
    /// The name by which the server knows it.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Value,
}

/// A prompt of a server: a text for the conversation, with parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedPrompt {
    /// The name by which the server knows it.
    pub name: String,
    /// Description for people, on one line.
    pub description: String,
    /// Its arguments, in the order of the server.
    pub arguments: Vec<ListedArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedArgument {
    pub name: String,
    pub is_required: bool,
}

impl ListedPrompt {
    /// Returns the placeholder of the arguments, such as `PATH [LANGUAGE]`; empty if there are none.
    pub(crate) fn usage(&self) -> String {
        let argument = |argument: &ListedArgument| {
            let name = text::one_line(&argument.name, 40).to_uppercase();
            if argument.is_required { name } else { format!("[{name}]") }
        };
        self.arguments.iter().map(argument).collect::<Vec<_>>().join(" ")
    }

    /// Converts a prompt; `None` if its name or an argument's name is too long.
    fn new(prompt: &Prompt) -> Option<Self> {
        let described = prompt.description.as_deref().or(prompt.title.as_deref());
        let arguments = prompt.arguments.iter().flatten().map(|argument| ListedArgument {
            name: argument.name.clone(),
            is_required: argument.required == Some(true),
        });
        let arguments: Vec<_> = arguments.take(MOST_ARGUMENTS).collect();
        let names = arguments.iter().map(|argument| &argument.name).chain([&prompt.name]);
        let fits = names.into_iter().all(|name| !name.is_empty() && name.len() <= LONGEST_NAME);
        fits.then(|| Self {
            name: prompt.name.clone(),
            description: text::one_line(described.unwrap_or_default(), LONGEST_PROMPT_DESCRIPTION),
            arguments,
        })
    }
}

/// Tools of a server, sorted by name, without duplicates; and what else it offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolListing {
    /// Prompts, sorted by name, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<ListedPrompt>,
    /// True if the server has resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_resources: bool,
    pub tools: Vec<ListedTool>,
    /// Number of tools omitted because of the limits.
    pub left_out: usize,
    /// Names of the tools with an invalid definition, shortened for display.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub invalid: BTreeSet<String>,
}

impl ToolListing {
    /// Builds the listing from the tools named in `wanted` (all if absent): the first of each name, up to the limits.
    pub(crate) fn new(tools: Vec<Tool>, invalid: &[String], wanted: Option<&[String]>) -> Self {
        let is_wanted =
            |name: &str| wanted.is_none_or(|wanted| wanted.iter().any(|other| other == name));
        let invalid = invalid.iter().filter(|name| is_wanted(name));
        let invalid = invalid.map(|name| text::one_line(name, LONGEST_SHOWN)).collect();
        let mut listed = Self { invalid, ..Self::default() };
        let (mut names, mut bytes) = (BTreeSet::new(), 0_usize);
        for tool in tools {
            let name = tool.name.as_ref();
            if !is_wanted(name) || name.len() > LONGEST_NAME || !names.insert(name.to_owned()) {
                continue;
            }
            let tool = ListedTool::new(&tool);
            bytes = bytes.saturating_add(tool.size());
            if listed.tools.len() == MOST_TOOLS || bytes > MOST_BYTES {
                listed.left_out += 1;
            } else {
                listed.tools.push(tool);
            }
        }
        // Sorted, because a server may list its tools in another order each time.
        listed.tools.sort_by(|one, other| one.name.cmp(&other.name));
        listed
    }

    /// Adds prompts: the first of each name, up to a limit.
    pub(crate) fn with_prompts(mut self, prompts: &[Prompt]) -> Self {
        let mut names = BTreeSet::new();
        let listed = prompts.iter().filter_map(ListedPrompt::new);
        self.prompts =
            listed.filter(|prompt| names.insert(prompt.name.clone())).take(MOST_PROMPTS).collect();
        self.prompts.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    /// Sets whether the server has resources.
    pub(crate) fn with_resources(self, has_resources: bool) -> Self {
        Self { has_resources, ..self }
    }

    /// Describes the omitted tools and the reasons, as the end of a sentence; empty if there are none.
    pub(crate) fn omissions(&self) -> String {
        let mut summary = String::new();
        if self.left_out > 0 {
            summary = format!(
                "; {} more exceed the limit, `tools` of its configuration selects which to use",
                self.left_out
            );
        }
        if !self.invalid.is_empty() {
            let names: Vec<String> = self.invalid.iter().cloned().collect();
            let (count, names) = (names.len(), some(&names));
            let are = if count == 1 { "is" } else { "are" };
            summary =
                format!("{summary}; {count} with an invalid definition {are} left out: {names}");
        }
        summary
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Describes the changes since `before`; none if nothing changed.
    pub(crate) fn difference(&self, before: &Self) -> Option<String> {
        let names = |is_selected: &dyn Fn(&ListedTool) -> bool, listing: &Self| {
            let names: Vec<String> = listing
                .tools
                .iter()
                .filter(|tool| is_selected(tool))
                .map(|tool| text::one_line(&tool.name, LONGEST_SHOWN))
                .collect();
            names
        };
        let new = names(&|tool| before.find(&tool.name).is_none(), self);
        let gone = names(&|tool| self.find(&tool.name).is_none(), before);
        let changed = names(&|tool| before.find(&tool.name).is_some_and(|old| old != tool), self);
        let parts: Vec<String> = [("new", new), ("gone", gone), ("changed", changed)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(change, names)| format!("{change}: {}", some(&names)))
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Joins the first eight names, and counts the others.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl ListedTool {
    fn new(tool: &Tool) -> Self {
        let described = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let start = described.floor_char_boundary(LONGEST_DESCRIPTION * 4);
        let plain = text::sanitise(&described[..start]);
        Self {
            name: tool.name.to_string(),
            description: crow_text::shorten(plain.trim(), LONGEST_DESCRIPTION),
            schema: schema::provider_schema(&tool.input_schema),
        }
    }

    fn size(&self) -> usize {
        self.name.len() + self.description.len() + self.schema.to_string().len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        serde_json::from_value(json!({"name": name, "description": description, "inputSchema": {}}))
            .unwrap()
    }

    #[test]
    fn tools_are_filtered_deduplicated_and_sorted_by_name() {
        let tools = || vec![tool("b", "first"), tool("a", ""), tool("b", "second")];
        let listed = ToolListing::new(tools(), &[], None);
        let names: Vec<_> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, listed.tools[1].description.as_str()), (vec!["a", "b"], "first"));
        assert_eq!(ToolListing::new(tools(), &[], Some(&["a".to_owned()])).tools.len(), 1);
    }

    #[test]
    fn tools_beyond_the_limits_are_counted() {
        let many = (0..900).map(|number| tool(&format!("t{number}"), "d")).collect();
        let listed = ToolListing::new(many, &[], None);
        assert_eq!((listed.tools.len(), listed.left_out), (MOST_TOOLS, 400));
        let large: Vec<Tool> = (0..90)
            .map(|number| tool(&format!("{number}{}", "x".repeat(200)), &"d".repeat(1 << 20)))
            .collect();
        let listed = ToolListing::new(large, &[], None);
        assert!(listed.tools.iter().map(ListedTool::size).sum::<usize>() <= MOST_BYTES);
        assert!(listed.tools.iter().all(|tool| tool.description.len() <= LONGEST_DESCRIPTION));
    }

    #[test]
    fn new_gone_and_changed_tools_are_reported() {
        let before = ToolListing::new(vec![tool("a", "1"), tool("b", "1")], &[], None);
        let after = ToolListing::new(vec![tool("b", "2"), tool("c", "1")], &[], None);
        assert_eq!(after.difference(&before).unwrap(), "new: c; gone: a; changed: b");
        assert_eq!(after.difference(&after), None);
    }
}
