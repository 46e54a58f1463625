//! Keys, and keeping them out of everything but the one header they belong in.

use std::{fmt, sync::Arc};

/// A provider's key. It shows as `***` and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Wraps a key without the white space around it. A blank text is no key.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// Checks that a text, typed or copied, can stand in a header as a key. White space around it is cut off: copying brings
    /// it along. The error says what is wrong with it, without showing it.
    pub fn check(text: &str) -> Result<Self, String> {
        let key = Self::new(text).ok_or("is empty")?;
        let odd = text.trim().chars().find(|c| !c.is_ascii_graphic());
        match odd {
            None => Ok(key),
            Some(c) if c.is_whitespace() => {
                Err("holds white space in its middle; was more than the key copied?".to_owned())
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

/// The texts that must not show in an error, should a provider echo them.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Adds a secret. Texts too short to be one would only garble messages.
    pub(crate) fn add(&mut self, secret: &str) {
        const SHORTEST: usize = 6;
        if secret.len() >= SHORTEST {
            self.0.push(secret.to_owned());
        }
    }

    /// Replaces each secret in `text`.
    pub(crate) fn redact(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "***");
            }
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
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
}
