//! Rendering of the Anthropic Messages stream.

use bytes::Bytes;
use serde_json::{Value, json};

use super::sse::typed;
use super::{
    DeltaSize, ReplyUsage, ScriptedBlock, ScriptedReply, ScriptedStop, VendorError, WireOptions,
};

/// Renders the events of a complete reply.
pub(super) fn frames(reply: &ScriptedReply, options: &WireOptions) -> Vec<Bytes> {
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
    if reply.stop == ScriptedStop::Failed {
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

/// Renders an error in the middle of a stream.
pub(super) fn error_frame(error: &VendorError, options: &WireOptions) -> Bytes {
    typed(&error.anthropic_body(&options.model, options.serial))
}

fn message_start(reply: &ScriptedReply, options: &WireOptions) -> Value {
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

fn opening(block: &ScriptedBlock) -> Value {
    match block {
        ScriptedBlock::Text(_) => json!({"type": "text", "text": ""}),
        ScriptedBlock::Thinking { .. } => {
            json!({"type": "thinking", "thinking": "", "signature": ""})
        }
        ScriptedBlock::RedactedThinking(data) => json!({"type": "redacted_thinking", "data": data}),
        ScriptedBlock::Call { id, name, .. } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": {}})
        }
    }
}

fn deltas(block: &ScriptedBlock, pieces: DeltaSize) -> Vec<Value> {
    match block {
        ScriptedBlock::Text(text) => pieces
            .cut(text)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect(),
        ScriptedBlock::Thinking { text, signature } => pieces
            .cut(text)
            .into_iter()
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .chain(
                (!signature.is_empty())
                    .then(|| json!({"type": "signature_delta", "signature": signature})),
            )
            .collect(),
        ScriptedBlock::RedactedThinking(_) => Vec::new(),
        // The service sends an empty piece first.
        ScriptedBlock::Call { arguments, .. } => std::iter::once("")
            .chain(pieces.cut(arguments))
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect(),
    }
}

fn stop_reason(stop: ScriptedStop) -> &'static str {
    match stop {
        ScriptedStop::EndTurn | ScriptedStop::Failed => "end_turn",
        ScriptedStop::ToolUse => "tool_use",
        ScriptedStop::MaxTokens => "max_tokens",
        ScriptedStop::StopSequence => "stop_sequence",
        ScriptedStop::Refusal | ScriptedStop::ContentFilter => "refusal",
    }
}

fn stop_sequence(stop: ScriptedStop) -> Option<&'static str> {
    (stop == ScriptedStop::StopSequence).then_some("###")
}
