//! The command `status`: the settings and usage of a session.

use std::fmt::Write as _;

use crow_core::control::Preset;
use crow_mcp::{ServerState, ServerSummary};
use crow_runtime::SessionUsage;
use crow_text::one_line;

use super::opened::SessionState;

/// Formats the status, one fact per line.
pub(super) fn text(current: &SessionState, usage: SessionUsage, is_sandboxed: bool) -> String {
    let metadata = current.handle.metadata();
    let crow = metadata.crow();
    let review = &current.review;
    let mode = review.mode.map_or("custom", Preset::as_str);
    let reviewers = review.reviewers.join(", ");
    let mode = if reviewers.is_empty() {
        mode.to_owned()
    } else {
        format!("{mode}, reviewed by {reviewers}")
    };
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    line("session", &metadata.session_id);
    if !crow.title.is_empty() {
        line("title", &crow.title);
    }
    line("directory", &crow.cwd.display());
    for path in &crow.additional_directories {
        line("", &path.display());
    }
    line("agent", &current.opened_with.agent);
    line("mode", &mode);
    line("model", &current.model.reference);
    line("permissions", &current.handle.permissions().policy().mode());
    line(
        "sandbox",
        if is_sandboxed { &"confines commands" } else { &"off: commands run with all your rights" },
    );
    for server in &current.servers() {
        line("mcp", &format_args!("{} ({})", server.name, server_state(server)));
    }
    line("context", &context(usage));
    line("cost", &usage.cost_usd.map_or("unknown".to_owned(), |cost| format!("${cost:.4}")));
    text.trim_end().to_owned()
}

/// Describes the state of an MCP server.
fn server_state(server: &ServerSummary) -> String {
    match &server.state {
        ServerState::Unused => "not needed yet".to_owned(),
        ServerState::Connected => format!("{} tools", server.tools.len()),
        ServerState::Failed { why } => format!("failed: {}", one_line(why)),
    }
}

fn context(usage: SessionUsage) -> String {
    let tokens = usage.context_tokens;
    match usage.context_window.filter(|window| *window > 0) {
        Some(window) => {
            let percent = tokens.saturating_mul(100) / window;
            format!("{tokens} of {window} tokens ({percent} %)")
        }
        None => format!("{tokens} tokens"),
    }
}
