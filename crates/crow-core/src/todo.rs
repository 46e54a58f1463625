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
    /// What to do: "Add a test".
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

/// Number of steps after which the model is reminded of open todos.
const REMINDED_STEPS: u32 = 10;

/// Decides in a turn when the model is reminded of todos that it does not update.
#[derive(Debug, Clone, Default)]
pub struct TodoReminder {
    /// Steps since the last update or reminder.
    steps: u32,
}

impl TodoReminder {
    /// Records that the list was updated.
    pub fn on_update(&mut self) {
        self.steps = 0;
    }

    /// Records the end of a step.
    pub fn on_step(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// Returns a reminder after 10 steps without an update, if todos are open; the next one after another 10.
    pub fn take(&mut self, list: &TodoList) -> Option<String> {
        let open = list.items.len() - list.count(TodoStatus::Completed);
        if self.steps < REMINDED_STEPS || open == 0 {
            return None;
        }
        let steps = std::mem::take(&mut self.steps);
        let todos = if open == 1 { "1 todo is".to_owned() } else { format!("{open} todos are") };
        Some(format!(
            "{todos} open, and the list was not updated for {steps} steps. If some are done, mark them with todo_write."
        ))
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

    fn list(status: TodoStatus) -> TodoList {
        TodoList::new(vec![item("a", TodoStatus::Completed), item("b", status)]).unwrap()
    }

    #[test]
    fn open_todos_are_recalled_every_ten_steps_without_an_update() {
        let (mut reminder, list) = (TodoReminder::default(), list(TodoStatus::Pending));
        let mut steps = Vec::new();
        for step in 1..=40 {
            reminder.on_step();
            if step == 25 {
                reminder.on_update();
            }
            if let Some(text) = reminder.take(&list) {
                assert!(
                    text.starts_with("1 todo is open, and the list was not updated for 10 steps")
                );
                steps.push(step);
            }
        }
        assert_eq!(steps, [10, 20, 35]);
    }

    #[test]
    fn neither_an_empty_nor_a_finished_list_is_recalled() {
        for list in [TodoList::default(), list(TodoStatus::Completed)] {
            let mut reminder = TodoReminder::default();
            for _ in 0..30 {
                reminder.on_step();
                assert_eq!(reminder.take(&list), None);
            }
        }
    }
}
