//! Errors in the middle of a stream.

use crow_core::model::{ProviderError, ProviderErrorKind};
use serde_json::Value;

use crate::classify;

/// Parses the data of an event.
pub(super) fn parse(data: &str) -> Result<Value, ProviderError> {
    serde_json::from_str(data).map_err(|error| {
        let message = format!("an event of the stream is not JSON: {error}");
        ProviderError::new(ProviderErrorKind::Decode, message)
    })
}

/// Returns the error of an event that is one or contains one.
pub(super) fn event_error(event: &Value) -> Option<ProviderError> {
    let has_error = event.get("error").is_some_and(|error| !error.is_null());
    // vLLM sends its error object without an envelope.
    let is_error = event.get("object").and_then(Value::as_str) == Some("error");
    (has_error || is_error).then(|| classify::error_event(event))
}
