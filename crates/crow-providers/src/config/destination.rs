//! Destination of a provider's requests, for users who are asked to allow them.

use reqwest::Url;

use super::{Address, KeyRule, KeySource, ProviderConfig, ProviderKind};
use crate::http::redact_url;

/// Destination of a configured provider's requests, and the source of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDestination {
    /// The address, or a description of it, without any secret.
    pub address: String,
    /// Environment variable whose value is sent as the key.
    pub key_variable: Option<String>,
    /// True if the configuration itself contains the key.
    pub contains_key: bool,
}

impl ProviderConfig {
    /// Returns the destination. Reads no variables: they may name another address for a built-in provider.
    pub fn destination(&self) -> ProviderDestination {
        let address = match (&self.base_url, self.kind) {
            (Some(url), _) => Url::parse(url).map_or_else(|_| url.clone(), |url| redact_url(&url)),
            (None, ProviderKind::BuiltIn(built_in)) => match built_in.address {
                Address::Cloud { url, .. } => url.to_owned(),
                Address::Local { port, .. } => format!("this machine, port {port}"),
                Address::File => "a recording".to_owned(),
            },
            (None, ProviderKind::Dialect(_)) => "nowhere".to_owned(),
        };
        let rule = match self.kind {
            ProviderKind::BuiltIn(built_in) => built_in.key,
            ProviderKind::Dialect(_) => KeyRule::None,
        };
        let key_variable = match (&self.key, rule) {
            (KeySource::Variable(variable), _) => Some(variable.clone()),
            (KeySource::BuiltIn, KeyRule::Required(variable) | KeyRule::Optional(variable)) => {
                Some(variable.to_owned())
            }
            (KeySource::BuiltIn, KeyRule::None) | (KeySource::Direct(_), _) => None,
        };
        let holds_key = matches!(self.key, KeySource::Direct(_));
        ProviderDestination { address, key_variable, contains_key: holds_key }
    }
}
