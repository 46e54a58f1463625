//! Errors in the middle of a stream.

use crow_core::model::{ProviderError, ProviderErrorKind};
use serde_json::Value;

use crate::classify;

/// Reads the data of an event.
pub(super) fn parse(data: &str) -> Result<Value, ProviderError> {
    serde_json::from_str(data).map_err(|error| {
        let message = format!("an event of the stream is not JSON: {error}");
        ProviderError::new(ProviderErrorKind::Decode, message)
    })
}

/// Returns the error that an event is or carries, if it does.
pub(super) fn of_event(event: &Value) -> Option<ProviderError> {
    let carries = event.get("error").is_some_and(|error| !error.is_null());
    // vLLM sends its error object bare.
    let is_one = event.get("object").and_then(Value::as_str) == Some("error");
    (carries || is_one).then(|| classify::error_event(event))
}
