//! The conversation of a session with a model over HTTP.

use std::sync::Arc;

use crow_core::{
    message::Message,
    model::{Conversation, ModelRequest, ModelStream},
};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue},
};

use crate::{
    codec::{Codec, ConversationRoute, EncodedMessage, Frame},
    endpoint::EndpointLink,
    http::{OutgoingRequest, exchange},
};

/// The conversation of a session with a model.
///
/// Invariant: `encoded` contains the messages that `codec` has encoded since it was made, in order. A history that does
/// not begin with exactly these messages is a maintenance point: codec and bytes are made anew.
pub(crate) struct HttpConversation {
    link: Arc<EndpointLink>,
    route: ConversationRoute,
    url: Url,
    headers: HeaderMap,
    codec: Box<dyn Codec>,
    encoded: Vec<EncodedMessage>,
}

impl HttpConversation {
    pub(crate) fn new(link: Arc<EndpointLink>, route: ConversationRoute) -> Self {
        let codec = link.dialect.codec(route.clone());
        let url = link.url(&codec.path());
        let mut headers = link.headers.clone();
        for (name, value) in codec.headers() {
            // The user's own headers take precedence.
            if let (false, Ok(value)) = (headers.contains_key(name), HeaderValue::from_str(&value))
            {
                headers.insert(name, value);
            }
        }
        Self { link, route, url, headers, codec, encoded: Vec::new() }
    }

    /// Encodes the messages that are new, or all of them at a maintenance point.
    fn encode(&mut self, messages: &[Arc<Message>]) {
        let is_same =
            |(encoded, message): (&EncodedMessage, &Arc<Message>)| encoded.id == *message.id();
        let is_continuation =
            self.encoded.len() <= messages.len() && self.encoded.iter().zip(messages).all(is_same);
        if !is_continuation {
            self.codec = self.link.dialect.codec(self.route.clone());
            self.encoded.clear();
        }
        for message in messages.iter().skip(self.encoded.len()) {
            let encoded = self.codec.encode_message(message);
            self.encoded.push(encoded);
        }
    }
}

impl Conversation for HttpConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        self.encode(request.messages);
        let frame = Frame {
            system: request.system,
            tools: request.tools,
            config: request.config,
            tool_choice: request.tool_choice,
        };
        let outgoing = OutgoingRequest {
            client: self.link.client.clone(),
            provider: self.link.provider.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: self.codec.assemble(frame, &self.encoded),
            timeouts: self.link.timeouts,
            secrets: self.link.secrets.clone(),
        };
        let attempts = self.link.retry.attempts.max(1);
        let decoders = (0..attempts).map(|_| self.codec.decoder()).collect();
        exchange(outgoing, decoders, self.link.retry.clone())
    }
}
