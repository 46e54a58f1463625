//! Where the models of a provider are called, as clients see and choose it.

use std::fmt;

/// A provider of models with the place where it is called. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoute {
    /// Its name, as it stands before the slash in a model reference.
    pub id: String,
    /// The protocols that can be spoken with it, its own one first.
    pub supported: Vec<ProviderProtocol>,
    /// Whether it can be disabled.
    pub standing: ProviderStanding,
    /// Where it is called; none while it is disabled, or while what is configured is no address.
    pub current: Option<ProviderAddress>,
}

/// Whether a provider can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderStanding {
    /// It can.
    Optional,
    /// The product cannot do without it.
    Required,
}

/// Where a provider is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAddress {
    /// What is spoken there.
    pub protocol: ProviderProtocol,
    /// The address that the protocol's paths are appended to, without user, password and query.
    pub base_url: String,
}

/// What is spoken with a provider: a family of wire formats.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProviderProtocol {
    /// Anthropic Messages: `anthropic`.
    Anthropic,
    /// `OpenAI` Responses or Chat Completions, whichever the provider speaks: `openai`.
    OpenAi,
    /// Another one, by its name.
    Named(String),
}

impl ProviderProtocol {
    const ANTHROPIC: &'static str = "anthropic";
    const OPENAI: &'static str = "openai";

    /// Returns its name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Anthropic => Self::ANTHROPIC,
            Self::OpenAi => Self::OPENAI,
            Self::Named(name) => name,
        }
    }
}

impl From<&str> for ProviderProtocol {
    fn from(name: &str) -> Self {
        match name {
            Self::ANTHROPIC => Self::Anthropic,
            Self::OPENAI => Self::OpenAi,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl fmt::Display for ProviderProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a provider is to be called from now on. It replaces all that was said of that before, keys included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderChange {
    /// The provider's name.
    pub id: String,
    /// What is spoken there.
    pub protocol: ProviderProtocol,
    /// The address that the protocol's paths are appended to. It may hold secrets and is not to be shown.
    pub base_url: SecretText,
    /// The headers to send, which are all the credentials that there are.
    pub headers: Vec<ProviderHeader>,
}

/// A header that is sent with every call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderHeader {
    /// Its name.
    pub name: String,
    /// What it says.
    pub value: SecretText,
}

/// A text that may be a secret. Shows as `***` and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for where it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_shows_no_secret() {
        let change = ProviderChange {
            id: "work".to_owned(),
            protocol: ProviderProtocol::from("openai"),
            base_url: SecretText::new("https://ann:pass-word@llm.example"),
            headers: vec![ProviderHeader {
                name: "Authorization".to_owned(),
                value: SecretText::new("Bearer sk-very-secret"),
            }],
        };
        let shown = format!("{change:?}");
        assert!(shown.contains("Authorization") && !shown.contains("secret"), "{shown}");
        assert!(!shown.contains("pass"), "{shown}");
    }

    #[test]
    fn a_protocol_is_known_by_its_name() {
        for name in ["anthropic", "openai", "azure", "_gemini"] {
            assert_eq!(ProviderProtocol::from(name).as_str(), name);
        }
        assert_eq!(ProviderProtocol::from("openai"), ProviderProtocol::OpenAi);
    }
}
