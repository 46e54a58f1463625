//! `recall`: finds what a compaction left out of the conversation.

use async_trait::async_trait;
use crow_context::recall::{RECALL, recorded_output, search_log};
use crow_core::{
    ids::CallId,
    tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

/// Searches the log of the session. Only offered once something was left out of the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recall;

/// The arguments of [`Recall`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallInput {
    /// A text or regular expression; case does not matter.
    #[serde(default, alias = "pattern", alias = "text")]
    query: Option<String>,
    /// A call whose output to show, as a placeholder names it.
    #[serde(default, alias = "call_id")]
    id: Option<String>,
    /// The byte at which the shown part of the output begins.
    #[serde(default)]
    offset: usize,
}

#[async_trait]
impl TypedTool for Recall {
    type Input = RecallInput;

    const NAME: &'static str = RECALL;
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Finds earlier messages and outputs of this session that are no longer shown: by `query`, or the whole output of a call by its `id`."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn plan(&self, input: &Self::Input, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let title = match (&input.query, &input.id) {
            (Some(query), None) => format!("recall {query}"),
            (None, Some(id)) => format!("recall the output of {id}"),
            (Some(_), Some(_)) | (None, None) => {
                return Err(ToolError::Model("give either query or id".to_owned()));
            }
        };
        Ok(CallPlan::without_effects(title))
    }

    async fn execute(&self, input: Self::Input, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        let Some(log) = &ctx.log else {
            return ToolResult::failure("this session keeps no log");
        };
        let lines = match log.lines().await {
            Ok(lines) => lines,
            Err(error) => return ToolResult::failure(error.to_string()),
        };
        match (input.query, input.id) {
            (Some(query), _) => {
                let pattern = |text: &str| RegexBuilder::new(text).case_insensitive(true).build();
                // An invalid regular expression is searched for as a text.
                let Ok(pattern) = pattern(&query).or_else(|_| pattern(&regex::escape(&query)))
                else {
                    return ToolResult::failure("the query is too long for a search");
                };
                let found = search_log(&lines, &pattern);
                if found.is_empty() {
                    ToolResult::success("nothing in this session matches")
                } else {
                    ToolResult::success(found)
                }
            }
            (None, Some(id)) => match recorded_output(&lines, &CallId::new(id), input.offset) {
                Some(output) => ToolResult::success(output),
                None => ToolResult::failure("no call of this session with that id was answered"),
            },
            (None, None) => ToolResult::failure("give query or id"),
        }
    }
}
