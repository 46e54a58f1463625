//! The status line below the prompt: agent, permissions, model, context and cost.

use std::sync::Arc;

use crow_runtime::{SessionOption, SessionUsage};
use crow_text::one_line;

use super::chat_loop::{ChatLoop, TaskResult};
use crate::styled_text::{StyledLine, TextRole};

impl ChatLoop {
    /// Reads the facts of the status line beside the loop, which has no other task.
    pub(super) fn refresh_status_later(&mut self) {
        if self.typing.editor().is_none() {
            return;
        }
        let (host, id) = (Arc::clone(&self.host), self.handle.session_id().clone());
        self.start_task(Box::pin(async move {
            let options = host.options(&id).await;
            let usage = host.usage(&id).await.unwrap_or_default();
            let result: TaskResult = Box::new(move |chat| {
                if let Ok(options) = options {
                    chat.status = status_line(&options, usage);
                }
                Ok(())
            });
            result
        }));
    }

    /// Reads the facts of the status line. A host that cannot say leaves it as it was.
    pub(super) async fn refresh_status(&mut self) {
        if self.typing.editor().is_none() {
            return;
        }
        let id = self.handle.session_id().clone();
        let Ok(options) = self.host.options(&id).await else { return };
        let usage = self.host.usage(&id).await.unwrap_or_default();
        self.status = status_line(&options, usage);
        self.show_input();
    }
}

fn status_line(options: &[SessionOption], usage: SessionUsage) -> StyledLine {
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.map(|option| one_line(&option.value))
    };
    let mut parts: Vec<String> =
        ["agent", "permissions", "model"].iter().filter_map(|name| value(name)).collect();
    if let Some(window) = usage.context_window.filter(|window| *window > 0) {
        parts.push(format!("{} % of context", usage.context_tokens * 100 / window));
    }
    if let Some(cost) = usage.cost_usd.filter(|cost| *cost > 0.0) {
        parts.push(format!("${cost:.2}"));
    }
    let mut line = StyledLine::default();
    line.push(format!("  {}", parts.join(" \u{b7} ")), TextRole::Dim);
    line
}
