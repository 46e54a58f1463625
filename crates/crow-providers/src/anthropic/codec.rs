//! The codec of a conversation.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::message::Message;

use super::{body, decoder::AnthropicDecoder, message::MessageEncoder, thinking};
use crate::codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame};

const VERSION: &str = "2023-06-01";

/// Codec of the Anthropic Messages format.
pub(crate) struct AnthropicCodec {
    messages: MessageEncoder,
    route: ConversationRoute,
}

impl AnthropicCodec {
    pub(crate) fn new(route: ConversationRoute) -> Self {
        Self { messages: MessageEncoder::new(&route), route }
    }
}

impl Codec for AnthropicCodec {
    fn path(&self) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        if let Some(beta) = thinking::beta(&self.route) {
            headers.push(("anthropic-beta", beta.to_owned()));
        }
        headers
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        self.messages.encode(message)
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        body::assemble(&self.route.model, frame, messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(AnthropicDecoder::new(self.route.origin.clone()))
    }
}
