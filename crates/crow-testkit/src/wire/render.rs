//! The frames of a reply, dispatched by dialect, and the frames that faults insert.

use bytes::Bytes;
use serde_json::json;

use super::sse::{bare, bare_crlf, named};
use super::{Dialect, Reply, Stop, VendorError, WireOptions};
use super::{anthropic, chat, gemini, responses};

/// Renders a reply, one item per server-sent event.
pub fn frames(reply: &Reply, dialect: Dialect, options: &WireOptions) -> Vec<Bytes> {
    match dialect {
        Dialect::AnthropicMessages => anthropic::frames(reply, options),
        Dialect::OpenAiResponses => responses::frames(reply, options),
        Dialect::OpenAiChat => chat::frames(reply, options),
        Dialect::Gemini => gemini::frames(reply, options),
    }
}

/// How many frames at the end of [`frames`] say that the reply is complete, from the stop reason on.
pub fn terminal_frames(reply: &Reply, dialect: Dialect, options: &WireOptions) -> usize {
    match dialect {
        _ if reply.stop == Stop::Failed => 1,
        Dialect::AnthropicMessages => 2,
        Dialect::OpenAiResponses | Dialect::Gemini => 1,
        Dialect::OpenAiChat => chat::terminal_frames(options),
    }
}

/// An error in the middle of a stream, after `sequence` events.
pub fn error_frame(
    error: &VendorError,
    dialect: Dialect,
    options: &WireOptions,
    sequence: usize,
) -> Bytes {
    match dialect {
        Dialect::AnthropicMessages => anthropic::error_frame(error, options),
        Dialect::OpenAiResponses => responses::error_frame(error, options, sequence),
        Dialect::OpenAiChat => chat::error_frame(error, options),
        Dialect::Gemini => gemini::error_frame(error, options),
    }
}

/// The other form of an error that Responses has, the event `error`; the other dialects have one form.
pub fn error_event_frame(
    error: &VendorError,
    dialect: Dialect,
    options: &WireOptions,
    sequence: usize,
) -> Bytes {
    match dialect {
        Dialect::OpenAiResponses => responses::error_event(error, options, sequence),
        Dialect::AnthropicMessages | Dialect::OpenAiChat | Dialect::Gemini => {
            error_frame(error, dialect, options, sequence)
        }
    }
}

/// An event that no client can know, which every client must skip.
pub fn unknown_frame(dialect: Dialect) -> Bytes {
    let data = json!({"type": "crow.unheard_of", "novelty": {"depth": [1, 2, 3]}});
    match dialect {
        Dialect::AnthropicMessages | Dialect::OpenAiResponses => named("crow.unheard_of", &data),
        Dialect::OpenAiChat => {
            bare(&json!({"object": "crow.unheard_of", "choices": [], "novelty": true}))
        }
        Dialect::Gemini => bare_crlf(&json!({"crowUnheardOf": {"novelty": true}})),
    }
}

/// A comment, as proxies send to keep a connection alive.
pub fn comment_frame() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}
