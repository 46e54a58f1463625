//! Where the requests of a provider would go, for those who are asked whether they may.

use reqwest::Url;

use super::{Address, KeyRule, KeySource, ProviderConfig, ProviderKind};
use crate::http::shown;

/// Where the requests of a configured provider go, and with which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReach {
    /// The address, or words for it, without any secret.
    pub address: String,
    /// The variable whose value is sent as the key.
    pub key_variable: Option<String>,
    /// Whether the key stands in the configuration itself.
    pub holds_key: bool,
}

impl ProviderConfig {
    /// Says where requests go. Looks nothing up: variables may name another address for a provider that is built in.
    pub fn reach(&self) -> ProviderReach {
        let address = match (&self.base_url, self.kind) {
            (Some(url), _) => Url::parse(url).map_or_else(|_| url.clone(), |url| shown(&url)),
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
        ProviderReach { address, key_variable, holds_key }
    }
}
