//! Assembly of a request body from encoded messages.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::codec::EncodedMessage;

/// Returns the JSON object `head` with one more field: the array `name` of `first` and all `messages`.
pub(super) fn with_array(
    head: &Map<String, Value>,
    name: &str,
    first: Option<&Value>,
    messages: &[EncodedMessage],
) -> Bytes {
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    let mut body = to_bytes(head);
    body.reserve(size + 64);
    // The head is never empty, since it names the model, so it can be reopened for one more field.
    body.pop();
    body.extend_from_slice(b",\"");
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\":[");
    let first = first.map(|value| Bytes::from(to_bytes(value)));
    let parts = first.iter().chain(messages.iter().map(|message| &message.json));
    for (index, json) in parts.filter(|json| !json.is_empty()).enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(json);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Joins values with commas, to be placed in an array.
pub(super) fn joined(values: &[Value]) -> Bytes {
    let mut json = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        json.append(&mut to_bytes(value));
    }
    Bytes::from(json)
}

/// Serialises a value. Values and maps of values always have a JSON form.
fn to_bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: a body is plain JSON")
}
