//! From words, codes and status to a kind.

use crow_core::model::ProviderErrorKind as Kind;

/// What a request that does not fit is answered with. Texts in lower case.
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

/// What is said when money, not time, is missing.
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

/// The codes that say more than a status does.
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

/// The codes that some vendors give with any status.
const VAGUE_CODES: &[(&str, Kind)] = &[
    ("invalid_request_error", Kind::InvalidRequest),
    ("invalid_argument", Kind::InvalidRequest),
    ("invalid_prompt", Kind::InvalidRequest),
    ("failed_precondition", Kind::InvalidRequest),
];

/// Decides by what is most telling first: words, codes, status, vague codes.
pub(super) fn kind_of(status: Option<u16>, codes: &[&str], message: &str) -> Kind {
    let mut said = message.to_lowercase();
    let codes: Vec<String> = codes.iter().map(|code| code.to_lowercase()).collect();
    for code in &codes {
        said.push('\n');
        said.push_str(code);
    }
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let names = |table: &[(&str, Kind)]| {
        codes.iter().find_map(|code| {
            table.iter().find_map(|(known, kind)| (known == code).then_some(*kind))
        })
    };
    if says(CONTEXT) {
        Kind::ContextLength
    } else if says(QUOTA) {
        Kind::Quota
    } else if says(AUTH) {
        Kind::Auth
    } else if says(REFUSAL) {
        Kind::Refusal
    } else if says(&["location is not supported"]) {
        Kind::Permission
    } else {
        names(CODES)
            .or_else(|| status.and_then(kind_of_status))
            .or_else(|| names(VAGUE_CODES))
            .unwrap_or(Kind::Server)
    }
}

/// What a status says of itself; nothing if it is no error.
fn kind_of_status(status: u16) -> Option<Kind> {
    Some(match status {
        300..=399 | 404 | 405 | 410 => Kind::NotFound,
        401 => Kind::Auth,
        402 => Kind::Quota,
        403 => Kind::Permission,
        408 | 504 => Kind::Timeout,
        413 => Kind::ContextLength,
        425 | 429 => Kind::RateLimited,
        // A conflict passes when the other request is done.
        409 => Kind::Server,
        400..=499 => Kind::InvalidRequest,
        503 | 529 => Kind::Overloaded,
        500..=599 => Kind::Server,
        _ => return None,
    })
}
