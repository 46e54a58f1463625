//! The status line below the prompt: agent, permissions, model, context and cost.

use crow_runtime::AgentHost as _;
use crow_terminal::{StyledLine, TextRole};
use crow_text::one_line;

use super::{chat_input::ChatInput, conversation::ChatLoop, inline_prompt::show_view};

/// Reads what the status line shows. A host that cannot say leaves it as it was.
pub(super) async fn refresh_status(chat: &mut ChatLoop) {
    if !matches!(chat.typing, ChatInput::Editor(_)) {
        return;
    }
    let id = chat.handle.session_id().clone();
    let Ok(options) = chat.host.options(&id).await else { return };
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.map(|option| one_line(&option.value))
    };
    let mut parts: Vec<String> =
        ["agent", "permissions", "model"].iter().filter_map(|name| value(name)).collect();
    if let Ok(usage) = chat.host.usage(&id).await {
        if let Some(window) = usage.context_window.filter(|window| *window > 0) {
            parts.push(format!("{} % of context", usage.context_tokens * 100 / window));
        }
        if let Some(cost) = usage.cost_usd.filter(|cost| *cost > 0.0) {
            parts.push(format!("${cost:.2}"));
        }
    }
    let mut line = StyledLine::default();
    line.push(format!("  {}", parts.join(" \u{b7} ")), TextRole::Dim);
    chat.status = line;
    show_view(chat);
}
