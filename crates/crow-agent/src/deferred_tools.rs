//! Tools that are found by a search instead of being listed in each request.
//!
//! The definitions of many tools cost more than the conversation. If those of a session's MCP servers exceed a threshold,
//! requests list two tools in their place: [`FindTools`] searches the definitions, and `call_tool` calls a tool by its
//! name. The definitions of these two do not depend on the tools, so requests keep their prefix when tools change. The
//! call itself is resolved like any other: rules, questions and the log see the tool that is called.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use crow_core::tool::{
    CALL_TOOL, CallPlan, SOURCED_NAME, Tool, ToolCategory, ToolContext, ToolError, ToolResult,
    TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Number of tools whose definitions a search returns.
const SHOWN: usize = 8;
/// Number of further tools that a search names.
const NAMED: usize = 20;
/// Number of characters of a query in the title of its call.
const TITLE: usize = 100;
/// Maximum size in bytes of the definitions that a search returns. Longer outputs would be cut.
const LARGEST_OUTPUT: usize = 24 * 1024;
/// Maximum number of words of a query.
const MOST_WORDS: usize = 40;
/// Words that say nothing about a tool.
const COMMON: [&str; 23] = [
    "a", "an", "and", "any", "are", "as", "at", "by", "for", "from", "in", "is", "it", "mcp", "my",
    "of", "on", "or", "the", "to", "tool", "tools", "with",
];
/// Weight of a word in the name of a tool; a word in its description counts one.
const NAME_WEIGHT: usize = 3;

/// Estimates the tokens of a tool's definition. The short words and brackets of its JSON take about four bytes a token;
/// letters other than ASCII take two to three.
pub(crate) fn estimated_tokens(tool: &dyn Tool) -> u64 {
    let schema = tool.parameters_schema().to_string();
    let texts = [tool.name(), tool.description(), schema.as_str()];
    let (ascii, others) = texts
        .iter()
        .flat_map(|text| text.bytes())
        .fold((0, 0), |(a, o), byte| if byte.is_ascii() { (a + 1, o) } else { (a, o + 1) });
    ascii / 4 + others / 2
}

/// Finds tools that are not listed.
pub(crate) struct FindTools {
    tools: Vec<Arc<dyn Tool>>,
    description: String,
}

/// The arguments of [`FindTools`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindToolsInput {
    /// Words of the task, or the name of a tool or server.
    query: String,
}

impl FindTools {
    /// Creates the search of these tools.
    pub(crate) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        // Servers, not tools: their names change less often, and requests keep their prefix until they do.
        let mut servers: Vec<&str> =
            tools.iter().filter_map(|tool| server_of(tool.name())).collect();
        servers.sort_unstable();
        servers.dedup();
        let description = format!(
            "Finds tools of MCP servers ({}) that are not listed here, with their arguments. Call one with `{CALL_TOOL}`.",
            servers.join(", ")
        );
        Self { tools, description }
    }

    /// Returns the tools that match a query, the best first.
    fn matches(&self, query: &str) -> Vec<&Arc<dyn Tool>> {
        if let Some(exact) = self.tools.iter().find(|tool| tool.name() == query.trim()) {
            return vec![exact];
        }
        let mut words = words(query);
        words.retain(|word| !COMMON.contains(&word.as_str()));
        words.truncate(MOST_WORDS);
        let mut found: Vec<(usize, &Arc<dyn Tool>)> = self
            .tools
            .iter()
            .filter_map(|tool| {
                let score = score(tool.as_ref(), &words);
                (score > 0).then_some((score, tool))
            })
            .collect();
        found.sort_by_key(|(score, tool)| (Reverse(*score), tool.name().to_owned()));
        found.into_iter().map(|(_, tool)| tool).collect()
    }
}

/// Returns the server in the name of a tool: `time` of `mcp__time__now`.
fn server_of(name: &str) -> Option<&str> {
    Some(name.strip_prefix(SOURCED_NAME)?.split_once("__")?.0)
}

/// Scores a tool by the words that it shares with the query.
fn score(tool: &dyn Tool, wanted: &[String]) -> usize {
    let (name, description) = (words(tool.name()), words(tool.description()));
    let points = wanted.iter().map(|word| {
        let has = |words: &[String]| words.iter().any(|other| is_same_word(word, other));
        NAME_WEIGHT * usize::from(has(&name)) + usize::from(has(&description))
    });
    points.sum()
}

