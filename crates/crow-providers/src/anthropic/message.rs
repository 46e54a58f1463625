//! Encoding of messages: their blocks, and call ids in the form that this format accepts, `[a-zA-Z0-9_-]+`, unique in a
//! conversation.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use crow_core::{
    ids::CallId,
    message::{
        AssistantMessage, Block, Image, Message, Origin, ReplyBlock, ReplyContent, ResultMessage,
        ToolCall,
    },
};
use serde_json::{Value, json};

use crate::{
    codec::{
        ConversationRoute, EMPTY_MESSAGE, EMPTY_OUTPUT, EncodedMessage, IMAGE_OMITTED, JoinedJson,
        joined, wire_name,
    },
    wire_json::WireJson,
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
                let mut blocks = content_blocks(&user.content, self.vision);
                if blocks.is_empty() {
                    blocks.extend(text_block(EMPTY_MESSAGE));
                }
                ("user", blocks)
            }
            Message::Assistant(reply) => ("assistant", self.reply(reply)),
            Message::Results(message) => {
                let named = message
                    .results
                    .iter()
                    .map(|result| (self.ids.wire_id(&result.call_id), result));
                ("user", result_blocks(named, self.vision))
            }
        };
        let (json, mark_at) = wire_message(role, &blocks);
        let json = WireJson::new(json);
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
            ReplyContent::Text { text } => text_block(text),
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
    let begin = format!("{{\"role\":\"{role}\",\"content\":[");
    let JoinedJson { json, value_ends } = joined(&begin, blocks, "]}");
    let marked = blocks.iter().rposition(can_carry_mark);
    (json, marked.map(|index| value_ends[index] - 1))
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

/// Support for images. Without it, a text replaces each image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vision {
    Yes,
    No,
}

/// Returns a text block, unless the text is blank: the service refuses those.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Returns the blocks of a user message.
fn content_blocks(content: &[Block], vision: Vision) -> Vec<Value> {
    let one = |block: &Block| match block {
        Block::Text { text } => text_block(text),
        Block::Image(image) => Some(picture(image, vision)),
    };
    content.iter().filter_map(one).collect()
}

/// Returns the blocks for all results of a reply. Content that is not allowed inside a result follows after them.
fn result_blocks<'a>(
    results: impl Iterator<Item = (&'a str, &'a ResultMessage)>,
    vision: Vision,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut trailing = Vec::new();
    for (id, result) in results {
        let mut content = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text } => content.extend(text_block(text)),
                // The result of a failed call may contain text only.
                Block::Image(image) if result.is_error && vision == Vision::Yes => {
                    trailing.push(picture(image, vision));
                }
                Block::Image(image) => content.push(picture(image, vision)),
            }
        }
        if content.is_empty() {
            content.extend(text_block(EMPTY_OUTPUT));
        }
        let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        if let (true, Some(fields)) = (result.is_error, block.as_object_mut()) {
            fields.insert("is_error".to_owned(), Value::Bool(true));
        }
        blocks.push(block);
    }
    blocks.append(&mut trailing);
    blocks
}

fn picture(image: &Image, vision: Vision) -> Value {
    match vision {
        Vision::Yes => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
        }),
        Vision::No => json!({"type": "text", "text": IMAGE_OMITTED}),
    }
}

/// Mapping of call ids to ids on the wire. It is deterministic: the same conversation gets the same ids again.
#[derive(Debug, Default)]
struct WireIds {
    used: HashSet<String>,
    /// Wire ids of the last reply's calls, which the following results refer to.
    open: HashMap<CallId, String>,
}

impl WireIds {
    /// Assigns a wire id to each call of a reply.
    fn on_reply(&mut self, message: &AssistantMessage) {
        self.open.clear();
        for call in message.calls() {
            let mut wire = call.id.as_str().to_owned();
            let mut round = 0_u32;
            while !is_valid(&wire) || self.used.contains(&wire) {
                wire = format!("call_{:016x}", fnv1a(&format!("{}#{round}", call.id)));
                round += 1;
            }
            self.used.insert(wire.clone());
            self.open.insert(call.id.clone(), wire);
        }
    }

    /// Returns the wire id of a call of the last reply; for other calls, the id itself.
    fn wire_id<'a>(&'a self, id: &'a CallId) -> &'a str {
        self.open.get(id).map_or(id.as_str(), String::as_str)
    }
}

fn is_valid(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// FNV-1a hash: the same on every machine and in every version, unlike the standard library's hashes.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
