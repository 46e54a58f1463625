//! Conversion of HTTP answers other than replies, and of the error objects of all vendors, to errors.

use std::time::Duration;

use crow_core::model::{ProviderError, ProviderErrorKind};
use jiff::Timestamp;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::kind::kind_of;
use crate::retry::{wait_in_headers, wait_in_message, wait_span};

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
    error.retry_after = wait_in_headers(headers, Timestamp::now()).or(error.retry_after);
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

/// An error as a server reports it.
#[derive(Debug, Default)]
struct ErrorObject {
    codes: Vec<String>,
    message: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
}

impl ErrorObject {
    /// Parses an error body or event; none if it contains no error.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value
            .get("error")
            .or_else(|| value.pointer("/response/error"))
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        let mut complaint = Self::default();
        match error {
            Value::String(text) => complaint.message = one_line(text),
            Value::Object(_) => complaint.read_object(error),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
        if complaint.message.is_empty() {
            complaint.message.clone_from(complaint.codes.first()?);
        }
        complaint.retry_after =
            complaint.retry_after.or_else(|| wait_in_message(&complaint.message));
        complaint.request_id = value.get("request_id").and_then(Value::as_str).map(str::to_owned);
        Some(complaint)
    }

    fn read_object(&mut self, error: &Value) {
        for name in ["code", "type", "status"] {
            match error.get(name) {
                // The name of the event is not a code.
                Some(Value::String(code)) if code != "error" && !code.is_empty() => {
                    self.codes.push(code.clone());
                }
                Some(Value::Number(number)) => {
                    self.status =
                        number.as_u64().and_then(|n| u16::try_from(n).ok()).or(self.status);
                }
                _ => {}
            }
        }
        self.message = ["message", "detail", "error", "msg"]
            .iter()
            .find_map(|name| text_of(error.get(*name)?))
            .unwrap_or_default();
        // Message of a router's upstream.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(text_of) {
            self.message = format!("{}: {raw}", self.message);
        }
        let details = error.get("details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            self.read_detail(detail);
        }
    }

    /// Reads one of Gemini's details: a reason, an exhausted quota, or the delay before a retry.
    fn read_detail(&mut self, detail: &Value) {
        let violations = detail.get("violations").and_then(Value::as_array);
        let quotas =
            violations.into_iter().flatten().filter_map(|violation| violation.get("quotaId"));
        let codes = quotas.chain(detail.get("reason")).filter_map(Value::as_str);
        self.codes.extend(codes.map(str::to_owned));
        if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
            self.retry_after = wait_span(delay);
        }
    }

    /// Converts to an error. The HTTP status takes precedence over a status in the body.
    fn into_error(self, http_status: Option<u16>) -> ProviderError {
        let status = http_status.or(self.status);
        let codes: Vec<&str> = self.codes.iter().map(String::as_str).collect();
        let mut error = ProviderError::new(kind_of(status, &codes, &self.message), self.message);
        error.status = status;
        error.code = self.codes.into_iter().next();
        error.retry_after = self.retry_after;
        error.request_id = self.request_id;
        error
    }
}

/// Converts an error that was received as an event of a stream.
pub(crate) fn error_event(event: &Value) -> ProviderError {
    let complaint = ErrorObject::parse(event).unwrap_or_else(|| ErrorObject {
        message: "the provider reported an error without saying which".to_owned(),
        ..ErrorObject::default()
    });
    complaint.into_error(None)
}

/// Returns a text, the message of an object, or the first message in a list.
fn text_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => one_line(text),
        Value::Array(list) => list.iter().find_map(text_of)?,
        Value::Object(_) => {
            let text = ["message", "msg"].iter().find_map(|name| text_of(value.get(*name)?))?;
            // Servers in Python name the field beside the message.
            let path = value.get("loc").and_then(Value::as_array).into_iter().flatten();
            let names: Vec<&str> =
                path.filter_map(Value::as_str).filter(|name| *name != "body").collect();
            if names.is_empty() { text } else { format!("{}: {text}", names.join(".")) }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Replaces line ends and runs of white space with one space each.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts a text to the 600 characters that an error may have.
pub(crate) fn shorten(text: &mut String) {
    const LONGEST: usize = 600;
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
        text.push('…');
    }
}

/// Returns the title of a web page, empty if it has none; none if `body` is not a web page.
fn web_page(body: &str) -> Option<String> {
    let start = body.trim_start();
    let is_page = ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|mark| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark)));
    is_page.then(|| between(start, "<title>", "</title>").map(one_line).unwrap_or_default())
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    // ASCII case folding preserves byte positions.
    let folded = text.to_ascii_lowercase();
    let begin = folded.find(from)? + from.len();
    let length = folded.get(begin..)?.find(to)?;
    text.get(begin..begin + length)
}

#[cfg(test)]
mod tests {
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
        // Refusals of tools with a status that would be retried or means something else: llama.cpp, OpenRouter.
        (
            500,
            r#"{"error":{"code":500,"message":"Unsupported param: tools","type":"server_error"}}"#,
            Kind::InvalidRequest,
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}"#,
            Kind::InvalidRequest,
        ),
        (501, r#"{"error":"tool use not supported"}"#, Kind::InvalidRequest),
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
    fn the_field_that_a_python_server_refuses_is_named() {
        let body = r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted"}]}"#;
        let error = error_of(422, body);
        assert_eq!(error.message, "tools: Extra inputs are not permitted");
        assert_eq!(error.kind, Kind::InvalidRequest);
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

    #[test]
    fn the_title_of_a_web_page_is_found() {
        for (body, expected) in [
            ("<!DOCTYPE html><HTML><Title>502 Bad\n Gateway</TITLE>", Some("502 Bad Gateway")),
            ("  <html><body>hi", Some("")),
            ("{\"error\": \"<html>\"}", None),
            ("", None),
        ] {
            assert_eq!(web_page(body).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut text = "é".repeat(5000);
        shorten(&mut text);
        assert_eq!(text.chars().count(), 601);
    }
}
