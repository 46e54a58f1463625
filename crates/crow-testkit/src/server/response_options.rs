//! Rendering options and headers of a response, from the request and the server's settings.

use serde_json::Value;

use super::{RecordedRequest, ServerOptions};
use crate::wire::{EncryptedReasoning, UsageChunk, WireDialect, WireOptions};

/// Returns the rendering options that the request asks for.
pub(super) fn wire_options(request: &RecordedRequest, options: &ServerOptions) -> WireOptions {
    let usage = if request.at("/stream_options/include_usage") == &Value::Bool(true) {
        UsageChunk::Sent
    } else {
        UsageChunk::Omitted
    };
    let encrypted = if includes_encrypted_reasoning(&request.body) {
        EncryptedReasoning::Sent
    } else {
        EncryptedReasoning::Omitted
    };
    WireOptions {
        model: request.model().to_owned(),
        serial: request.index,
        pieces: options.pieces,
        chat: options.chat,
        usage,
        encrypted,
    }
}

/// Returns the headers that the vendor sends with an event stream.
pub(super) fn stream_headers(dialect: WireDialect, serial: usize) -> Vec<(String, String)> {
    let request_id = format!("req_crow{serial:08}");
    let headers = match dialect {
        WireDialect::AnthropicMessages => vec![
            ("content-type", "text/event-stream; charset=utf-8".to_owned()),
            ("cache-control", "no-cache".to_owned()),
            ("request-id", request_id),
        ],
        WireDialect::OpenAiResponses | WireDialect::OpenAiChat => vec![
            ("content-type", "text/event-stream; charset=utf-8".to_owned()),
            ("openai-processing-ms", "1".to_owned()),
            ("x-request-id", request_id),
        ],
        WireDialect::Gemini => vec![
            ("content-type", "text/event-stream".to_owned()),
            ("content-disposition", "attachment".to_owned()),
        ],
    };
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn includes_encrypted_reasoning(body: &Value) -> bool {
    body.get("include")
        .and_then(Value::as_array)
        .is_some_and(|include| include.iter().any(|item| item == "reasoning.encrypted_content"))
}
