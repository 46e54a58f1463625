//! The address of a service, and the headers of each request to it.

use std::fmt;

use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};

use crate::{
    dialect::Dialect,
    http::{HttpClient, Timeouts},
    retry::RetryPolicy,
    secret::{ApiKey, Secrets},
};

/// The address of a service, with its wire format and credentials.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the configuration.
    pub provider: String,
    /// Its wire format.
    pub dialect: Dialect,
    /// Address to which the paths of the wire format are appended.
    pub base_url: String,
    /// The key, if the service needs one.
    pub key: Option<ApiKey>,
    /// Additional headers of every request. They take precedence over the built-in ones.
    pub headers: Vec<ExtraHeader>,
}

impl fmt::Debug for Endpoint {
    /// Omits the address, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// A header configured by the user. Its value may be a secret and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ExtraHeader {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraHeader({}: ***)", self.name)
    }
}

/// Error of an endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The base URL is invalid.
    #[error("base URL \"{url}\" is not an http or https address: {reason}")]
    InvalidUrl {
        /// The base URL as given.
        url: String,
        /// The reason.
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

/// Selection of the additional headers that are secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// Those whose names suggest a secret, see [`is_secret`].
    ByName,
    /// All of them.
    All,
}

/// State shared by all conversations with a provider.
pub(crate) struct EndpointLink {
    pub(crate) provider: String,
    pub(crate) dialect: Dialect,
    pub(crate) base_url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) secrets: Secrets,
    pub(crate) client: HttpClient,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeouts: Timeouts,
}

impl EndpointLink {
    /// Appends a codec's path, which may have a query, to the base URL.
    ///
    /// A version that is both the last segment of the base and the first one of the path is used once.
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
        // A query of the base URL is kept.
        let queries = [url.query().unwrap_or_default(), query];
        let query = queries.into_iter().filter(|query| !query.is_empty()).collect::<Vec<_>>();
        let query = query.join("&");
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        url
    }
}

pub(crate) fn parse_base(text: &str) -> Result<Url, EndpointError> {
    let invalid = |reason: &str| EndpointError::InvalidUrl {
        // The query may contain a secret.
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

pub(crate) fn headers(
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

/// Returns true if the name of a header, in any case, suggests that its value is a secret.
pub(crate) fn is_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["authorization", "cookie", "key", "token", "secret"].iter().any(|word| header.contains(word))
}
