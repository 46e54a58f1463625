//! The agent's todo list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a todo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on. At most one at a time.
    InProgress,
    /// Done.
    Completed,
}

/// One todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoItem {
    /// What to do, as an order: "Add a test".
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// The same while it is being done: "Adding a test".
    #[serde(
        default,
        rename = "activeForm",
        alias = "active_form",
        skip_serializing_if = "Option::is_none"
    )]
    pub active_form: Option<String>,
}

/// The agent's todo list. Replaced as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoList {
    items: Vec<TodoItem>,
}

/// Error for an invalid todo list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TodoError {
    /// More than one todo is in progress.
    #[error("{count} todos are in progress; at most one may be")]
    SeveralInProgress {
        /// Number of todos in progress.
        count: usize,
    },
    /// A todo has no content.
    #[error("todo {position} has no content")]
    Empty {
        /// Its position; the first is 1.
        position: usize,
    },
}

impl TodoList {
    /// Makes a list of `items`. Fails if more than one is in progress or one has no content.
    pub fn new(items: Vec<TodoItem>) -> Result<Self, TodoError> {
        let count = items.iter().filter(|item| item.status == TodoStatus::InProgress).count();
        if count > 1 {
            return Err(TodoError::SeveralInProgress { count });
        }
        match items.iter().position(|item| item.content.trim().is_empty()) {
            Some(index) => Err(TodoError::Empty { position: index + 1 }),
            None => Ok(Self { items }),
        }
    }

    /// Returns the todos in order.
    pub fn items(&self) -> &[TodoItem] {
        &self.items
    }

    /// Returns the number of todos with that status.
    pub fn count(&self, status: TodoStatus) -> usize {
        self.items.iter().filter(|item| item.status == status).count()
    }

    /// Formats the list as text, one line per todo.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for item in &self.items {
            let mark = match item.status {
                TodoStatus::Pending => "[ ]",
                TodoStatus::InProgress => "[~]",
                TodoStatus::Completed => "[x]",
            };
            text.push_str(mark);
            text.push(' ');
            text.push_str(&item.content);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(content: &str, status: TodoStatus) -> TodoItem {
        TodoItem { content: content.into(), status, active_form: None }
    }

    #[test]
    fn two_todos_in_progress_are_refused() {
        let items = vec![item("a", TodoStatus::InProgress), item("b", TodoStatus::InProgress)];
        assert_eq!(TodoList::new(items), Err(TodoError::SeveralInProgress { count: 2 }));
    }

    #[test]
    fn an_empty_todo_is_refused_with_its_position() {
        let items = vec![item("a", TodoStatus::Pending), item("  ", TodoStatus::Pending)];
        assert_eq!(TodoList::new(items), Err(TodoError::Empty { position: 2 }));
    }

    #[test]
    fn the_text_shows_each_status() {
        let items = vec![
            item("a", TodoStatus::Completed),
            item("b", TodoStatus::InProgress),
            item("c", TodoStatus::Pending),
        ];
        assert_eq!(TodoList::new(items).unwrap().to_text(), "[x] a\n[~] b\n[ ] c\n");
    }
}
