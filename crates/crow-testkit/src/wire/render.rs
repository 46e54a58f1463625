//! Rendering of replies, dispatched by dialect, and of the frames that faults insert.

use bytes::Bytes;
use serde_json::json;

use super::sse::{bare, bare_crlf, named};
use super::{ScriptedReply, ScriptedStop, VendorError, WireDialect, WireOptions};
use super::{anthropic, chat, gemini, responses};

/// Renders a reply, one item per server-sent event.
pub fn frames(reply: &ScriptedReply, dialect: WireDialect, options: &WireOptions) -> Vec<Bytes> {
    match dialect {
        WireDialect::AnthropicMessages => anthropic::frames(reply, options),
        WireDialect::OpenAiResponses => responses::frames(reply, options),
        WireDialect::OpenAiChat => chat::frames(reply, options),
        WireDialect::Gemini => gemini::frames(reply, options),
    }
}

/// Returns the number of final items of [`frames`] that mark the reply as complete, from the stop reason on.
pub fn terminal_frames(
    reply: &ScriptedReply,
    dialect: WireDialect,
    options: &WireOptions,
) -> usize {
    match dialect {
        _ if reply.stop == ScriptedStop::Failed => 1,
        WireDialect::AnthropicMessages => 2,
        WireDialect::OpenAiResponses | WireDialect::Gemini => 1,
        WireDialect::OpenAiChat => chat::terminal_frames(options),
    }
}

/// Renders an error in a stream, after `sequence` events.
pub fn error_frame(
    error: &VendorError,
    dialect: WireDialect,
    options: &WireOptions,
    sequence: usize,
) -> Bytes {
    match dialect {
        WireDialect::AnthropicMessages => anthropic::error_frame(error, options),
        WireDialect::OpenAiResponses => responses::error_frame(error, options, sequence),
        WireDialect::OpenAiChat => chat::error_frame(error, options),
        WireDialect::Gemini => gemini::error_frame(error, options),
    }
}

/// Renders an error in a stream as the event `error` in Responses, and as [`error_frame`] does in the other dialects.
pub fn error_event_frame(
    error: &VendorError,
    dialect: WireDialect,
    options: &WireOptions,
    sequence: usize,
) -> Bytes {
    match dialect {
        WireDialect::OpenAiResponses => responses::error_event(error, options, sequence),
        WireDialect::AnthropicMessages | WireDialect::OpenAiChat | WireDialect::Gemini => {
            error_frame(error, dialect, options, sequence)
        }
    }
}

/// Renders an event of an unknown type, which every client must skip.
pub fn unknown_frame(dialect: WireDialect) -> Bytes {
    let data = json!({"type": "crow.unheard_of", "novelty": {"depth": [1, 2, 3]}});
    match dialect {
        WireDialect::AnthropicMessages | WireDialect::OpenAiResponses => {
            named("crow.unheard_of", &data)
        }
        WireDialect::OpenAiChat => {
            bare(&json!({"object": "crow.unheard_of", "choices": [], "novelty": true}))
        }
        WireDialect::Gemini => bare_crlf(&json!({"crowUnheardOf": {"novelty": true}})),
    }
}

/// Renders a comment like those that proxies send to keep a connection alive.
pub fn comment_frame() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}
