//! The seam between the one HTTP driver and the four wire formats. A codec does no I/O.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::{
    ids::MessageId,
    message::{Message, Origin},
    model::{
        ModelConfig, ModelEvent, ModelInfo, ModelReply, ProviderError, ToolChoice, ToolDefinition,
    },
};

/// What a codec needs to know of a conversation. Fixed for its life.
#[derive(Debug, Clone)]
pub(crate) struct ConversationRoute {
    /// The model and what it can do.
    pub model: ModelInfo,
    /// Marks replies of this conversation. Native items of another origin are never sent.
    pub origin: Origin,
    /// The provider's cache key.
    pub session: String,
}

/// The wire bytes of one message. Made once, sent with every later request.
#[derive(Debug, Clone)]
pub(crate) struct EncodedMessage {
    /// The message that it was made from.
    pub id: MessageId,
    /// One or more JSON values separated by commas, ready to stand in the request's array of messages. Empty if the
    /// message says nothing in this format.
    pub json: Bytes,
    /// Where a cache mark can be spliced in when this is the last message (Anthropic).
    pub mark_at: Option<usize>,
}

/// Everything of a request but the messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub system: &'a str,
    pub tools: &'a [ToolDefinition],
    pub config: &'a ModelConfig,
    pub tool_choice: ToolChoice<'a>,
}

/// One wire format in one conversation.
pub(crate) trait Codec: Send {
    /// The path below the base URL, with its query.
    fn path(&self) -> String;

    /// Headers beside content type and credentials.
    fn headers(&self) -> Vec<(&'static str, String)>;

    /// Turns one message into wire bytes. Called once for each message, in order.
    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage;

    /// Puts a request body together from the bytes of all messages.
    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes;

    /// Starts to read a reply.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Reads one reply.
pub(crate) trait Decoder: Send {
    /// Takes in one event of the stream and pushes what it means. Unknown events are skipped.
    fn on_event(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderError>;

    /// The stream is at its end: returns the reply, or `Truncated` if the end mark of the format did not come.
    fn finish(&mut self) -> Result<ModelReply, ProviderError>;

    /// Whether the end mark came. The driver reads on to the end of the body, so that the connection can be used again.
    fn is_complete(&self) -> bool;
}
