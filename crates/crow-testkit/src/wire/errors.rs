//! Error responses with the bodies, statuses and headers that the vendors send.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::WireDialect;

/// Errors of a vendor's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VendorError {
    /// The prompt does not fit the context window (400).
    ContextLength,
    /// The request is malformed (400).
    InvalidRequest(String),
    /// The key is wrong (401; Gemini says 400).
    Authentication,
    /// The key lacks the permission (403).
    Permission,
    /// There is no such model (404).
    ModelNotFound,
    /// Too many requests (429); Gemini puts the wait into the body instead of a header.
    RateLimited {
        /// Requested wait, if the service names one.
        retry_after: Option<Duration>,
    },
    /// The account has no money or no daily quota left (429; Anthropic says 400).
    Quota,
    /// The service failed (500).
    Server,
    /// The service is overloaded (529 Anthropic, 503 elsewhere).
    Overloaded,
}

/// An HTTP error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// HTTP status code.
    pub status: u16,
    /// Headers except `content-length` and `connection`.
    pub headers: Vec<(String, String)>,
    /// Body as the vendor formats it.
    pub body: Bytes,
}

impl VendorError {
    /// Returns the HTTP response of the dialect's vendor.
    pub fn response(&self, dialect: WireDialect, model: &str, serial: usize) -> ErrorResponse {
        let body = match dialect {
            WireDialect::AnthropicMessages => self.anthropic_body(model, serial).to_string(),
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {
                format!("{:#}\n", self.openai_body(dialect, model))
            }
            WireDialect::Gemini => format!("{:#}\n", self.gemini_body(model)),
        };
        ErrorResponse {
            status: self.status(dialect),
            headers: self.headers(dialect, serial),
            body: Bytes::from(body),
        }
    }

    fn status(&self, dialect: WireDialect) -> u16 {
        match (self, dialect) {
            (Self::ContextLength | Self::InvalidRequest(_), _)
            | (Self::Quota, WireDialect::AnthropicMessages)
            | (Self::Authentication, WireDialect::Gemini) => 400,
            (Self::Authentication, _) => 401,
            (Self::Permission, _) => 403,
            (Self::ModelNotFound, _) => 404,
            (Self::RateLimited { .. } | Self::Quota, _) => 429,
            (Self::Server, _) => 500,
            (Self::Overloaded, WireDialect::AnthropicMessages) => 529,
            (Self::Overloaded, _) => 503,
        }
    }

