//! The tools of one agent, and sources whose tools appear and disappear while a session is open.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CallPlan, Tool, ToolCategory, ToolContext, ToolResult};
use crate::{
    event::NoticeLevel,
    model::ToolDefinition,
    permission::Permit,
    tool_types::{APPLY_PATCH, replaced_by},
};

/// The tools that one agent was given, by name. Starts empty: the builder of an agent chooses them.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Definitions in place of those of the tools, by name.
    redefined: BTreeMap<String, ToolDefinition>,
    /// Tools that can be called but are not offered, because others do the same.
    unlisted: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolRegistry {
    /// Makes a registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. One of the same name is replaced.
    pub fn register(&mut self, tool: impl Tool + 'static) {
        self.register_shared(Arc::new(tool));
    }

    /// Adds a shared tool. One of the same name is replaced, with its definition.
    pub fn register_shared(&mut self, tool: Arc<dyn Tool>) {
        self.redefined.remove(tool.name());
        self.tools.insert(tool.name().to_owned(), tool);
    }

    /// Tells the model another definition of a tool than its own. Calls are read and checked as before, so the definition
    /// may leave out arguments, but add none.
    pub fn redefine(&mut self, definition: ToolDefinition) {
        self.redefined.insert(definition.name.clone(), definition);
    }

    /// Keeps a tool callable without offering it, because another one does the same: a model may call it by habit.
    pub fn unlist(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.unlisted.insert(name.to_owned(), tool);
        }
    }

    /// Returns the tool of that exact name, also if it is not offered.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).or_else(|| self.unlisted.get(name))
    }

    /// Returns the category of the tool of that name.
    pub fn category(&self, name: &str) -> Option<ToolCategory> {
        self.get(name).map(|tool| tool.category())
    }

    /// Returns the names of all tools that are offered, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the definitions for the model, in order of name, so that they are the same in every request.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let definition = |tool: &Arc<dyn Tool>| {
            let redefined = self.redefined.get(tool.name()).cloned();
            redefined.unwrap_or_else(|| tool.definition())
        };
        self.tools.values().map(definition).collect()
    }

    /// Returns a registry with the tools named in `enabled`, and the names without a tool.
    ///
    /// Models are trained on `apply_patch` and call it by habit. A registry that has the tools that it replaces has it,
    /// too, without offering it.
    pub fn for_agent(&self, enabled: &[String]) -> (Self, Vec<String>) {
        let mut chosen = Self::new();
        let mut unknown = Vec::new();
        for name in enabled {
            match self.get(name) {
                Some(tool) => {
                    chosen.register_shared(Arc::clone(tool));
                    if let Some(definition) = self.redefined.get(name) {
                        chosen.redefine(definition.clone());
                    }
                }
                None => unknown.push(name.clone()),
            }
        }
        if let Some(patch) = self.get(APPLY_PATCH)
            && replaced_by(APPLY_PATCH).iter().all(|name| chosen.tools.contains_key(*name))
        {
            chosen.unlisted.insert(APPLY_PATCH.to_owned(), Arc::clone(patch));
        }
        (chosen, unknown)
    }

    /// Tells the model the definitions of tools that depend on its context window, in tokens.
    pub fn fit_to_window(&mut self, window: u64) {
        let definitions = self.tools.values().filter_map(|tool| tool.definition_for_window(window));
        for definition in definitions.collect::<Vec<_>>() {
            self.redefine(definition);
        }
    }

    /// Keeps the tools for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&dyn Tool) -> bool) {
        self.tools.retain(|_, tool| keeps(tool.as_ref()));
        let has_replaced =
            |name: &str| replaced_by(name).iter().all(|name| self.tools.contains_key(*name));
        self.unlisted.retain(|name, tool| keeps(tool.as_ref()) && has_replaced(name));
    }

    /// Runs a permitted call.
    ///
    /// Returns a failure and runs nothing if the permit was made for another call or another input, which is a bug of
    /// the caller.
    pub async fn execute(
        &self,
        permit: Permit,
        name: &str,
        input: Value,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let Some(tool) = self.get(name) else {
            return ToolResult::failure(format!("there is no tool named {name}"));
        };
        if !permit.covers(&ctx.call_id, &input) {
            return ToolResult::failure(
                "the call was refused: its permission was given for another call",
            );
        }
        tool.execute(input, plan, ctx).await
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.keys()).finish()
    }
}

/// Prefix of names of tools from a source. In a list of tools, `mcp__*` and `mcp__server__*` match all names that begin
/// so.
pub const SOURCED_NAME: &str = "mcp__";

/// Returns true if an entry of a list of tools refers to tools from a source: a full name, or a prefix followed by `*`.
pub fn is_sourced_pattern(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_name
        && name.starts_with(SOURCED_NAME)
        && (text.ends_with('*') || name.len() > SOURCED_NAME.len())
}

/// Returns true if a pattern matches a tool's name.
pub fn matches_sourced(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// A source of tools that appear and disappear while a session is open. All agents of the session take those that
/// they may use before each model call.
#[async_trait]
pub trait ToolSource: Send + Sync + fmt::Debug {
    /// Waits until the tools that are worth waiting for are available. Returns at once if there are none, and always in
    /// bounded time. Cancelling only ends the wait.
    async fn ready(&self, cancel: &CancellationToken);

    /// Returns the names of what [`ready`](Self::ready) currently waits for, for people.
    fn pending_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the current tools.
    fn tools(&self) -> SourcedTools;

    /// Returns the length of definitions in tokens above which the tools are found by a search instead of being listed in
    /// each request.
    fn deferral_threshold(&self) -> u64 {
        u64::MAX
    }

    /// Returns true the first time: the user is told once that tools are found by a search.
    fn takes_deferral_notice(&self) -> bool {
        false
    }

    /// Returns what a text of the user names of the source, such as `@SERVER:URI`, as a text for the model. `None` if it
    /// names nothing; faults become notices.
    async fn read_mentions(&self, text: &str, cancel: &CancellationToken) -> Option<String> {
        let _ = (text, cancel);
        None
    }

    /// Takes the pending news for the user; each is returned once.
    fn take_notices(&self) -> Vec<SourceNotice>;

    /// Stops the servers of the tools. Later calls fail. Returns when they have stopped, in bounded time.
    async fn close(&self);
}

/// The tools of a source at one moment.
#[derive(Clone, Default)]
pub struct SourcedTools {
    /// Changes whenever the tools change.
    pub revision: u64,
    /// The tools; each name occurs once.
    pub tools: Arc<[Arc<dyn Tool>]>,
}

impl fmt::Debug for SourcedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("SourcedTools")
            .field("revision", &self.revision)
            .field("tools", &names)
            .finish()
    }
}

/// A message for the user about a source of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNotice {
    /// The severity.
    pub level: NoticeLevel,
    /// The message.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_tool_a_server_or_all() {
        for (text, is_pattern) in [
            ("mcp__*", true),
            ("mcp__time__*", true),
            ("mcp__time__get_now", true),
            ("mcp__", false),
            ("mcp__a*b", false),
            ("mcp__a b", false),
            ("mcp*", false),
            ("bash", false),
        ] {
            assert_eq!(is_sourced_pattern(text), is_pattern, "{text}");
        }
        for (pattern, name, fits) in [
            ("mcp__*", "mcp__a__b", true),
            ("mcp__a__*", "mcp__a__b", true),
            ("mcp__a__*", "mcp__ab__b", false),
            ("mcp__a__b", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__bc", false),
        ] {
            assert_eq!(matches_sourced(pattern, name), fits, "{pattern} {name}");
        }
    }
}
