//! Keys that are kept for providers, each bound to the address that it was given for.

use std::{fmt, sync::Arc};

use reqwest::Url;

use crate::secret::ApiKey;

/// A key that is kept for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The key.
    pub key: ApiKey,
    /// The one place that it may be sent to: scheme, host and port, as [`KeyHome::origin`] says it.
    pub origin: String,
}

/// Where keys are kept.
pub trait KeyStore: Send + Sync + fmt::Debug {
    /// Finds the key that is kept under a name, see [`KeyHome::name`]. The error is a sentence that says why nobody knows.
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String>;
}

/// Where the key of a provider is kept and sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHome {
    /// The name under which it is kept. Providers that share a key share the name.
    pub name: String,
    /// Scheme, host and port of the place that requests go to.
    pub origin: String,
    /// The variable that names this place, where it is not the provider's own one.
    pub redirected_by: Option<String>,
    /// The variable that goes before what is kept.
    pub variable: Option<String>,
}

/// Keeps no keys.
#[derive(Debug)]
pub(crate) struct NoKeys;

impl KeyStore for NoKeys {
    fn find(&self, _name: &str) -> Result<Option<StoredKey>, String> {
        Ok(None)
    }
}

/// Finds the value of an environment variable, or of what stands in its place.
pub(crate) type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where what providers need is looked for.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) lookup: Lookup,
    pub(crate) stored: Arc<dyn KeyStore>,
}

impl Sources {
    /// Looks for a variable that holds something.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.trim().is_empty())
    }
}

/// Returns scheme, host and port of an address.
pub(crate) fn origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_place_whatever_its_path() {
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