    fn headers(&self, dialect: WireDialect, serial: usize) -> Vec<(String, String)> {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        match dialect {
            WireDialect::AnthropicMessages => {
                headers.push(("request-id", format!("req_crow{serial:08}")));
                headers.push(("x-should-retry", self.is_transient().to_string()));
            }
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {
                headers.push(("x-request-id", format!("req_crow{serial:08}")));
            }
            WireDialect::Gemini => {}
        }
        if let (Self::RateLimited { retry_after: Some(wait) }, true) =
            (self, dialect != WireDialect::Gemini)
        {
            headers.push(("retry-after", wait.as_secs().to_string()));
            match dialect {
                WireDialect::AnthropicMessages => {
                    headers.push(("anthropic-ratelimit-requests-limit", "50".to_owned()));
                    headers.push(("anthropic-ratelimit-requests-remaining", "0".to_owned()));
                }
                WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {
                    headers.push(("retry-after-ms", wait.as_millis().to_string()));
                    headers.push(("x-ratelimit-remaining-requests", "0".to_owned()));
                    headers.push(("x-ratelimit-reset-requests", format!("{}s", wait.as_secs())));
                }
                WireDialect::Gemini => {}
            }
        }
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns true if a later retry may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Server | Self::Overloaded => true,
            Self::ContextLength
            | Self::InvalidRequest(_)
            | Self::Authentication
            | Self::Permission
            | Self::ModelNotFound
            | Self::Quota => false,
        }
    }

    /// Returns Anthropic's error object, which is the same as a body and in a stream.
    pub(super) fn anthropic_body(&self, model: &str, serial: usize) -> Value {
        let (kind, message) = match self {
            Self::ContextLength => (
                "invalid_request_error",
                "prompt is too long: 210432 tokens > 200000 maximum".to_owned(),
            ),
            Self::InvalidRequest(message) => ("invalid_request_error", message.clone()),
            Self::Authentication => ("authentication_error", "invalid x-api-key".to_owned()),
            Self::Permission => (
                "permission_error",
                "Your API key does not have permission to use the specified resource.".to_owned(),
            ),
            Self::ModelNotFound => ("not_found_error", format!("model: {model}")),
            Self::RateLimited { .. } => (
                "rate_limit_error",
                "This request would exceed your organization's rate limit of 50 requests per minute. For details, refer \
                 to: https://docs.claude.com/en/api/rate-limits."
                    .to_owned(),
            ),
            Self::Quota => (
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or \
                 purchase credits."
                    .to_owned(),
            ),
            Self::Server => ("api_error", "Internal server error".to_owned()),
            Self::Overloaded => ("overloaded_error", "Overloaded".to_owned()),
        };
        json!({
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": format!("req_crow{serial:08}"),
        })
    }

    /// Returns the body of a Chat error, which is the same in a stream.
    pub(super) fn chat_body(&self, model: &str) -> Value {
        self.openai_body(WireDialect::OpenAiChat, model)
    }

    /// Returns the `error` of a `response.failed` event.
    pub(super) fn responses_error(&self, model: &str) -> Value {
        let words = self.openai_words(WireDialect::OpenAiResponses, model);
        json!({"code": words.code.unwrap_or("server_error"), "message": words.message})
    }

    /// Returns the `error` of an `OpenRouter` chunk.
    pub(super) fn openrouter_error(&self) -> Value {
        let status = self.status(WireDialect::OpenAiChat);
        let message = self.openai_words(WireDialect::OpenAiChat, "").message;
        json!({"code": status, "message": message})
    }

    fn openai_body(&self, dialect: WireDialect, model: &str) -> Value {
        let OpenAiWords { message, kind, param, code } = self.openai_words(dialect, model);
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }

    fn openai_words(&self, dialect: WireDialect, model: &str) -> OpenAiWords {
        let invalid = "invalid_request_error";
        match self {
            Self::ContextLength if dialect == WireDialect::OpenAiResponses => OpenAiWords::new(
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                invalid,
                Some("context_length_exceeded"),
            )
            .about("input"),
            Self::ContextLength => OpenAiWords::new(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130217 \
                 tokens. Please reduce the length of the messages.",
                invalid,
                Some("context_length_exceeded"),
            )
            .about("messages"),
            Self::InvalidRequest(message) => OpenAiWords::new(message, invalid, None),
            Self::Authentication => OpenAiWords::new(
                "Incorrect API key provided: sk-tests***************crow. You can find your API key at \
                 https://platform.openai.com/account/api-keys.",
                invalid,
                Some("invalid_api_key"),
            ),
            Self::Permission => OpenAiWords::new(
                "You have insufficient permissions for this operation. Missing scopes: model.request.",
                invalid,
                Some("insufficient_permissions"),
            ),
            Self::ModelNotFound => OpenAiWords::new(
                &format!("The model `{model}` does not exist or you do not have access to it."),
                invalid,
                Some("model_not_found"),
            ),
            Self::RateLimited { retry_after } => OpenAiWords::new(
                &format!(
                    "Rate limit reached for {model} in organization org-crow on tokens per min (TPM): Limit 30000, Used \
                     29120, Requested 1893. Please try again in {}s. Visit \
                     https://platform.openai.com/account/rate-limits to learn more.",
                    retry_after.unwrap_or(Duration::from_secs(2)).as_secs()
                ),
                "tokens",
                Some("rate_limit_exceeded"),
            ),
            Self::Quota => OpenAiWords::new(
                "You exceeded your current quota, please check your plan and billing details. For more information on \
                 this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
                "insufficient_quota",
                Some("insufficient_quota"),
            ),
            Self::Server => OpenAiWords::new(
                "The server had an error while processing your request. Sorry about that!",
                "server_error",
                None,
            ),
            Self::Overloaded => OpenAiWords::new(
                "Our servers are currently overloaded. Please try again later.",
                "service_unavailable_error",
                Some("server_is_overloaded"),
            ),
        }
    }

    /// Returns Gemini's error object, which is the same as a body and in a stream.
    pub(super) fn gemini_body(&self, model: &str) -> Value {
        let info = |reason: &str| {
            json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            })
        };
        let (status, message, details) = match self {
            Self::ContextLength => (
                "INVALID_ARGUMENT",
                "The input token count (1203411) exceeds the maximum number of tokens allowed (1048576).".to_owned(),
                None,
            ),
            Self::InvalidRequest(message) => ("INVALID_ARGUMENT", message.clone(), None),
            Self::Authentication => (
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.".to_owned(),
                Some(json!([info("API_KEY_INVALID")])),
            ),
            Self::Permission => (
                "PERMISSION_DENIED",
                "Generative Language API has not been used in project 1 before or it is disabled.".to_owned(),
                Some(json!([info("SERVICE_DISABLED")])),
            ),
            Self::ModelNotFound => (
                "NOT_FOUND",
                format!(
                    "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call \
                     ListModels to see the list of available models and their supported methods."
                ),
                None,
            ),
            Self::RateLimited { retry_after } => {
                let wait = retry_after.map(retry_info);
                let details: Vec<_> =
                    std::iter::once(quota_failure("PerMinute")).chain(wait).collect();
                ("RESOURCE_EXHAUSTED", GEMINI_QUOTA.to_owned(), Some(Value::Array(details)))
            }
            Self::Quota => (
                "RESOURCE_EXHAUSTED",
                GEMINI_QUOTA.to_owned(),
                Some(json!([quota_failure("PerDay")])),
            ),
            Self::Server => (
                "INTERNAL",
                "An internal error has occurred. Please retry or report in \
                 https://developers.generativeai.google/guide/troubleshooting"
                    .to_owned(),
                None,
            ),
            Self::Overloaded => (
                "UNAVAILABLE",
                "The model is overloaded. Please try again later.".to_owned(),
                None,
            ),
        };
        let mut error = json!({
            "code": self.status(WireDialect::Gemini), "message": message, "status": status,
        });
        if let (Some(details), Some(error)) = (details, error.as_object_mut()) {
            error.insert("details".to_owned(), details);
        }
        json!({"error": error})
    }
}

const GEMINI_QUOTA: &str = "You exceeded your current quota, please check your plan and billing details. For more \
                            information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.";

struct OpenAiWords {
    message: String,
    kind: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl OpenAiWords {
    fn new(message: &str, kind: &'static str, code: Option<&'static str>) -> Self {
        Self { message: message.to_owned(), kind, param: None, code }
    }

    fn about(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }
}

fn quota_failure(window: &str) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": format!("GenerateRequests{window}PerProjectPerModel-FreeTier"),
            "quotaValue": "10",
        }],
    })
}

fn retry_info(wait: Duration) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": format!("{}s", wait.as_secs()),
    })
}
