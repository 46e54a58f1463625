//! Framing of server-sent events.

use bytes::Bytes;
use serde_json::Value;

/// Renders an event with a name.
pub(super) fn named(event: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// Renders an event whose name is the `type` field of its data.
pub(super) fn typed(data: &Value) -> Bytes {
    named(data.get("type").and_then(Value::as_str).unwrap_or("message"), data)
}

/// Renders an event without a name.
pub(super) fn bare(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Renders an event without a name, with the line ends that Gemini uses.
pub(super) fn bare_crlf(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\r\n\r\n"))
}
