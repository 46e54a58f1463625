//! API keys, and redaction of secrets.

use std::{fmt, sync::Arc};

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

    /// Replaces each secret in `text` with `***`.
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
