//! The status line below the prompt, as the user has composed it.

use std::sync::Arc;

use crow_runtime::{AgentHandle, AgentHost};
use tokio::task::spawn_blocking;

use super::{
    branch::current_branch,
    chat_loop::{ChatLoop, TaskResult},
    greeting::below_home,
};
use crate::status_line::StatusFacts;

/// Reads the facts of the status line beside the loop.
pub(super) fn refresh_status(chat: &mut ChatLoop) {
    chat.is_status_due = false;
    if chat.typing.editor().is_none() {
        return;
    }
    let (host, handle) = (Arc::clone(&chat.host), chat.handle.clone());
    let mut facts = facts_of_report(chat);
    chat.start_quiet_task(Box::pin(async move {
        let is_known = read_facts(&*host, &handle, &mut facts).await;
        let result: TaskResult = Box::new(move |chat| {
            if is_known {
                let home = chat.setup.home.as_deref();
                facts.cwd = Some(below_home(&handle.metadata().crow().cwd, home));
                chat.status = facts;
            }
            Ok(())
        });
        result
    }));
}

/// Returns the facts that the chat knows from the events of the last run.
fn facts_of_report(chat: &ChatLoop) -> StatusFacts {
    let usage = chat.work.report.report().usage.tokens;
    let read = usage.input_tokens;
    let cached = usage.cache_read_tokens;
    StatusFacts {
        tokens_in: Some(read),
        tokens_out: Some(usage.output_tokens),
        cache_percent: (read > 0).then(|| cached * 100 / read),
        session: Some(chat.title_subject.clone()),
        ..StatusFacts::default()
    }
}

/// Reads the facts that the host knows. Returns false if it knows nothing of the session.
async fn read_facts(host: &dyn AgentHost, handle: &AgentHandle, facts: &mut StatusFacts) -> bool {
    let id = handle.session_id();
    let Ok(options) = host.options(id).await else { return false };
    let usage = host.usage(id).await.unwrap_or_default();
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.map(|option| option.value.clone())
    };
    facts.agent = value("agent");
    facts.mode = value("mode");
    facts.permissions = value("permissions");
    facts.model = value("model");
    facts.thinking = value("thinking");
    facts.cost_usd = usage.cost_usd;
    let window = usage.context_window.filter(|window| *window > 0);
    facts.context_percent = window.map(|window| usage.context_tokens * 100 / window);
    let cwd = handle.metadata().crow().cwd;
    facts.branch = spawn_blocking(move || current_branch(&cwd)).await.ok().flatten();
    true
}
