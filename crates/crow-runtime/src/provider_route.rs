//! Addresses of model providers, as clients see and change them.

use std::fmt;

/// A provider of models with its current address. Contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoute {
    /// The name of the provider: the part before the slash in a model reference.
    pub id: String,
    /// The supported protocols, the provider's own one first.
    pub supported: Vec<ProviderProtocol>,
    /// Optional providers can be disabled, required ones cannot.
    pub necessity: ProviderNecessity,
    /// The current address; `None` while the provider is disabled, or if the configured address is invalid.
    pub current: Option<ProviderAddress>,
}

/// Tells if a provider can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderNecessity {
    /// It can be disabled.
    Optional,
    /// It cannot: the product needs it.
    Required,
}

/// The address of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAddress {
    /// The protocol used there.
    pub protocol: ProviderProtocol,
    /// The address that the protocol's paths are appended to, without user, password and query.
    pub base_url: String,
}

/// The protocol of a provider: a family of wire formats.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProviderProtocol {
    /// Anthropic Messages: `anthropic`.
    Anthropic,
    /// `OpenAI` Responses or Chat Completions, whichever the provider speaks: `openai`.
    OpenAi,
    /// Any other protocol, by name.
    Named(String),
}

impl ProviderProtocol {
    const ANTHROPIC: &'static str = "anthropic";
    const OPENAI: &'static str = "openai";

    /// Returns the name of the protocol.
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

/// A new address for a provider. Replaces all earlier settings of the address, including keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderChange {
    /// The name of the provider.
    pub id: String,
    /// The protocol to use.
    pub protocol: ProviderProtocol,
    /// The base URL, to which the protocol's paths are appended. It may contain secrets and must not be shown.
    pub base_url: SecretText,
    /// The headers to send; they are the only credentials.
    pub headers: Vec<ProviderHeader>,
}

/// A header sent with every model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderHeader {
    /// The name of the header.
    pub name: String,
    /// The value of the header.
    pub value: SecretText,
}

/// A text that may be a secret. Its debug output is `***`, and it cannot be serialized.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for sending it.
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
    fn a_protocol_round_trips_through_its_name() {
        for name in ["anthropic", "openai", "azure", "_gemini"] {
            assert_eq!(ProviderProtocol::from(name).as_str(), name);
        }
        assert_eq!(ProviderProtocol::from("openai"), ProviderProtocol::OpenAi);
    }
}
