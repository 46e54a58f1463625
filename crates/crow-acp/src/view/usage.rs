//! Token usage and cost.

use agent_client_protocol::v1::schema::{Cost, Usage, UsageUpdate};
use crow_core::usage::TokenUsage;
use crow_runtime::SessionUsage;

/// Returns the update with the used context window and the cost; `None` if the size of the window is not known.
pub(crate) fn usage_update(usage: &SessionUsage) -> Option<UsageUpdate> {
    let cost = usage.cost_usd.filter(|cost| cost.is_finite());
    let update = UsageUpdate::new(usage.context_tokens, usage.context_window?);
    Some(update.cost(cost.map(|amount| Cost::new(amount, "USD"))))
}

/// Returns the token usage of a prompt. The parts do not overlap, because clients add them up.
pub(crate) fn prompt_usage(usage: &TokenUsage) -> Usage {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let reasoning = usage.reasoning_tokens.unwrap_or(0);
    Usage::new(
        usage.total(),
        usage.input_tokens.saturating_sub(cached),
        usage.output_tokens.saturating_sub(reasoning),
    )
    .thought_tokens(usage.reasoning_tokens)
    .cached_read_tokens(usage.cache_read_tokens)
    .cached_write_tokens(usage.cache_write_tokens)
}
