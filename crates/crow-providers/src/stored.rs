//! Stored keys of providers, each bound to the origin that it was given for.

use std::{fmt, sync::Arc};

use reqwest::Url;

use crate::secret::ApiKey;

/// A stored key of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The key.
    pub key: ApiKey,
    /// The only origin that it may be sent to: scheme, host and port, in the form of [`KeyDestination::origin`].
    pub origin: String,
}

/// A store of keys.
pub trait KeyStore: Send + Sync + fmt::Debug {
    /// Returns the key that is stored under a name, see [`KeyDestination::name`]. The error is a sentence on why it cannot be
    /// read.
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String>;
}

/// Name and destination of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDestination {
    /// Name under which it is stored. Providers that share a key share the name.
    pub name: String,
    /// Scheme, host and port that requests go to.
    pub origin: String,
    /// Environment variable that sets this destination, if it is not the provider's own one.
    pub redirect_variable: Option<String>,
    /// Environment variable that takes precedence over the stored key.
    pub variable: Option<String>,
}

/// A store without keys.
#[derive(Debug)]
pub(crate) struct NoKeys;

impl KeyStore for NoKeys {
    fn find(&self, _name: &str) -> Result<Option<StoredKey>, String> {
        Ok(None)
    }
}

/// Returns the value of an environment variable, or of its substitute.
pub(crate) type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Sources of variables and stored keys.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) lookup: Lookup,
    pub(crate) stored: Arc<dyn KeyStore>,
}

impl Sources {
    /// Returns the value of a variable, unless it is blank.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.trim().is_empty())
    }
}

/// Returns scheme, host and port of an address; none if it has no host.
pub(crate) fn origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_does_not_depend_on_path_or_user() {
        let home = origin("https://api.example.com/v1").unwrap();
        for (url, is_same) in [
            ("https://api.example.com", true),
            ("https://API.example.com:443/v2?x=1", true),
            ("https://u:p@api.example.com/v1", true),
            ("http://api.example.com/v1", false),
            ("https://api.example.com:8443/v1", false),
            ("https://api.example.com.evil.test/v1", false),
            ("https://api.example.com@evil.test/v1", false),
            ("https://apí.example.com/v1", false),
        ] {
            assert_eq!(origin(url).unwrap() == home, is_same, "{url}");
        }
        assert_eq!(origin("data:text/plain,x"), None);
    }
}
