//! The current tools of an agent: its own, those from the source of its session, and after a compaction `recall`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_context::recall::{RECALL, recorded_output, search_log};
use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::CallId,
    model::ToolDefinition,
    tool::{
        CALL_TOOL, CallPlan, SourcedTools, Tool, ToolCategory, ToolContext, ToolError,
        ToolRegistry, ToolResult, ToolSource, TypedTool, TypedToolAdapter, matches_sourced,
    },
};
use crow_runtime::{AgentError, AgentInternals};
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::deferred_tools::{CallFoundTool, FindTools, estimated_tokens};

/// Time to wait for tools before the wait is reported.
const TELL_AFTER: Duration = Duration::from_millis(500);

/// Filter for the tools of a source. A tool must match a pattern of every list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourcedFilter {
    lists: Vec<Vec<String>>,
}

impl SourcedFilter {
    /// Accepts the tools that match these patterns.
    pub(crate) fn new(patterns: Vec<String>) -> Self {
        Self { lists: vec![patterns] }
    }

    /// Returns a filter that accepts only what both filters accept.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return Self::default();
        }
        Self { lists: self.lists.iter().chain(&other.lists).cloned().collect() }
    }

    fn is_empty(&self) -> bool {
        self.lists.is_empty() || self.lists.iter().any(Vec::is_empty)
    }

    fn accepts(&self, name: &str) -> bool {
        let matches_one =
            |list: &Vec<String>| list.iter().any(|pattern| matches_sourced(pattern, name));
        !self.is_empty() && self.lists.iter().all(matches_one)
    }
}

/// The tools of an agent during a turn. They change only between two model calls.
#[derive(Debug)]
pub(crate) struct Toolset<'a> {
    own: &'a ToolRegistry,
    filter: &'a SourcedFilter,
    /// Revision of the source's tools in this set.
    revision: Option<u64>,
    /// True if the set has the tool that finds what was left out of the conversation.
    has_recall: bool,
    registry: Arc<ToolRegistry>,
    definitions: Arc<[ToolDefinition]>,
}

impl<'a> Toolset<'a> {
    /// Begins with the agent's own tools.
    pub(crate) fn new(
        own: &'a Arc<ToolRegistry>,
        definitions: &Arc<[ToolDefinition]>,
        filter: &'a SourcedFilter,
    ) -> Self {
        let (registry, definitions) = (Arc::clone(own), Arc::clone(definitions));
        Self { own, filter, revision: None, has_recall: false, registry, definitions }
    }

    pub(crate) fn registry(&self) -> &ToolRegistry {
        &self.registry
    }

    pub(crate) fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Takes over the current tools of the source, and emits its notices. These report each change and are in the
    /// log, because from there on requests begin differently. After a compaction they do so anyway: then `recall` comes
    /// to the agent's own tools.
    pub(crate) async fn refresh(
        &mut self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let has_recall = agent.context().log.is_some() && agent.history().is_compacted();
        let current = self.current_of_source(agent, cancel).await?;
        let revision = current.as_ref().map(|current| current.revision);
        if self.revision == revision && self.has_recall == has_recall {
            return Ok(());
        }
        let mut registry = self.own.clone();
        // Neither `recall` nor a tool of a server replaces one of the agent's own.
        if has_recall && registry.get(Recall::NAME).is_none() {
            registry.register(TypedToolAdapter::new(Recall));
        }
        let sourced = current.iter().flat_map(|current| current.tools.iter());
        let sourced = sourced
            .filter(|tool| self.filter.accepts(tool.name()) && registry.get(tool.name()).is_none());
        let sourced: Vec<Arc<dyn Tool>> = sourced.cloned().collect();
        if let Some(source) = agent.tool_source() {
            Self::add_sourced(agent, &mut registry, sourced, source.as_ref()).await?;
        }
        self.definitions = registry.definitions().into();
        self.registry = Arc::new(registry);
        (self.revision, self.has_recall) = (revision, has_recall);
        Ok(())
    }