/// Returns true for equal words, also in the plural or with another ending: they share all but the last three letters. In
/// writing without blanks, one contains the other.
fn is_same_word(one: &str, other: &str) -> bool {
    if !one.is_ascii() || !other.is_ascii() {
        return other.contains(one) || one.contains(other);
    }
    let common = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let longest = one.len().max(other.len());
    one == other || (common >= 4 && longest - common <= 3)
}

/// Splits a text into its words in lower case. Underscores, dashes and capitals within names separate words.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for char in text.chars() {
        let is_new = char.is_uppercase() && was_lower;
        if (!char.is_alphanumeric() || is_new) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        was_lower = char.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[async_trait]
impl TypedTool for FindTools {
    type Input = FindToolsInput;

    const NAME: &'static str = "find_tools";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &str {
        &self.description
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let query: String = input.query.chars().take(TITLE).collect();
        Ok(CallPlan::without_effects(format!("find tools: {query}")))
    }

    async fn execute(
        &self,
        input: Self::Input,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        let found = self.matches(&input.query);
        if found.is_empty() {
            return ToolResult::success(format!("No tool matches. {}", self.overview()));
        }
        let (mut output, mut shown) = (String::new(), 0);
        for tool in found.iter().take(SHOWN) {
            let definition = json!({
                "name": tool.name(),
                "description": tool.description(),
                "arguments": tool.parameters_schema(),
            });
            let line = format!("{definition}\n");
            if shown > 0 && output.len() + line.len() > LARGEST_OUTPUT {
                break;
            }
            output.push_str(&line);
            shown += 1;
        }
        let others: Vec<&str> =
            found.iter().skip(shown).take(NAMED).map(|tool| tool.name()).collect();
        if !others.is_empty() {
            // Writing to a string cannot fail.
            let _ =
                writeln!(output, "Further matches, by their exact names: {}", others.join(", "));
        }
        ToolResult::success(output)
    }
}

impl FindTools {
    /// Returns the number of tools of each server.
    fn overview(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in &self.tools {
            *counts.entry(server_of(tool.name()).unwrap_or("others")).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(server, count)| format!("{server}: {count}")).collect();
        format!("Tools by server: {}.", counts.join(", "))
    }
}

/// Calls a tool that [`FindTools`] found. Its calls are resolved to those of the tool, so it never runs itself.
pub(crate) struct CallFoundTool;

#[async_trait]
impl Tool for CallFoundTool {
    fn name(&self) -> &str {
        CALL_TOOL
    }

    fn description(&self) -> &'static str {
        "Calls a tool that `find_tools` found."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
        })
    }

    fn category(&self) -> ToolCategory {
        ToolCategory::External
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
        ToolResult::failure("the call names no tool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool of a server.
    struct Named(&'static str, &'static str);

    #[async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn description(&self) -> &str {
            self.1
        }

        fn parameters_schema(&self) -> Value {
            json!({"type": "object"})
        }

        fn category(&self) -> ToolCategory {
            ToolCategory::External
        }

        async fn execute(&self, _input: Value, _plan: &CallPlan, _ctx: &ToolContext) -> ToolResult {
            ToolResult::success("")
        }
    }

    fn search() -> FindTools {
        let tools: [Arc<dyn Tool>; 4] = [
            Arc::new(Named("mcp__github__create_issue", "Opens a new issue in a repository.")),
            Arc::new(Named("mcp__github__listIssues", "Lists issues.")),
            Arc::new(Named("mcp__time__get_now", "Tells the time of a city.")),
            Arc::new(Named("mcp__db__query", "Runs SQL.")),
        ];
        FindTools::new(tools.to_vec())
    }

    #[test]
    fn tools_are_found_by_name_word_and_server() {
        let search = search();
        let found = |query: &str| -> Vec<&str> {
            search.matches(query).iter().map(|tool| tool.name()).collect()
        };
        assert_eq!(found("mcp__db__query"), ["mcp__db__query"]);
        assert_eq!(
            found("create an issue on GitHub"),
            ["mcp__github__create_issue", "mcp__github__listIssues"]
        );
        assert_eq!(found("list issues")[0], "mcp__github__listIssues");
        assert_eq!(found("city"), ["mcp__time__get_now"]);
        assert_eq!(found("list all repositories")[0], "mcp__github__listIssues");
        assert_eq!(found("queries"), ["mcp__db__query"]);
        assert_eq!(found("the weather of the day"), [""; 0]);
    }

    #[test]
    fn the_description_names_servers_only() {
        assert_eq!(
            TypedTool::description(&search()),
            "Finds tools of MCP servers (db, github, time) that are not listed here, with their arguments. Call one with `call_tool`."
        );
    }
}
