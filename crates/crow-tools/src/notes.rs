//! Tools in which the agent only notes something: `todo_write` and `todo_read`, the session's todo list; and `think`, a
//! place for thoughts of models that do not reason by themselves.

use std::sync::PoisonError;

use async_trait::async_trait;
use crow_core::{
    todo::{TodoItem, TodoList, TodoStatus},
    tool::{CallPlan, ToolCategory, ToolContext, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Replaces the todo list.
#[derive(Debug)]
pub(crate) struct TodoWrite;

/// Shows the todo list.
#[derive(Debug)]
pub(crate) struct TodoRead;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TodoWriteInput {
    /// The complete new list.
    #[serde(alias = "items", alias = "todo_list")]
    todos: Vec<TodoItem>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TodoReadInput {}

#[async_trait]
impl TypedTool for TodoWrite {
    type Input = TodoWriteInput;
    const NAME: &'static str = "todo_write";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Replaces the todo list. For work of several steps: one in_progress at a time, completed as soon as it is."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        input: TodoWriteInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let list = match TodoList::new(input.todos) {
            Ok(list) => list,
            Err(error) => {
                return ToolResult::failure(format!("the list was not changed: {error}"));
            }
        };
        let mut result = ToolResult::success(counts(&list));
        result.metadata.extra = json!({ "todos": list.items() });
        *ctx.todo.lock().unwrap_or_else(PoisonError::into_inner) = list;
        result
    }
}

#[async_trait]
impl TypedTool for TodoRead {
    type Input = TodoReadInput;
    const NAME: &'static str = "todo_read";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Shows the todo list of this session."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        _input: TodoReadInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let text = ctx.todo.lock().unwrap_or_else(PoisonError::into_inner).to_text();
        if text.is_empty() { ToolResult::success("The todo list is empty.") } else { text.into() }
    }
}

fn counts(list: &TodoList) -> String {
    if list.items().is_empty() {
        return "The todo list is empty now.".to_owned();
    }
    format!(
        "{} todos: {} completed, {} in progress, {} pending.",
        list.items().len(),
        list.count(TodoStatus::Completed),
        list.count(TodoStatus::InProgress),
        list.count(TodoStatus::Pending)
    )
}

/// Accepts a thought and has no effect.
#[derive(Debug)]
pub(crate) struct Think;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThinkInput {
    #[serde(alias = "thoughts", alias = "text")]
    #[expect(dead_code, reason = "a thought only has to be in the call")]
    thought: String,
}

#[async_trait]
impl TypedTool for Think {
    type Input = ThinkInput;
    const NAME: &'static str = "think";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Writes down a thought, for planning or weighing options. Has no effect."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    async fn execute(
        &self,
        _input: ThinkInput,
        _plan: &CallPlan,
        _ctx: &ToolContext,
    ) -> ToolResult {
        ToolResult::success("ok")
    }
}
