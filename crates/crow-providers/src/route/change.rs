//! What somebody chooses for a provider, checked before it holds.

use std::fmt;

use crow_core::model::ModelsError;
use reqwest::{
    Url,
    header::{
        CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
        UPGRADE,
    },
};

use super::{ClientRoute, Protocol};
use crate::{config, endpoint::ExtraHeader};

/// The most headers.
const MOST_HEADERS: usize = 64;
/// The most bytes of all of them.
const MOST_BYTES: usize = 32 << 10;
/// Headers that say how a message is sent, which the connection says itself.
const FRAMING: [HeaderName; 6] =
    [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Where a provider is to be called from now on.
#[derive(Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// The provider.
    pub provider: String,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The address that the protocol's paths are appended to.
    pub base_url: String,
    /// All headers that are sent there beside those of the protocol. No key that is configured is.
    pub headers: Vec<ExtraHeader>,
}

impl fmt::Debug for RouteChange {
    /// Leaves the address out: it may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteChange")
            .field("provider", &self.provider)
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Why a provider cannot be called like that. Holds no value of a header and no part of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There is no such provider.
    #[error(transparent)]
    Unknown(#[from] ModelsError),
    /// The provider is a recording, which is nowhere.
    #[error("{provider} plays recordings and cannot be called anywhere")]
    Recording {
        /// The provider.
        provider: String,
    },
    /// That cannot be spoken with the provider.
    #[error("{provider} cannot be called with that protocol")]
    Protocol {
        /// The provider.
        provider: String,
    },
    /// The address is none.
    #[error("the base URL cannot be used: {reason}")]
    Address {
        /// What is wrong with it.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("the header \"{name}\" cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There are too many headers.
    #[error("{MOST_HEADERS} headers with {MOST_BYTES} bytes are the most that can be sent")]
    Headers,
}

/// Checks an address and headers.
pub(crate) fn check(change: RouteChange) -> Result<ClientRoute, RouteError> {
    let RouteChange { protocol, base_url, headers, .. } = change;
    let base_url = address(&base_url).map_err(|reason| RouteError::Address { reason })?;
    let bytes: usize = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if headers.len() > MOST_HEADERS || bytes > MOST_BYTES {
        return Err(RouteError::Headers);
    }
    let mut names = Vec::new();
    for header in &headers {
        let wrong = |reason| RouteError::Header { name: header.name.clone(), reason };
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| wrong("no header has such a name"))?;
        if HeaderValue::from_str(&header.value).is_err() {
            return Err(wrong("it holds something else than letters, digits and signs of ASCII"));
        }
        if FRAMING.contains(&name) {
            return Err(wrong("it says how a message is sent, which is not a client's to say"));
        }
        if names.contains(&name) {
            return Err(wrong("it is there twice"));
        }
        names.push(name);
    }
    Ok(ClientRoute { protocol, base_url, headers })
}

/// Returns an address without a slash at its end. The error says nothing of what stands in it.
fn address(text: &str) -> Result<String, String> {
    let url = Url::parse(text.trim()).map_err(|error| match error.to_string().as_str() {
        "relative URL without a base" => "it must begin with https:// or http://".to_owned(),
        reason => reason.to_owned(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with https:// or http://".to_owned());
    }
    config::base_url(text).map_err(|_| "it holds a \"#\", which no address of a service has".into())
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
