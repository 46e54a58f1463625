//! The codec of a conversation.

use std::sync::Arc;

use bytes::Bytes;
use crow_core::message::Message;

use super::{body, content::ContentEncoder, decoder::GeminiDecoder};
use crate::codec::{Codec, ConversationRoute, Decoder, EncodedMessage, Frame};

/// Codec of the format `streamGenerateContent`.
pub(crate) struct GeminiCodec {
    contents: ContentEncoder,
    route: ConversationRoute,
}

impl GeminiCodec {
    pub(crate) fn new(route: ConversationRoute) -> Self {
        Self { contents: ContentEncoder::new(&route), route }
    }
}

impl Codec for GeminiCodec {
    fn path(&self) -> String {
        let model = self.route.model.reference.model.trim_start_matches("models/");
        format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn encode_message(&mut self, message: &Arc<Message>) -> EncodedMessage {
        self.contents.encode(message)
    }

    fn assemble(&self, frame: Frame<'_>, messages: &[EncodedMessage]) -> Bytes {
        body::assemble(&self.route.model, frame, messages)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(self.route.origin.clone()))
    }
}
