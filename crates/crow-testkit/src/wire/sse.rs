//! Server-sent event framing.

use bytes::Bytes;
use serde_json::Value;

/// An event with a name.
pub(super) fn named(event: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// An event whose name is the `type` field of its data.
pub(super) fn typed(data: &Value) -> Bytes {
    named(data.get("type").and_then(Value::as_str).unwrap_or("message"), data)
}

/// An event without a name.
pub(super) fn bare(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An event without a name and with the line ends that Gemini uses.
pub(super) fn bare_crlf(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\r\n\r\n"))
}
