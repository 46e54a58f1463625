//! Routes of providers at run time: to the configured address, to a chosen one, or to none.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::model::{ModelsError, Provider};
use reqwest::{
    Url,
    header::{
        CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
        UPGRADE,
    },
};

use crate::{config, dialect::Protocol, endpoint::ExtraHeader, secret::ApiKey};

/// Maximum number of headers.
const MOST_HEADERS: usize = 64;
/// Maximum bytes of their names and values together.
const MOST_BYTES: usize = 32 << 10;
/// Headers of the message framing, which the connection sets itself.
const FRAMING: [HeaderName; 6] =
    [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// A new route for a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// Name of the provider.
    pub provider: String,
    /// Protocol at the address.
    pub protocol: Protocol,
    /// Address to which the protocol's paths are appended.
    pub base_url: String,
    /// All headers to send besides those of the protocol. A configured key is not sent.
    pub headers: Vec<ExtraHeader>,
}

impl fmt::Debug for RouteChange {
    /// Omits the address, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteChange")
            .field("provider", &self.provider)
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Error of a route that cannot be used. Contains no value of a header and no part of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There is no such provider.
    #[error(transparent)]
    Unknown(#[from] ModelsError),
    /// The provider is a recording, which has no address.
    #[error("{provider} plays recordings and has no address")]
    Recording {
        /// The provider.
        provider: String,
    },
    /// The provider does not support the protocol.
    #[error("{provider} cannot be called with that protocol")]
    Protocol {
        /// The provider.
        provider: String,
    },
    /// The address is invalid.
    #[error("the base URL cannot be used: {reason}")]
    Address {
        /// The reason.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("the header \"{name}\" cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// There are too many headers, or too many bytes of them.
    #[error("at most {MOST_HEADERS} headers with {MOST_BYTES} bytes can be sent")]
    Headers,
}

/// A provider with its current route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSummary {
    /// Its name.
    pub provider: String,
    /// Protocols that it supports, its own first.
    pub supported: Vec<Protocol>,
    /// Current address; none while it is disabled, or while the configured address is invalid.
    pub current: Option<RouteAddress>,
}

/// Address of a provider's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteAddress {
    /// Protocol at the address.
    pub protocol: Protocol,
    /// Address to which the protocol's paths are appended, without any secret.
    pub base_url: String,
}

/// The provider that sends the requests, with the number of its route.
pub(crate) type RouteProvider = (u64, Arc<dyn Provider>);

/// State of a provider's current route.
#[derive(Default)]
pub(crate) struct ProviderRouteState(Mutex<CurrentRoute>);

#[derive(Default)]
struct CurrentRoute {
    /// Incremented with each change of the route.
    revision: u64,
    target: RouteTarget,
    /// The provider that sends the requests, once it was made.
    provider: Option<Arc<dyn Provider>>,
    /// The key that it sends, if that is from the store.
    stored_key: Option<ApiKey>,
}

/// Target of a provider's requests.
#[derive(Debug, Clone, Default)]
pub(crate) enum RouteTarget {
    /// The configured address.
    #[default]
    Configured,
    /// An address that was chosen for this process.
    Chosen(ClientRoute),
    /// None: the provider is disabled.
    Disabled,
}

/// An address that was chosen at run time.
#[derive(Clone)]
pub(crate) struct ClientRoute {
    pub(crate) protocol: Protocol,
    pub(crate) base_url: String,
    pub(crate) headers: Vec<ExtraHeader>,
}

impl ProviderRouteState {
    pub(crate) fn target(&self) -> RouteTarget {
        self.lock().target.clone()
    }

    /// Returns the provider that sends the requests, with the number of its route; none if it is disabled or not made
    /// yet.
    pub(crate) fn current(&self) -> Option<RouteProvider> {
        let now = self.lock();
        now.provider.as_ref().map(|provider| (now.revision, Arc::clone(provider)))
    }

    /// Stores the provider for the configured address, with the stored key that it sends, if that is still the route
    /// and none is stored yet.
    pub(crate) fn store_provider(&self, provider: Arc<dyn Provider>, stored_key: Option<ApiKey>) {
        let mut now = self.lock();
        if matches!(now.target, RouteTarget::Configured) && now.provider.is_none() {
            now.provider = Some(provider);
            now.stored_key = stored_key;
        }
    }

    /// Returns the stored key that is sent to the configured address.
    pub(crate) fn stored_key(&self) -> Option<ApiKey> {
        self.lock().stored_key.clone()
    }

