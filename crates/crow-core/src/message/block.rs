//! The parts of a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Native, Origin};
use crate::ids::{CallId, MessageId, ReplyId};

/// A message of a model request.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A message of the user, or of the loop on the user's behalf.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// The results of all calls of the reply before it.
    Results(ResultsMessage),
}

impl Message {
    /// Returns the id under which the message's wire bytes may be cached.
    pub fn id(&self) -> &MessageId {
        match self {
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::Results(message) => &message.id,
        }
    }
}

/// Content that goes to the model: of a user message or of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
}

impl Block {
    /// Returns the text of all text blocks, joined by line breaks.
    pub fn text_of(blocks: &[Self]) -> String {
        let texts = blocks.iter().filter_map(|block| match block {
            Self::Text { text } => Some(text.as_str()),
            Self::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Makes a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A picture in a format that model providers take: PNG, JPEG, GIF or WebP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The bytes in standard base64.
    pub data: String,
}

impl Image {
    /// The media types that model providers accept.
    pub const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

    /// Returns the media type of a picture by its first bytes, or none if model providers do not accept its format.
    pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
            [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
            _ => None,
        }
    }
}

/// A message of the user, or of the loop on the user's behalf.
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    /// The id of the message.
    pub id: MessageId,
    /// The content.
    pub content: Vec<Block>,
}

/// A reply of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct AssistantMessage {
    /// The id of the message.
    pub id: MessageId,
    /// The reply that contains it.
    pub reply_id: ReplyId,
    /// The origin of the reply. Native items are sent back only there.
    pub origin: Origin,
    /// The blocks in the order in which they came.
    pub blocks: Vec<ReplyBlock>,
}

impl AssistantMessage {
    /// Returns the tool calls in the order in which the model asked for them.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.blocks)
    }
}

/// Returns the tool calls among `blocks`, in order.
pub fn calls_of(blocks: &[ReplyBlock]) -> impl Iterator<Item = &ToolCall> {
    blocks.iter().filter_map(|block| match &block.content {
        ReplyContent::Call(call) => Some(call),
        ReplyContent::Text { .. } | ReplyContent::Thinking { .. } | ReplyContent::Opaque => None,
    })
}

/// Returns the first call without a result, or result without a call, in messages for a model. Results follow the reply
/// with their calls.
pub fn unpaired_call<M: AsRef<Message>>(messages: &[M]) -> Option<&CallId> {
    let mut open: Vec<&CallId> = Vec::new();
    for message in messages {
        match message.as_ref() {
            Message::Results(results) => {
                for result in &results.results {
                    let Some(at) = open.iter().position(|id| **id == result.call_id) else {
                        return Some(&result.call_id);
                    };
                    open.remove(at);
                }
            }
            Message::Assistant(_) | Message::User(_) if !open.is_empty() => break,
            Message::Assistant(reply) => open = reply.calls().map(|call| &call.id).collect(),
            Message::User(_) => {}
        }
    }
    open.first().copied()
}

/// One block of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplyBlock {
    /// What the block says in our words.
    pub content: ReplyContent,
    /// The provider's item as it came, where our words would lose something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl ReplyBlock {
    /// Makes a block without a native item: its content is complete.
    pub fn without_native_item(content: ReplyContent) -> Self {
        Self { content, native: None }
    }

    /// Makes a block that retains the provider's `item`.
    pub fn with_native(content: ReplyContent, item: Value) -> Self {
        let native = Native::new(&content, item);
        Self { content, native: Some(native) }
    }

    /// Returns the provider's item if it still matches the content.
    pub fn native_item(&self) -> Option<&Value> {
        self.native.as_ref().and_then(|native| native.item_for(&self.content))
    }
}

/// What a block of a reply says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyContent {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// Readable reasoning, which may be empty.
    Thinking {
        /// The text.
        text: String,
    },
    /// A tool call.
    Call(ToolCall),
    /// Something that only the provider can read: redacted thinking, encrypted reasoning.
    Opaque,
}

/// A tool call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The id that pairs the call with its result.
    pub id: CallId,
    /// The name as the model wrote it, which may name no tool.
    pub name: String,
    /// The arguments.
    pub arguments: CallArguments,
}

/// The arguments of a call: JSON, or what the model wrote in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "form", content = "value", rename_all = "snake_case")]
pub enum CallArguments {
    /// Well-formed JSON.
    Json(Value),
    /// Text that is not JSON.
    Malformed(String),
}

impl CallArguments {
    /// Parses the text that the model wrote. An empty text means no arguments.
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Json(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(text).map_or_else(|_| Self::Malformed(text.to_owned()), Self::Json)
    }

    /// Returns the arguments as a JSON object, which every wire format accepts.
    pub fn to_object(&self) -> Value {
        match self {
            Self::Json(Value::Object(map)) => Value::Object(map.clone()),
            Self::Json(other) => serde_json::json!({ "arguments": other }),
            Self::Malformed(text) => serde_json::json!({ "malformed_arguments": text }),
        }
    }
}

/// The results of all calls of one reply, in the order of the calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultsMessage {
    /// The id of the message.
    pub id: MessageId,
    /// One result for each call.
    pub results: Vec<ResultMessage>,
}

/// The result of one call, as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultMessage {
    /// The call.
    pub call_id: CallId,
    /// The name that the model called.
    pub tool: String,
    /// The content.
    pub content: Vec<Block>,
    /// True if the call failed.
    pub is_error: bool,
}
