//! Classification of an error by its text, codes and status.

use crow_core::model::ProviderErrorKind as Kind;

use super::refuses_tools;

/// Texts and codes, in lower case, for a request that exceeds the context.
const CONTEXT: &[&str] = &[
    // OpenAI, and most who follow it
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "reduce the length of the",
    "string_above_max_length",
    // Anthropic
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    "model_context_window_exceeded",
    // Gemini
    "input token count",
    // llama.cpp
    "exceed_context_size_error",
    "exceeds the available context",
    // LM Studio, Ollama
    "context the overflows",
    "context length of only",
    "exceeds maximum context",
    "exceeds the context length",
    // xAI, Mistral, Moonshot, MiniMax, Bedrock, Copilot, Groq
    "maximum prompt length",
    "maximum context",
    "model token limit",
    "context window exceeds limit",
    "input is too long",
    "model_max_prompt_tokens_exceeded",
    "request too large",
    "context length exceeded",
    "too many tokens in the prompt",
];

/// Texts and codes for missing credit, which waiting does not fix.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient balance",
    "insufficient credit",
    "insufficient_credit",
    "insufficient funds",
    "credit balance is too low",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "specified api usage limits",
    "usage_limit_reached",
    "exceeded_current_quota_error",
    "perday",
    "requires more credits",
];

const AUTH: &[&str] = &[
    "invalid_api_key",
    "api_key_invalid",
    "api key not valid",
    "api key expired",
    "incorrect api key",
    "authentication_error",
    "unauthenticated",
    "invalid x-api-key",
];

const REFUSAL: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "violating our usage policy",
    "flagged by our",
    "responsible ai",
];

/// Codes that are more specific than the status.
const CODES: &[(&str, Kind)] = &[
    ("permission_error", Kind::Permission),
    ("permission_denied", Kind::Permission),
    ("insufficient_permissions", Kind::Permission),
    ("service_disabled", Kind::Permission),
    ("not_found_error", Kind::NotFound),
    ("model_not_found", Kind::NotFound),
    ("not_found", Kind::NotFound),
    ("rate_limit_error", Kind::RateLimited),
    ("rate_limit_exceeded", Kind::RateLimited),
    ("resource_exhausted", Kind::RateLimited),
    ("too_many_requests", Kind::RateLimited),
    ("overloaded_error", Kind::Overloaded),
    ("overloaded", Kind::Overloaded),
    ("server_is_overloaded", Kind::Overloaded),
    ("service_unavailable_error", Kind::Overloaded),
    ("unavailable_error", Kind::Overloaded),
    ("unavailable", Kind::Overloaded),
    ("slow_down", Kind::Overloaded),
    ("timeout_error", Kind::Timeout),
    ("deadline_exceeded", Kind::Timeout),
];

/// Codes that some vendors send with any status, so they count less than the status.
const VAGUE_CODES: &[(&str, Kind)] = &[
    ("invalid_request_error", Kind::InvalidRequest),
    ("invalid_argument", Kind::InvalidRequest),
    ("invalid_prompt", Kind::InvalidRequest),
    ("failed_precondition", Kind::InvalidRequest),
];

/// Classifies an error by the most specific evidence: text, codes, status, vague codes.
pub(super) fn kind_of(status: Option<u16>, codes: &[&str], message: &str) -> Kind {
    let mut text = message.to_lowercase();
    let codes: Vec<String> = codes.iter().map(|code| code.to_lowercase()).collect();
    for code in &codes {
        text.push('\n');
        text.push_str(code);
    }
    let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let kind_by_code = |table: &[(&str, Kind)]| {
        codes.iter().find_map(|code| {
            table.iter().find_map(|(known, kind)| (known == code).then_some(*kind))
        })
    };
    if mentions(CONTEXT) {
        Kind::ContextLength
    } else if mentions(QUOTA) {
        Kind::Quota
    } else if mentions(AUTH) {
        Kind::Auth
    } else if mentions(REFUSAL) {
        Kind::Refusal
    } else if mentions(&["location is not supported"]) {
        Kind::Permission
    } else if refuses_tools(message) {
        // Whatever the status says: 404, 405, 500 and 501 were seen. To send the same request again does not help.
        Kind::InvalidRequest
    } else {
        kind_by_code(CODES)
            .or_else(|| status.and_then(kind_of_status))
            .or_else(|| kind_by_code(VAGUE_CODES))
            .unwrap_or(Kind::Server)
    }
}

/// Returns the kind of a status; none if it is no error.
fn kind_of_status(status: u16) -> Option<Kind> {
    Some(match status {
        300..=399 | 404 | 405 | 410 => Kind::NotFound,
        401 => Kind::Auth,
        402 => Kind::Quota,
        403 => Kind::Permission,
        408 | 504 => Kind::Timeout,
        413 => Kind::ContextLength,
        425 | 429 => Kind::RateLimited,
        // A conflict is temporary: it ends with the other request.
        409 => Kind::Server,
        400..=499 => Kind::InvalidRequest,
        503 | 529 => Kind::Overloaded,
        500..=599 => Kind::Server,
        _ => return None,
    })
}
