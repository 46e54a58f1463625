//! API keys, where they are stored and what they may be sent to, and redaction of secrets.

use std::{fmt, sync::Arc};

use reqwest::Url;

/// A provider's key. It is formatted as `***` and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Wraps a key without the white space around it. None for a blank text.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// Validates a text, typed or copied, as a key that can be sent in a header. White space around it is removed,
    /// since copying may add it. The error says what is wrong with the text, without showing it.
    pub fn check(text: &str) -> Result<Self, String> {
        let key = Self::new(text).ok_or("is empty")?;
        let invalid = text.trim().chars().find(|c| !c.is_ascii_graphic());
        match invalid {
            None => Ok(key),
            Some(c) if c.is_whitespace() => {
                Err("has white space in its middle; was more than the key copied?".to_owned())
            }
            Some(c) => Err(format!(
                "holds the character U+{:04X}, which no key has; copy it again",
                u32::from(c)
            )),
        }
    }

    /// Returns the key itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Texts that must not appear in an error, in case a provider echoes them.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Adds a secret. Texts of less than 6 bytes are ignored, since replacing them would only garble messages.
    pub(crate) fn add(&mut self, secret: &str) {
        const SHORTEST: usize = 6;
        if secret.len() >= SHORTEST {
            self.0.push(secret.to_owned());
        }
    }

    /// Replaces each secret in `text` with `***`. Returns true if there was one.
    pub(crate) fn redact(&self, text: &mut String) -> bool {
        let mut is_changed = false;
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "***");
                is_changed = true;
            }
        }
        is_changed
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

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
pub(crate) fn url_origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let key = ApiKey::new(" sk-very-secret\n").unwrap();
        assert_eq!(format!("{key} {key:?}"), "*** ApiKey(***)");
        assert_eq!(key.reveal(), "sk-very-secret");
    }

    #[test]
    fn a_blank_text_is_no_key() {
        assert_eq!(ApiKey::new(" \n"), None);
    }

    #[test]
    fn an_echoed_secret_is_replaced_everywhere() {
        let mut secrets = Secrets::default();
        secrets.add("sk-very-secret");
        secrets.add("x");
        let mut text = "bad key sk-very-secret, (sk-very-secret) x".to_owned();
        secrets.redact(&mut text);
        assert_eq!(text, "bad key ***, (***) x");
    }

    #[test]
    fn the_origin_does_not_depend_on_path_or_user() {
        let home = url_origin("https://api.example.com/v1").unwrap();
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
            assert_eq!(url_origin(url).unwrap() == home, is_same, "{url}");
        }
        assert_eq!(url_origin("data:text/plain,x"), None);
    }
}
