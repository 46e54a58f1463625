//! The Anthropic Messages stream.

use bytes::Bytes;
use serde_json::{Value, json};

use super::sse::typed;
use super::{Pieces, Reply, ReplyBlock, ReplyUsage, Stop, VendorError, WireOptions};

/// The events of a whole reply.
pub(super) fn frames(reply: &Reply, options: &WireOptions) -> Vec<Bytes> {
    let mut out = vec![typed(&message_start(reply, options))];
    if reply.blocks.is_empty() {
        out.push(typed(&json!({"type": "ping"})));
    }
    for (index, block) in reply.blocks.iter().enumerate() {
        out.push(typed(&json!({
            "type": "content_block_start", "index": index, "content_block": opening(block),
        })));
        if index == 0 {
            out.push(typed(&json!({"type": "ping"})));
        }
        for delta in deltas(block, options.pieces) {
            out.push(typed(
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        out.push(typed(&json!({"type": "content_block_stop", "index": index})));
    }
    if reply.stop == Stop::Failed {
        out.push(error_frame(&VendorError::Server, options));
        return out;
    }
    out.push(typed(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(reply.stop), "stop_sequence": stop_sequence(reply.stop)},
        "usage": {
            "input_tokens": reply.usage.input,
            "cache_creation_input_tokens": reply.usage.cache_write,
            "cache_read_input_tokens": reply.usage.cache_read,
            "output_tokens": reply.usage.output,
        },
    })));
    out.push(typed(&json!({"type": "message_stop"})));
    out
}

/// An error in the middle of a stream.
pub(super) fn error_frame(error: &VendorError, options: &WireOptions) -> Bytes {
    typed(&error.anthropic_body(&options.model, options.serial))
}

fn message_start(reply: &Reply, options: &WireOptions) -> Value {
    json!({
        "type": "message_start",
        "message": {
            "model": options.model,
            "id": format!("msg_01CrowTestkit{:08}", options.serial),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": start_usage(&reply.usage),
        },
    })
}

fn start_usage(usage: &ReplyUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output.min(1),
        "service_tier": "standard",
    })
}

fn opening(block: &ReplyBlock) -> Value {
    match block {
        ReplyBlock::Text(_) => json!({"type": "text", "text": ""}),
        ReplyBlock::Thinking { .. } => {
            json!({"type": "thinking", "thinking": "", "signature": ""})
        }
        ReplyBlock::RedactedThinking(data) => json!({"type": "redacted_thinking", "data": data}),
        ReplyBlock::Call { id, name, .. } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": {}})
        }
    }
}

fn deltas(block: &ReplyBlock, pieces: Pieces) -> Vec<Value> {
    match block {
        ReplyBlock::Text(text) => pieces
            .cut(text)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect(),
        ReplyBlock::Thinking { text, signature } => pieces
            .cut(text)
            .into_iter()
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .chain(
                (!signature.is_empty())
                    .then(|| json!({"type": "signature_delta", "signature": signature})),
            )
            .collect(),
        ReplyBlock::RedactedThinking(_) => Vec::new(),
        // The service sends an empty piece first.
        ReplyBlock::Call { arguments, .. } => std::iter::once("")
            .chain(pieces.cut(arguments))
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect(),
    }
}

fn stop_reason(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::Failed => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::StopSequence => "stop_sequence",
        Stop::Refusal | Stop::ContentFilter => "refusal",
    }
}

fn stop_sequence(stop: Stop) -> Option<&'static str> {
    (stop == Stop::StopSequence).then_some("###")
}