    /// Drops the provider for the configured address, so that it is made again when it is needed.
    pub(crate) fn reset(&self) {
        let mut now = self.lock();
        if matches!(now.target, RouteTarget::Configured) {
            *now = CurrentRoute { revision: now.revision + 1, ..CurrentRoute::default() };
        }
    }

    /// Returns true if no provider has to be made: there is one, or the route is not to the configured address.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.lock();
        now.provider.is_some() || !matches!(now.target, RouteTarget::Configured)
    }

    pub(crate) fn set_chosen(&self, chosen: ClientRoute, provider: Arc<dyn Provider>) {
        self.set(RouteTarget::Chosen(chosen), Some(provider));
    }

    pub(crate) fn disable(&self) {
        self.set(RouteTarget::Disabled, None);
    }

    fn set(&self, place: RouteTarget, provider: Option<Arc<dyn Provider>>) {
        let mut now = self.lock();
        let number = now.revision + 1;
        *now = CurrentRoute { revision: number, target: place, provider, stored_key: None };
    }

    fn lock(&self) -> MutexGuard<'_, CurrentRoute> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProviderRouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.lock().target).finish()
    }
}

impl fmt::Debug for ClientRoute {
    /// Omits the address, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Validates the address and the headers.
pub(crate) fn check(change: RouteChange) -> Result<ClientRoute, RouteError> {
    let RouteChange { protocol, base_url, headers, .. } = change;
    let base_url = address(&base_url).map_err(|reason| RouteError::Address { reason })?;
    let bytes: usize = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if headers.len() > MOST_HEADERS || bytes > MOST_BYTES {
        return Err(RouteError::Headers);
    }
    let mut names = Vec::new();
    for header in &headers {
        let invalid = |reason| RouteError::Header { name: header.name.clone(), reason };
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| invalid("its name is invalid"))?;
        if HeaderValue::from_str(&header.value).is_err() {
            return Err(invalid("its value has characters that are not printable ASCII"));
        }
        if FRAMING.contains(&name) {
            return Err(invalid("it controls how a message is sent, which clients may not set"));
        }
        if names.contains(&name) {
            return Err(invalid("it is given twice"));
        }
        names.push(name);
    }
    Ok(ClientRoute { protocol, base_url, headers })
}

/// Returns an address without a slash at its end. The error contains no part of it.
fn address(text: &str) -> Result<String, String> {
    let url = Url::parse(text.trim()).map_err(|error| match error.to_string().as_str() {
        "relative URL without a base" => "it must begin with https:// or http://".to_owned(),
        reason => reason.to_owned(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with https:// or http://".to_owned());
    }
    config::base_url(text)
        .map_err(|_| "it has a \"#\", which a service address may not have".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(base_url: &str, headers: &[(&str, &str)]) -> RouteChange {
        let header = |(name, value): &(&str, &str)| ExtraHeader {
            name: (*name).into(),
            value: (*value).into(),
        };
        RouteChange {
            provider: "test".to_owned(),
            protocol: Protocol::OpenAi,
            base_url: base_url.to_owned(),
            headers: headers.iter().map(header).collect(),
        }
    }

    #[test]
    fn what_cannot_be_sent_is_told_without_what_it_says() {
        let ok = "https://gateway.test/v1";
        let mut report = Vec::new();
        for (base_url, headers) in [
            ("", &[][..]),
            ("gateway.secret", &[]),
            ("ftp://secret.test", &[]),
            ("https://", &[]),
            ("https://secret:99999", &[]),
            ("https://a.test/#secret", &[]),
            (ok, &[("no name", "secret")]),
            (ok, &[("x-key", "secret\r\nx: y")]),
            (ok, &[("Content-Length", "7")]),
            (ok, &[("x-key", "one-secret"), ("X-Key", "other-secret")]),
        ] {
            let error = check(change(base_url, headers)).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            report.push(error);
        }
        let many = vec![("x", "y"); MOST_HEADERS + 1];
        assert_eq!(check(change(ok, &many)).unwrap_err(), RouteError::Headers);
        insta::assert_snapshot!(report.join("\n"));
    }

    #[test]
    fn an_address_loses_the_slash_at_its_end() {
        let chosen = check(change(" https://gateway.test/v1/ ", &[("X-Team", "crow")])).unwrap();
        assert_eq!(chosen.base_url, "https://gateway.test/v1");
        let shown =
            format!("{chosen:?} {:?}", change("https://u:secret@a.test", &[("k", "secret")]));
        assert!(!shown.contains("gateway") && !shown.contains("secret"), "{shown}");
    }
}
