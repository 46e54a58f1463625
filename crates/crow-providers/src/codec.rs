//! The interface between the HTTP driver and the four wire formats. A codec does no I/O.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    ids::MessageId,
    message::{Message, Origin},
    model::{
        ModelConfig, ModelEvent, ModelInfo, ModelReply, ProviderError, ToolChoice, ToolDefinition,
    },
};

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

/// Wire bytes of one message. Encoded once, sent with every later request.
#[derive(Debug, Clone)]
pub(crate) struct EncodedMessage {
    /// Id of the message that it encodes.
    pub id: MessageId,
    /// One or more JSON values separated by commas, to be placed in the request's array of messages. Empty if the
    /// message has no content in this format.
    pub json: Bytes,
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
