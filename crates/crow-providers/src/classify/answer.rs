//! Conversion of HTTP answers other than replies to errors.

use crow_core::model::{ProviderError, ProviderErrorKind};
use jiff::Timestamp;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::{
    error_object::ErrorObject,
    kind::kind_of,
    text::{one_line, web_page},
    wait,
};

/// An HTTP answer other than a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    /// The body, or its beginning, free of secrets.
    pub(crate) body: &'a str,
}

/// Converts an answer to an error. The caller adds provider and address.
pub(crate) fn answer_error(answer: ErrorAnswer<'_>) -> ProviderError {
    let ErrorAnswer { status, headers, body } = answer;
    let mut error = if (300..400).contains(&status) {
        redirect(status, headers)
    } else {
        let complaint = json_in(body);
        match complaint.as_ref().and_then(ErrorObject::parse) {
            // If the HTTP status claims success, only a status in the body counts.
            Some(complaint) => complaint.into_error(Some(status).filter(|status| *status >= 400)),
            None => plain_body_error(status, body),
        }
    };
    error.retry_after = wait::from_headers(headers, Timestamp::now()).or(error.retry_after);
    error.request_id = request_id(headers).or(error.request_id);
    error
}

/// Parses a body that is JSON, or an event stream that begins with JSON.
fn json_in(body: &str) -> Option<Value> {
    let data = || body.lines().find_map(|line| line.strip_prefix("data:"));
    serde_json::from_str(body).ok().or_else(|| serde_json::from_str(data()?).ok())
}

/// Returns the id by which the provider's support can find the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["request-id", "x-request-id", "x-goog-request-id", "cf-ray"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok().map(str::to_owned))
}

fn redirect(status: u16, headers: &HeaderMap) -> ProviderError {
    let target = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // The query may contain a secret.
    let target = target.split(['?', '#']).next().unwrap_or_default();
    let mut error = ProviderError::new(
        ProviderErrorKind::NotFound,
        format!(
            "the server redirects to \"{target}\"; redirects are not followed, because the key would go there too: \
             correct the base URL"
        ),
    );
    error.status = Some(status);
    error
}

