//! Validation of a route that is chosen for a provider.

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
