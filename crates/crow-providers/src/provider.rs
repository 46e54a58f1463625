//! A provider over HTTP, and the conversation of a session with one of its models.

use std::{fmt, future::ready, sync::Arc};

use crow_core::{
    ids::SessionId,
    message::{Message, Origin},
    model::{Conversation, ModelInfo, ModelRequest, ModelStream, Provider, WindowAnswer},
};
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};

use crate::{
    codec::{Codec, ConversationRoute, EncodedMessage, Frame},
    dialect::Dialect,
    endpoint::{Endpoint, EndpointError, EndpointLink, ExtraHeader, Secrecy, headers, parse_base},
    http::{HttpClient, OutgoingRequest, Timeouts, exchange, is_loopback, redact_url},
    local_server,
    retry::RetryPolicy,
    secret::Secrets,
};

/// A provider that is called over HTTP.
#[derive(Clone)]
pub struct HttpProvider(Arc<EndpointLink>);

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = redact_url(&self.0.base_url);
        write!(f, "HttpProvider({} at {url}, {})", self.0.provider, self.0.dialect.name())
    }
}

impl HttpProvider {
    /// Creates a provider with the default retries and the timeouts for its address.
    pub fn new(endpoint: Endpoint, client: HttpClient) -> Result<Self, EndpointError> {
        let timeouts = Timeouts::at(&endpoint.base_url);
        Self::with_timeouts(endpoint, client, RetryPolicy::default(), timeouts)
    }

    /// Creates a provider. Sends no request.
    pub fn with_timeouts(
        endpoint: Endpoint,
        client: HttpClient,
        retry: RetryPolicy,
        timeouts: Timeouts,
    ) -> Result<Self, EndpointError> {
        Self::make(endpoint, client, retry, timeouts, Secrecy::ByName)
    }

    /// Creates a provider whose additional headers are all secret.
    pub(crate) fn with_secret_headers(
        endpoint: Endpoint,
        client: HttpClient,
        timeouts: Timeouts,
    ) -> Result<Self, EndpointError> {
        Self::make(endpoint, client, RetryPolicy::default(), timeouts, Secrecy::All)
    }

    fn make(
        endpoint: Endpoint,
        client: HttpClient,
        retry: RetryPolicy,
        timeouts: Timeouts,
        secrecy: Secrecy,
    ) -> Result<Self, EndpointError> {
        let base_url = parse_base(&endpoint.base_url)?;
        let mut secrets = Secrets::default();
        secrets.add(base_url.password().unwrap_or_default());
        for (_, value) in base_url.query_pairs() {
            secrets.add(&value);
        }
        let headers = headers(&endpoint, &mut secrets, secrecy)?;
        let Endpoint { provider, dialect, .. } = endpoint;
        let link =
            EndpointLink { provider, dialect, base_url, headers, secrets, client, retry, timeouts };
        Ok(Self(Arc::new(link)))
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.0.provider
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        let origin = Origin {
            dialect: self.0.dialect.name().to_owned(),
            provider: self.0.provider.clone(),
            base_url: redact_url(&self.0.base_url).trim_end_matches('/').to_owned(),
            model: model.reference.model.clone(),
        };
        let route = ConversationRoute {
            model: model.clone(),
            origin,
            session: session.as_str().to_owned(),
        };
        Box::new(HttpConversation::new(Arc::clone(&self.0), route))
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        let EndpointLink { base_url, headers, dialect, .. } = self.0.as_ref();
        // Servers of models on one's own machine speak this dialect; behind another one is a gateway.
        if !matches!(dialect, Dialect::OpenAiChat(_)) || !is_loopback(base_url) {
            return Box::pin(ready(None));
        }
        // A server that needs a key needs it here, too.
        let headers = headers.iter().filter(|(name, _)| **name != CONTENT_TYPE && **name != ACCEPT);
        let headers = headers.filter_map(|(name, value)| {
            let value = value.to_str().ok()?.to_owned();
            Some(ExtraHeader { name: name.to_string(), value })
        });
        let headers: Vec<_> = headers.collect();
        Box::pin(async move {
            local_server::context_window(base_url, &headers, &model.reference.model).await
        })
    }
}

/// The conversation of a session with a model.
///
/// Invariant: `encoded` contains the messages that `codec` has encoded since it was made, in order. A history that does
/// not begin with exactly these messages is a maintenance point: codec and bytes are made anew.
struct HttpConversation {
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
            let mut encoded = self.codec.encode_message(message);
            encoded.json.share_texts(message);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::ApiKey;

    fn endpoint(base_url: &str) -> Endpoint {
        Endpoint {
            provider: "test".to_owned(),
            dialect: Dialect::AnthropicMessages,
            base_url: base_url.to_owned(),
            key: ApiKey::new("sk-very-secret"),
            headers: vec![ExtraHeader {
                name: "X-Token".to_owned(),
                value: "also-secret".to_owned(),
            }],
        }
    }

    #[test]
    fn a_path_is_appended_to_the_base_url() {
        for (base, path, expected) in [
            ("https://a.test", "/v1/messages", "https://a.test/v1/messages"),
            ("https://a.test/", "/v1/messages", "https://a.test/v1/messages"),
            ("https://a.test/v1", "/v1/messages", "https://a.test/v1/messages"),
            ("https://a.test/x/v1/", "/v1/messages", "https://a.test/x/v1/messages"),
            ("https://a.test/anthropic", "/v1/messages", "https://a.test/anthropic/v1/messages"),
            ("https://a.test/v1", "/chat/completions", "https://a.test/v1/chat/completions"),
            ("https://a.test", "/v1beta/m:s?alt=sse", "https://a.test/v1beta/m:s?alt=sse"),
            ("https://a.test/v1?api-version=2", "/r", "https://a.test/v1/r?api-version=2"),
        ] {
            let provider = HttpProvider::new(endpoint(base), HttpClient::default()).unwrap();
            assert_eq!(provider.0.url(path).as_str(), expected, "{base}");
        }
    }

    #[test]
    fn an_invalid_endpoint_is_an_error() {
        for base in ["", "a.test", "ftp://a.test", "/v1"] {
            let error = HttpProvider::new(endpoint(base), HttpClient::default()).unwrap_err();
            assert!(matches!(error, EndpointError::InvalidUrl { .. }), "{base}: {error}");
        }
        let mut broken = endpoint("https://a.test");
        broken.key = ApiKey::new("sk-very\nsecret");
        let error = HttpProvider::new(broken, HttpClient::default()).unwrap_err();
        assert_eq!(error, EndpointError::InvalidKey { provider: "test".to_owned() });
    }

    #[test]
    fn secrets_are_not_shown() {
        let endpoint = endpoint("https://user:pass-word@a.test/v1?key=query-secret");
        let provider = HttpProvider::new(endpoint.clone(), HttpClient::default()).unwrap();
        let address = redact_url(&provider.0.url("/v1/messages"));
        let header = &endpoint.headers[0];
        for text in [
            format!("{endpoint:?} {header:?} {provider:?} {:?}", provider.0.headers),
            address.clone(),
        ] {
            assert!(!text.contains("secret") && !text.contains("pass"), "{text}");
        }
        assert_eq!(address, "https://a.test/v1/messages");
    }
}
