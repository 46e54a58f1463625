//! The tools of one agent.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use super::{CallPlan, Tool, ToolCategory, ToolContext, ToolResult};
use crate::{model::ToolDefinition, permission::Permit};

/// The tools that one agent was given, by name. Starts empty: the builder of an agent chooses them.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
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

    /// Adds a shared tool.
    pub fn register_shared(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.name().to_owned(), tool);
    }

    /// Returns the tool of that exact name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Returns the category of the tool of that name.
    pub fn category(&self, name: &str) -> Option<ToolCategory> {
        self.get(name).map(|tool| tool.category())
    }

    /// Returns all names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the definitions for the model, in order of name, so that they are the same in every request.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.values().map(|tool| tool.definition()).collect()
    }

    /// Returns a registry with the tools named in `enabled`, and the names without a tool.
    pub fn for_agent(&self, enabled: &[String]) -> (Self, Vec<String>) {
        let mut chosen = Self::new();
        let mut unknown = Vec::new();
        for name in enabled {
            match self.get(name) {
                Some(tool) => chosen.register_shared(Arc::clone(tool)),
                None => unknown.push(name.clone()),
            }
        }
        (chosen, unknown)
    }

    /// Keeps the tools for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&dyn Tool) -> bool) {
        self.tools.retain(|_, tool| keeps(tool.as_ref()));
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
