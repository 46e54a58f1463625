//! Renders the todo list as a checklist.

use crow_core::todo::{TodoItem, TodoStatus};

use super::{ConsoleStyle, one_line, paint::Paint, wrap::wrap_hanging};

/// Renders the list, one line for each item; long items wrap.
pub(super) fn checklist(style: &ConsoleStyle, items: &[TodoItem]) -> String {
    items.iter().map(|item| entry(style, item)).collect()
}

fn entry(style: &ConsoleStyle, item: &TodoItem) -> String {
    let (mark, paint) = match item.status {
        TodoStatus::Pending => (style.glyphs.pick("☐", "[ ]"), Paint::Plain),
        TodoStatus::InProgress => (style.glyphs.pick("▸", "[~]"), Paint::Bold),
        TodoStatus::Completed => (style.glyphs.pick("☑", "[x]"), Paint::Dim),
    };
    let rest = style.glyphs.pick("    ", "      ");
    wrap_hanging(style, paint, (&format!("  {mark} "), rest), &one_line(&item.content))
}
