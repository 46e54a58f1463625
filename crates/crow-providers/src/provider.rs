//! A service behind HTTP.

use std::{fmt, sync::Arc};

use crow_core::{
    ids::SessionId,
    message::Origin,
    model::{Conversation, ModelInfo, Provider},
};
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{
    codec::Route,
    conversation::HttpConversation,
    dialect::Dialect,
    http::{HttpClient, Timeouts, shown},
    retry::RetryPolicy,
    secret::{ApiKey, Secrets},
};

/// Where a service is and how it is spoken to.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the configuration.
    pub provider: String,
    /// What it speaks.
    pub dialect: Dialect,
    /// The address that the dialect's paths are appended to.
    pub base_url: String,
    /// The key, if it wants one.
    pub key: Option<ApiKey>,
    /// Further headers, sent with every request. They win over ours.
    pub headers: Vec<ExtraHeader>,
}

impl fmt::Debug for Endpoint {
    /// Leaves the address out: it may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// A header that the user wants to be sent. What it says may be a secret and does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct ExtraHeader {
    /// The name.
    pub name: String,
    /// What it says.
    pub value: String,
}

impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraHeader({}: ***)", self.name)
    }
}

/// An endpoint that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The base URL is none.
    #[error("base URL \"{url}\" is not an http or https address: {reason}")]
    InvalidUrl {
        /// The base URL as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header cannot be sent.
    #[error(
        "header \"{name}\" cannot be sent: its name or value has characters that headers may not have"
    )]
    InvalidHeader {
        /// The header's name.
        name: String,
    },
    /// The key cannot be sent.
    #[error(
        "the API key of {provider} cannot be sent: it has characters that headers may not have, such as a line break"
    )]
    InvalidKey {
        /// The provider.
        provider: String,
    },
}

/// A provider that is asked over HTTP.
#[derive(Clone)]
pub struct HttpProvider(Arc<Link>);

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = shown(&self.0.base_url);
        write!(f, "HttpProvider({} at {url}, {})", self.0.provider, self.0.dialect.name())
    }
}

/// Which of the further headers are secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    /// Those whose names say so.
    ByName,
    /// All of them.
    All,
}

/// What all conversations with a provider share.
pub(crate) struct Link {
    pub(crate) provider: String,
    pub(crate) dialect: Dialect,
    pub(crate) base_url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) secrets: Secrets,
    pub(crate) client: HttpClient,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeouts: Timeouts,
}

impl HttpProvider {
    /// Makes a provider with the usual patience.
    pub fn new(endpoint: Endpoint, client: HttpClient) -> Result<Self, EndpointError> {
        let timeouts = Timeouts::at(&endpoint.base_url);
        Self::with_patience(endpoint, client, RetryPolicy::default(), timeouts)
    }

    /// Makes a provider. Sends nothing.
    pub fn with_patience(
        endpoint: Endpoint,
        client: HttpClient,
        retry: RetryPolicy,
        timeouts: Timeouts,
    ) -> Result<Self, EndpointError> {
        Self::make(endpoint, client, retry, timeouts, Secrecy::ByName)
    }

    /// Makes a provider of whose headers none may show.
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
        let link = Link { provider, dialect, base_url, headers, secrets, client, retry, timeouts };
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
            base_url: shown(&self.0.base_url).trim_end_matches('/').to_owned(),
            model: model.reference.model.clone(),
        };
        let route = Route { model: model.clone(), origin, session: session.as_str().to_owned() };
        Box::new(HttpConversation::new(Arc::clone(&self.0), route))
    }
}

impl Link {
    /// Appends a codec's path, which may have a query, to the base URL.
    ///
    /// A version that stands at the end of the one and at the beginning of the other is taken once.
    pub(crate) fn url(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let base = self.base_url.path().trim_end_matches('/');
        let first = path.split('/').nth(1).unwrap_or_default();
        let last = base.rsplit('/').next().unwrap_or_default();
        let path = if !first.is_empty() && first == last {
            path.strip_prefix('/').and_then(|path| path.strip_prefix(first)).unwrap_or(path)
        } else {
            path
        };
        let mut url = self.base_url.clone();
        url.set_path(&format!("{base}{path}"));
        // What the user wrote behind the base URL stays.
        let queries = [url.query().unwrap_or_default(), query];
        let query = queries.into_iter().filter(|query| !query.is_empty()).collect::<Vec<_>>();
        let query = query.join("&");
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        url
    }
}

fn parse_base(text: &str) -> Result<Url, EndpointError> {
    let invalid = |reason: &str| EndpointError::InvalidUrl {
        // What follows may be a secret.
        url: text.split('?').next().unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|error| invalid(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "http" | "https" => Err(invalid("it names no host")),
        scheme => Err(invalid(&format!("its scheme is {scheme}"))),
    }
}

fn headers(
    endpoint: &Endpoint,
    secrets: &mut Secrets,
    secrecy: Secrecy,
) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = &endpoint.key {
        secrets.add(key.reveal());
        let (name, value) = endpoint.dialect.credential(key.reveal());
        let invalid = |_| EndpointError::InvalidKey { provider: endpoint.provider.clone() };
        let mut value = HeaderValue::from_str(&value).map_err(invalid)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for ExtraHeader { name, value } in &endpoint.headers {
        let invalid = || EndpointError::InvalidHeader { name: name.clone() };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut text = HeaderValue::from_str(value).map_err(|_| invalid())?;
        if secrecy == Secrecy::All || is_secret(header.as_str()) {
            text.set_sensitive(true);
            secrets.add(value);
            secrets.add(value.trim_start_matches("Bearer "));
        }
        headers.insert(header, text);
    }
    Ok(headers)
}

/// Whether the name of a header, in any case, says that a secret follows.
pub(crate) fn is_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["authorization", "cookie", "key", "token", "secret"].iter().any(|word| header.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_endpoint_that_cannot_be_asked_says_why() {
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
    fn nothing_secret_shows() {
        let endpoint = endpoint("https://user:pass-word@a.test/v1?key=query-secret");
        let provider = HttpProvider::new(endpoint.clone(), HttpClient::default()).unwrap();
        let address = shown(&provider.0.url("/v1/messages"));
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
