//! Token usage, as both formats report it.

use crow_core::usage::TokenUsage;
use serde_json::Value;

/// Names of the two totals and of their details; the other names are the same in both formats.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageNames {
    input: &'static str,
    input_details: &'static str,
    output: &'static str,
    output_details: &'static str,
}

/// Names in Chat Completions.
pub(super) const CHAT: UsageNames = UsageNames {
    input: "prompt_tokens",
    input_details: "prompt_tokens_details",
    output: "completion_tokens",
    output_details: "completion_tokens_details",
};

/// Names in Responses.
pub(super) const RESPONSES: UsageNames = UsageNames {
    input: "input_tokens",
    input_details: "input_tokens_details",
    output: "output_tokens",
    output_details: "output_tokens_details",
};

/// Parses a usage object. Both totals include their parts: cached input and reasoning.
pub(super) fn read(usage: &Value, names: UsageNames) -> TokenUsage {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let input = usage.get(names.input_details).unwrap_or(&Value::Null);
    let output = usage.get(names.output_details).unwrap_or(&Value::Null);
    TokenUsage {
        input_tokens: number(usage, names.input).unwrap_or(0),
        output_tokens: number(usage, names.output).unwrap_or(0),
        reasoning_tokens: number(output, "reasoning_tokens"),
        // DeepSeek has another name for it.
        cache_read_tokens: number(input, "cached_tokens")
            .or_else(|| number(usage, "prompt_cache_hit_tokens"))
            .unwrap_or(0),
        cache_write_tokens: number(input, "cache_write_tokens").unwrap_or(0),
        cache_write_1h_tokens: 0,
    }
}
