//! The interface between the HTTP driver and the four wire formats, and what the formats share. A codec does no I/O.

use std::{io, sync::Arc};

use bytes::Bytes;
use crow_core::{
    ids::{CallId, MessageId},
    message::{Message, Origin, ReplyBlock, ReplyContent},
    model::{
        ModelConfig, ModelEvent, ModelInfo, ModelReply, ProviderError, ToolChoice, ToolDefinition,
    },
};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::wire_json::WireJson;

/// Data that a codec needs about a conversation. Fixed for the codec's life.
#[derive(Debug, Clone)]
pub(crate) struct ConversationRoute {
    /// The model with its abilities.
    pub model: ModelInfo,
    /// Origin of the replies in this conversation. Native items of another origin are never sent.
    pub origin: Origin,
    /// Cache key for the provider.
    pub session: String,
}

/// Wire bytes of one message. Encoded once, and the same in every later request.
#[derive(Debug, Clone)]
pub(crate) struct EncodedMessage {
    /// Id of the message that it encodes.
    pub id: MessageId,
    /// One or more JSON values separated by commas, to be placed in the request's array of messages. Empty if the
    /// message has no content in this format.
    pub json: WireJson,
    /// Offset at which a cache mark can be inserted, if any (Anthropic).
    pub cache_mark_offset: Option<usize>,
}

/// Request data other than the messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub system: &'a str,
    pub tools: &'a [ToolDefinition],
    pub config: &'a ModelConfig,
    pub tool_choice: ToolChoice<'a>,
}

/// A wire format in one conversation.
pub(crate) trait Codec: Send {
    /// Returns the path below the base URL, with its query.
    fn path(&self) -> String;

    /// Returns the headers other than content type and credentials.
    fn headers(&self) -> Vec<(&'static str, String)>;

    /// Encodes a message. Called once for each message, in order.
    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage;

    /// Assembles a request body from the bytes of all messages.
    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes;

    /// Creates the decoder of one reply.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Decoder of one reply.
pub(crate) trait Decoder: Send {
    /// Handles an event of the stream and pushes the resulting model events to `out`. Unknown events are skipped.
    fn on_event(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError>;

    /// Returns the reply at the end of the stream, or `Truncated` if the end mark of the format was missing.
    fn finish(&mut self) -> Result<ModelReply, ProviderError>;

    /// Returns true once the end mark was received. The driver reads on to the end of the body, so that the connection
    /// can be reused.
    fn is_complete(&self) -> bool;
}

/// Text of an empty user message, which keeps the roles in order.
pub(crate) const EMPTY_MESSAGE: &str = "(empty message)";
/// Text of an empty result.
pub(crate) const EMPTY_OUTPUT: &str = "(no output)";
/// Text in place of an image, for a model without vision.
pub(crate) const IMAGE_OMITTED: &str = "[a picture was left out: this model cannot see pictures]";

/// Converts a name to a legal tool name, since a model may call a name that no tool can have. `marks` are the
/// characters that are allowed besides ASCII letters and digits.
pub(crate) fn wire_name(name: &str, marks: &str, longest: usize) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '_' });
    let legal: String = legal.take(longest).collect();
    if legal.is_empty() { "unnamed".to_owned() } else { legal }
}

/// Returns the JSON object `head` with one more field: the array `name` of `first` and all `messages`.
pub(crate) fn with_array(
    head: &impl Serialize,
    name: &str,
    first: Option<&Value>,
    messages: &[EncodedMessage],
) -> Bytes {
    let size: usize = messages.iter().map(|message| message.json.len() + 1).sum();
    let mut body = to_bytes(head);
    body.reserve(size + 64);
    // The head is never empty, since it names the model or its configuration, so it can be reopened for one more field.
    body.pop();
    body.extend_from_slice(b",\"");
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\":[");
    let first = first.map(|value| WireJson::new(Bytes::from(to_bytes(value))));
    let parts = first.iter().chain(messages.iter().map(|message| &message.json));
    for (index, json) in parts.filter(|json| !json.is_empty()).enumerate() {
        if index > 0 {
            body.push(b',');
        }
        json.append_to(&mut body);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// Serialises a part of a body: strings, numbers and JSON values always have a JSON form.
pub(crate) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: a body is plain JSON")
}

/// Joins values with commas, to be placed in an array, between two texts.
///
/// Most bytes of a message are kept for the whole session, so the values are written twice: to learn their length, and
/// into a buffer of exactly this length. One that grows has spare capacity, and leaves holes in the heap.
pub(crate) fn joined(begin: &str, values: &[Value], end: &str) -> JoinedJson {
    let lengths = values.iter().map(|value| {
        let mut length = WrittenLength(0);
        write_json(&mut length, value);
        length.0
    });
    let commas = values.len().saturating_sub(1);
    let length = begin.len() + lengths.sum::<usize>() + commas + end.len();
    let mut json = Vec::with_capacity(length);
    let mut value_ends = Vec::with_capacity(values.len());
    json.extend_from_slice(begin.as_bytes());
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_json(&mut json, value);
        value_ends.push(json.len());
    }
    json.extend_from_slice(end.as_bytes());
    debug_assert_eq!(json.len(), length, "a value is written in the same way each time");
    JoinedJson { json: Bytes::from(json), value_ends }
}

/// Values as one text.
#[derive(Debug)]
pub(crate) struct JoinedJson {
    pub(crate) json: Bytes,
    /// The offset of the end of each value.
    pub(crate) value_ends: Vec<usize>,
}

/// Counts the bytes that are written.
struct WrittenLength(usize);

impl io::Write for WrittenLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_json(out: impl io::Write, value: &Value) {
    serde_json::to_writer(out, value).expect("invariant: a JSON value can be written to memory");
}

/// Returns the id that a service gave to a call, or a new one if that is missing or taken by a call of the same reply.
pub(crate) fn free_call_id(given: &str, reply: &[ReplyBlock]) -> CallId {
    let is_taken = reply.iter().any(
        |block| matches!(&block.content, ReplyContent::Call(call) if call.id.as_str() == given),
    );
    if given.is_empty() || is_taken { new_call_id() } else { CallId::new(given) }
}

pub(crate) fn new_call_id() -> CallId {
    CallId::new(format!("call_{}", Uuid::now_v7().simple()))
}