    /// Adds the tools of the source. If their definitions are longer than the threshold, they can be called, but a search
    /// for them is listed in their place. The user is told once.
    async fn add_sourced(
        agent: &mut AgentInternals,
        registry: &mut ToolRegistry,
        sourced: Vec<Arc<dyn Tool>>,
        source: &dyn ToolSource,
    ) -> Result<(), AgentError> {
        let tokens: u64 = sourced.iter().map(|tool| estimated_tokens(tool.as_ref())).sum();
        let threshold = source.deferral_threshold();
        // An agent's own tools of these names are kept.
        let has_names =
            [FindTools::NAME, CALL_TOOL].iter().all(|name| registry.get(name).is_none());
        let (count, is_deferred) = (sourced.len(), tokens > threshold && has_names);
        for tool in &sourced {
            registry.register_shared(Arc::clone(tool));
            if is_deferred {
                registry.unlist(tool.name());
            }
        }
        if is_deferred {
            registry.register(TypedToolAdapter::new(FindTools::new(sourced)));
            registry.register(CallFoundTool);
            if source.takes_deferral_notice() {
                let text = format!(
                    "{count} tools of MCP servers ({tokens} tokens) are found by a search instead of listed in each request; the threshold is {threshold} tokens (mcp.defer_above)"
                );
                let (level, audience) = (NoticeLevel::Info, NoticeAudience::User);
                agent.emit(AgentEvent::Notice { level, audience, text }).await?;
            }
        }
        Ok(())
    }

    /// Waits until the source is ready, emits its notices and returns its tools; `None` if the agent uses none of it.
    async fn current_of_source(
        &self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<Option<SourcedTools>, AgentError> {
        if self.filter.is_empty() {
            return Ok(None);
        }
        let Some(source) = agent.tool_source() else { return Ok(None) };
        ready(agent, source.as_ref(), cancel).await?;
        emit_notices(agent, source.as_ref()).await?;
        Ok(Some(source.tools()))
    }
}

/// Emits the pending notices of a source.
pub(crate) async fn emit_notices(
    agent: &mut AgentInternals,
    source: &dyn ToolSource,
) -> Result<(), AgentError> {
    for news in source.take_notices() {
        let (level, audience, text) = (news.level, NoticeAudience::User, news.text);
        agent.emit(AgentEvent::Notice { level, audience, text }).await?;
    }
    Ok(())
}

/// Waits until a source is ready. If that takes longer than `TELL_AFTER`, reports what it waits for.
async fn ready(
    agent: &mut AgentInternals,
    source: &dyn ToolSource,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    let mut ready = source.ready(cancel);
    if timeout(TELL_AFTER, &mut ready).await.is_err() {
        let servers = source.pending_names();
        agent.emit(AgentEvent::ToolsWait { servers }).await?;
        ready.await;
    }
    Ok(())
}

/// Searches the log of the session. Only offered once something was left out of the conversation.
#[derive(Debug, Clone, Copy, Default)]
struct Recall;

/// The arguments of [`Recall`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallInput {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(patterns: &[&str]) -> SourcedFilter {
        SourcedFilter::new(patterns.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn a_combined_filter_accepts_only_what_both_accept() {
        let all = filter(&["mcp__*"]);
        let time = filter(&["mcp__time__*", "mcp__git__log"]);
        let both = time.intersect(&all).intersect(&filter(&["mcp__git__*"]));
        for (name, taken) in
            [("mcp__git__log", true), ("mcp__git__push", false), ("mcp__time__now", false)]
        {
            assert_eq!(both.accepts(name), taken, "{name}");
        }
        assert!(!all.intersect(&SourcedFilter::default()).accepts("mcp__git__log"));
        assert!(!filter(&[]).accepts("mcp__git__log"));
    }
}