/// Returns the error for a body without a known error object.
fn plain_body_error(status: u16, body: &str) -> ProviderError {
    let page = web_page(body);
    let summary = match &page {
        Some(title) if title.is_empty() => {
            "the server sent a web page in place of an answer".to_owned()
        }
        Some(title) => format!("the server sent a web page in place of an answer: \"{title}\""),
        None => one_line(body),
    };
    let summary = if summary.is_empty() { "the server gave no reason".to_owned() } else { summary };
    if status < 300 {
        let mut error = ProviderError::new(
            ProviderErrorKind::Decode,
            format!("expected an event stream: {summary}"),
        );
        error.status = Some(status);
        return error;
    }
    let hint = if status == 404 || status == 405 { "; is the base URL right?" } else { "" };
    // The text of a web page describes the page, so it does not classify the error.
    let evidence = if page.is_some() { "" } else { summary.as_str() };
    let kind = kind_of(Some(status), &[], evidence);
    let mut error = ProviderError::new(kind, format!("{summary}{hint}"));
    error.status = Some(status);
    error
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ProviderErrorKind as Kind;

    use super::*;

    fn error_of(status: u16, body: &str) -> ProviderError {
        answer_error(ErrorAnswer { status, headers: &HeaderMap::new(), body })
    }

    /// Bodies as the vendors document or send them; llama.cpp's are from its server's source.
    const ANSWERS: &[(u16, &str, Kind)] = &[
        // Anthropic, docs.claude.com "Errors"
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210432 tokens > 200000 maximum"}}"#,
            Kind::ContextLength,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease input length or `max_tokens` and try again"}}"#,
            Kind::ContextLength,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            Kind::ContextLength,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            Kind::Quota,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0: all messages must have non-empty content"}}"#,
            Kind::InvalidRequest,
        ),
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            Kind::Auth,
        ),
        (
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#,
            Kind::Permission,
        ),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
            Kind::NotFound,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit"}}"#,
            Kind::RateLimited,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            Kind::Server,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Kind::Overloaded,
        ),
        // OpenAI, platform.openai.com "Error codes"
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            Kind::ContextLength,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Kind::Auth,
        ),
        (
            401,
            r#"{"error":{"message":"You must be a member of an organization","type":"invalid_request_error","code":null}}"#,
            Kind::Auth,
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
            Kind::NotFound,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Kind::Quota,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached for x","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Kind::RateLimited,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Kind::ContextLength,
        ),
        (
            503,
            r#"{"error":{"message":"Slow down","type":"server_error","code":"slow_down"}}"#,
            Kind::Overloaded,
        ),
        (
            400,
            r#"{"error":{"message":"filtered","type":null,"code":"content_filter"}}"#,
            Kind::Refusal,
        ),
        // Gemini, ai.google.dev "Troubleshooting"
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1203411) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            Kind::ContextLength,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            Kind::Auth,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
            Kind::Permission,
        ),
        (
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}]}}]"#,
            Kind::RateLimited,
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}"#,
            Kind::Quota,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            Kind::Overloaded,
        ),
        (
            504,
            r#"{"error":{"code":504,"message":"Deadline","status":"DEADLINE_EXCEEDED"}}"#,
            Kind::Timeout,
        ),
        // llama.cpp
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
            Kind::ContextLength,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            Kind::Overloaded,
        ),
        // vLLM, LM Studio, Ollama, OpenRouter, DeepSeek, xAI, FastAPI
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
            Kind::ContextLength,
        ),
        (
            400,
            r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
            Kind::ContextLength,
        ),
        (404, r#"{"error":"model \"x\" not found, try pulling it first"}"#, Kind::NotFound),
        (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, Kind::Quota),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
            Kind::Quota,
        ),
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
            Kind::ContextLength,
        ),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Kind::InvalidRequest),
        // An error in the form of an event.
        (
            400,
            "event: error\ndata: {\"error\":{\"type\":\"exceed_context_size_error\"}}\n\n",
            Kind::ContextLength,
        ),
        // no JSON at all
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", Kind::Server),
        (404, "<!DOCTYPE html><title>maximum context length</title>", Kind::NotFound),
        (429, "slow down", Kind::RateLimited),
        (418, "", Kind::InvalidRequest),
        (200, "<html></html>", Kind::Decode),
        (200, r#"{"error":{"message":"Loading","code":503}}"#, Kind::Overloaded),
    ];

    #[test]
    fn error_answers_are_classified_by_kind() {
        for (status, body, kind) in ANSWERS {
            let error = error_of(*status, body);
            assert_eq!(error.kind, *kind, "{status} {body}");
            assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_routers_error_includes_the_upstream_message() {
        let body = r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"prompt is too long"}}}"#;
        let error = error_of(400, body);
        assert_eq!(error.message, "Provider returned error: prompt is too long");
        assert_eq!(error.kind, Kind::ContextLength);
    }

    #[test]
    fn code_request_id_and_wait_are_kept() {
        let headers = HeaderMap::from_iter([
            ("request-id".parse().unwrap(), "req_7".parse().unwrap()),
            ("retry-after".parse().unwrap(), "3".parse().unwrap()),
        ]);
        let body = r#"{"error":{"type":"rate_limit_error","message":"slower,\n please"}}"#;
        let error = answer_error(ErrorAnswer { status: 429, headers: &headers, body });
        assert_eq!(error.message, "slower, please");
        assert_eq!(error.status, Some(429));
        assert_eq!(error.code.as_deref(), Some("rate_limit_error"));
        assert_eq!(error.request_id.as_deref(), Some("req_7"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn geminis_retry_delay_is_read_from_the_body() {
        let body = r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"retryDelay":"32s"}]}}"#;
        assert_eq!(error_of(429, body).retry_after, Some(Duration::from_secs(32)));
    }

    #[test]
    fn a_redirect_names_its_target_without_the_query() {
        let headers = HeaderMap::from_iter([(
            LOCATION,
            "https://elsewhere.test/v1?key=sk-secret".parse().unwrap(),
        )]);
        let error = answer_error(ErrorAnswer { status: 308, headers: &headers, body: "" });
        assert_eq!(error.kind, Kind::NotFound);
        assert!(error.message.contains("\"https://elsewhere.test/v1\""), "{error}");
        assert!(!error.message.contains("sk-secret"), "{error}");
    }
}
