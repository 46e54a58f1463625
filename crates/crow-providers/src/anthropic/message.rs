//! Encoding of messages.

use bytes::Bytes;
use crow_core::message::{AssistantMessage, Message, Origin, ReplyBlock, ReplyContent, ToolCall};
use serde_json::{Value, json};

use super::{
    parts::{self, Vision},
    wire_ids::WireIds,
};
use crate::{
    codec::{ConversationRoute, EncodedMessage},
    placeholders::{EMPTY_MESSAGE, wire_name},
};

/// Maximum length of a tool's name.
const LONGEST_NAME: usize = 128;

/// Encoder of a conversation's messages, to be called in their order.
#[derive(Debug)]
pub(super) struct MessageEncoder {
    origin: Origin,
    vision: Vision,
    ids: WireIds,
}

impl MessageEncoder {
    pub(super) fn new(route: &ConversationRoute) -> Self {
        let vision = if route.model.abilities.vision { Vision::Yes } else { Vision::No };
        Self { origin: route.origin.clone(), vision, ids: WireIds::default() }
    }

    pub(super) fn encode(&mut self, message: &Message) -> EncodedMessage {
        let (role, blocks) = match message {
            Message::User(user) => {
                let mut blocks = parts::blocks(&user.content, self.vision);
                if blocks.is_empty() {
                    blocks.extend(parts::text(EMPTY_MESSAGE));
                }
                ("user", blocks)
            }
            Message::Assistant(reply) => ("assistant", self.reply(reply)),
            Message::Results(message) => {
                let named = message
                    .results
                    .iter()
                    .map(|result| (self.ids.wire_id(&result.call_id), result));
                ("user", parts::results(named, self.vision))
            }
        };
        let (json, mark_at) = wire_message(role, &blocks);
        EncodedMessage { id: message.id().clone(), json, cache_mark_offset: mark_at }
    }

    /// Returns the blocks of a reply. Thinking at the end is dropped: the service refuses a reply that ends with it.
    fn reply(&mut self, message: &AssistantMessage) -> Vec<Value> {
        self.ids.on_reply(message);
        let is_ours = message.origin == self.origin;
        let blocks = message.blocks.iter().filter_map(|block| self.reply_block(block, is_ours));
        let mut blocks: Vec<Value> = blocks.collect();
        while blocks.last().is_some_and(is_thinking) {
            blocks.pop();
        }
        blocks
    }

    fn reply_block(&self, block: &ReplyBlock, is_ours: bool) -> Option<Value> {
        let native = block.native_item().filter(|_| is_ours);
        match &block.content {
            ReplyContent::Text { text } => parts::text(text),
            ReplyContent::Thinking { text } => {
                let mut item = native?.clone();
                item.as_object_mut()?.insert("thinking".to_owned(), json!(text));
                Some(item)
            }
            ReplyContent::Call(call) => Some(self.call(call)),
            ReplyContent::Opaque => native.cloned(),
        }
    }

    fn call(&self, call: &ToolCall) -> Value {
        json!({
            "type": "tool_use",
            "id": self.ids.wire_id(&call.id),
            "name": wire_name(&call.name, "_-", LONGEST_NAME),
            "input": call.arguments.to_object(),
        })
    }
}

/// Encodes a message. Also returns the offset for a cache mark: the end of the last block that may carry one.
fn wire_message(role: &str, blocks: &[Value]) -> (Bytes, Option<usize>) {
    if blocks.is_empty() {
        return (Bytes::new(), None);
    }
    let mut json = format!("{{\"role\":\"{role}\",\"content\":[").into_bytes();
    let mut mark_at = None;
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        json.append(
            &mut serde_json::to_vec(block).expect("invariant: a JSON value can be written"),
        );
        if can_carry_mark(block) {
            mark_at = Some(json.len() - 1);
        }
    }
    json.extend_from_slice(b"]}");
    // Kept for the whole session, so without spare capacity.
    (Bytes::from(json.into_boxed_slice()), mark_at)
}

fn can_carry_mark(block: &Value) -> bool {
    matches!(kind(block), "text" | "image" | "tool_use" | "tool_result")
}

fn is_thinking(block: &Value) -> bool {
    matches!(kind(block), "thinking" | "redacted_thinking")
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}
