//! The tools of an agent at a moment: its own, and those that it takes from the source of its session.

use std::{sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, NoticeAudience},
    model::ToolDefinition,
    tool::{ToolRegistry, ToolSource, matches_sourced},
};
use crow_runtime::{AgentError, AgentInternals};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long tools are waited for in silence.
const TELL_AFTER: Duration = Duration::from_millis(500);

/// Which tools an agent takes from a source: those that every one of its lists names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourcedFilter {
    lists: Vec<Vec<String>>,
}

impl SourcedFilter {
    /// Takes what these patterns name.
    pub(crate) fn new(patterns: Vec<String>) -> Self {
        Self { lists: vec![patterns] }
    }

    /// Takes of that only what another filter takes as well.
    pub(crate) fn within(&self, other: &Self) -> Self {
        if self.takes_nothing() || other.takes_nothing() {
            return Self::default();
        }
        Self { lists: self.lists.iter().chain(&other.lists).cloned().collect() }
    }

    fn takes_nothing(&self) -> bool {
        self.lists.is_empty() || self.lists.iter().any(Vec::is_empty)
    }

    fn takes(&self, name: &str) -> bool {
        let named = |list: &Vec<String>| list.iter().any(|one| matches_sourced(one, name));
        !self.takes_nothing() && self.lists.iter().all(named)
    }
}

/// The tools of an agent during a turn. They change only between two model calls.
#[derive(Debug)]
pub(crate) struct Toolset<'a> {
    own: &'a ToolRegistry,
    filter: &'a SourcedFilter,
    /// The source's number of the tools that are in here.
    revision: Option<u64>,
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
        Self { own, filter, revision: None, registry, definitions }
    }

    pub(crate) fn registry(&self) -> &ToolRegistry {
        &self.registry
    }

    pub(crate) fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Takes the tools that the source has now, and passes on what it has to say. What changed is told by that, and stands
    /// in the log: from there on requests begin otherwise.
    pub(crate) async fn refresh(
        &mut self,
        agent: &mut AgentInternals,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        if self.filter.takes_nothing() {
            return Ok(());
        }
        let Some(source) = agent.tool_source() else { return Ok(()) };
        ready(agent, source.as_ref(), cancel).await?;
        for news in source.take_news() {
            let (level, audience, text) = (news.level, NoticeAudience::User, news.text);
            agent.emit(AgentEvent::Notice { level, audience, text }).await?;
        }
        let now = source.tools();
        if self.revision == Some(now.revision) {
            return Ok(());
        }
        let mut registry = self.own.clone();
        for tool in now.tools.iter().filter(|tool| self.filter.takes(tool.name())) {
            // No server takes the place of a tool of the agent.
            if registry.get(tool.name()).is_none() {
                registry.register_shared(Arc::clone(tool));
            }
        }
        self.definitions = registry.definitions().into();
        self.registry = Arc::new(registry);
        self.revision = Some(now.revision);
        Ok(())
    }
}

/// Waits until a source is ready. If that takes a while, says what is waited for.
async fn ready(
    agent: &mut AgentInternals,
    source: &dyn ToolSource,
    cancel: &CancellationToken,
) -> Result<(), AgentError> {
    let mut ready = source.ready(cancel);
    if timeout(TELL_AFTER, &mut ready).await.is_err() {
        let servers = source.waits_for();
        agent.emit(AgentEvent::ToolsWait { servers }).await?;
        ready.await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(patterns: &[&str]) -> SourcedFilter {
        SourcedFilter::new(patterns.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn who_is_held_to_another_one_takes_only_what_both_take() {
        let all = filter(&["mcp__*"]);
        let time = filter(&["mcp__time__*", "mcp__git__log"]);
        let both = time.within(&all).within(&filter(&["mcp__git__*"]));
        for (name, taken) in
            [("mcp__git__log", true), ("mcp__git__push", false), ("mcp__time__now", false)]
        {
            assert_eq!(both.takes(name), taken, "{name}");
        }
        assert!(!all.within(&SourcedFilter::default()).takes("mcp__git__log"));
        assert!(!filter(&[]).takes("mcp__git__log"));
    }
}
