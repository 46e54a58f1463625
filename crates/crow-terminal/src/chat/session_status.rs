//! The status line below the prompt, as the user has composed it.

use std::sync::Arc;

use crow_core::usage::TokenUsage;
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
    chat.start_quiet_task(Box::pin(async move {
        let facts = read_facts(&*host, &handle).await;
        let result: TaskResult = Box::new(move |chat| {
            if let Some(mut facts) = facts {
                let home = chat.setup.home.as_deref();
                facts.cwd = Some(below_home(&handle.metadata().crow().cwd, home));
                chat.status = facts;
                update_work_facts(chat);
            }
            Ok(())
        });
        result
    }));
}

/// Updates the facts that change while the agent works. Returns true if one of them has changed.
pub(super) fn update_work_facts(chat: &mut ChatLoop) -> bool {
    chat.work.update_used_budget(&chat.handle);
    let (time, jobs) = (chat.work.run_time(), chat.work.jobs.count());
    let budget = chat.work.used_budget.map(percent);
    let status = &mut chat.status;
    let is_changed = (status.time, status.jobs, status.budget_percent) != (time, jobs, budget);
    (status.time, status.jobs, status.budget_percent) = (time, jobs, budget);
    is_changed
}

/// Converts a part into percent, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part is positive and small"
)]
fn percent(part: f64) -> u64 {
    (part * 100.0) as u64
}

/// Reads the facts of a session; `None` if the host knows nothing of it.
async fn read_facts(host: &dyn AgentHost, handle: &AgentHandle) -> Option<StatusFacts> {
    let id = handle.session_id();
    let options = host.options(id).await.ok()?;
    let usage = host.usage(id).await.unwrap_or_default();
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.map(|option| option.value.clone())
    };
    let mut tokens = TokenUsage::default();
    for (_, spent) in handle.spent() {
        tokens += spent;
    }
    let (read, cached) = (tokens.input_tokens, tokens.cache_read_tokens);
    let window = usage.context_window.filter(|window| *window > 0);
    let metadata = handle.metadata();
    let crow = metadata.crow();
    let cwd = crow.cwd.clone();
    Some(StatusFacts {
        agent: value("agent"),
        mode: value("mode"),
        permissions: value("permissions"),
        model: value("model"),
        thinking: value("thinking"),
        tokens_in: Some(read),
        tokens_out: Some(tokens.output_tokens),
        cache_percent: (read > 0).then(|| cached.saturating_mul(100) / read),
        cost_usd: usage.cost_usd,
        context_percent: window.map(|window| usage.context_tokens.saturating_mul(100) / window),
        branch: spawn_blocking(move || current_branch(&cwd)).await.ok().flatten(),
        session: Some(if crow.title.is_empty() { id.to_string() } else { crow.title }),
        ..StatusFacts::default()
    })
}
