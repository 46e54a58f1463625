//! Parser of the error objects of all vendors.

use std::time::Duration;

use crow_core::model::ProviderError;
use serde_json::Value;

use super::{kind::kind_of, text::one_line, wait};

/// An error as a server reports it.
#[derive(Debug, Default)]
pub(super) struct ErrorObject {
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
            complaint.retry_after.or_else(|| wait::from_message(&complaint.message));
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
            self.retry_after = wait::span(delay);
        }
    }

    /// Converts to an error. The HTTP status takes precedence over a status in the body.
    pub(super) fn into_error(self, http_status: Option<u16>) -> ProviderError {
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
            ["message", "msg"].iter().find_map(|name| text_of(value.get(*name)?))?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
