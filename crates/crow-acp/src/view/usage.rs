//! Tokens and money.

use agent_client_protocol::v1::schema::{Cost, Usage, UsageUpdate};
use crow_core::usage::TokenUsage;
use crow_runtime::SessionUsage;

/// Tells how much of the window is used. Nothing is told of a model whose window nobody knows.
pub(crate) fn usage_update(usage: &SessionUsage) -> Option<UsageUpdate> {
    let cost = usage.cost_usd.filter(|cost| cost.is_finite());
    let update = UsageUpdate::new(usage.context_tokens, usage.context_window?);
    Some(update.cost(cost.map(|amount| Cost::new(amount, "USD"))))
}

/// Returns what a prompt used. The parts do not overlap, as clients add them up.
pub(crate) fn prompt_usage(usage: &TokenUsage) -> Usage {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let thought = usage.reasoning_tokens.unwrap_or(0);
    Usage::new(
        usage.total(),
        usage.input_tokens.saturating_sub(cached),
        usage.output_tokens.saturating_sub(thought),
    )
    .thought_tokens(usage.reasoning_tokens)
    .cached_read_tokens(usage.cache_read_tokens)
    .cached_write_tokens(usage.cache_write_tokens)
}
