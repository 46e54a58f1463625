//! A provider as described by its TOML: where its requests go, and its key.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::{
    config::{ConfigError, SourceText},
    model::ToolCallFormat,
};
use reqwest::Url;

use super::{Address, BuiltIn, KeyRule, built_in, raw::RawProvider};
use crate::{
    dialect::Dialect, endpoint::ExtraHeader, http::redact_url, limit::RateLimits, secret::ApiKey,
};

/// A provider described by a file.
///
/// ```toml
/// [provider]
/// name = "work"                       # the part of a model reference before the slash
/// type = "anthropic"                  # a built-in provider, or a dialect together with a base_url
/// base_url = "https://llm.example"    # optional
///
/// [auth]                              # optional
/// api_key = { env = "WORK_KEY" }      # or the key itself as a string, which is not recommended
///
/// [defaults]                          # optional
/// model = "claude-sonnet-4-5"
/// max_tokens = 8192
///
/// [models.claude-sonnet-4-5]          # optional, for unknown models, or to override known values
/// context_window = 200000
/// max_output_tokens = 64000
/// supports_tools = true
/// tool_calls = "native"               # or "text", for a model or server without native tool calls
/// supports_vision = true
/// supports_extended_thinking = true
/// price = { input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }
///
/// [headers]                           # optional, sent with every request
/// x-team = "crow"
///
/// [timeouts]                          # optional
/// idle_seconds = 120                  # maximum time without a byte; 1800 for a server on this machine
/// progress_seconds = 600              # maximum time without a part of the reply, even with keep-alives; 1800 likewise
///
/// [limits]                            # optional, shared by all agents of the process
/// concurrency = 4                     # requests in flight
/// requests_per_minute = 50
/// tokens_per_minute = 40000           # input and output together
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// The file that describes it; none for a built-in provider.
    pub(crate) file: Option<PathBuf>,
    /// The part of a model reference before the slash.
    pub(crate) name: String,
    /// Built-in provider or wire format.
    pub(crate) kind: ProviderKind,
    /// Base URL without a slash at its end; none for the default of its kind.
    pub(crate) base_url: Option<String>,
    /// Source of its key.
    pub(crate) key: KeySource,
    /// Model used if the user names none.
    pub(crate) default_model: Option<String>,
    /// Maximum tokens of a reply where a request sets no maximum.
    pub(crate) max_tokens: Option<u64>,
    /// Settings of single models, by id.
    pub(crate) models: BTreeMap<String, ModelSettings>,
    /// Headers that are sent with every request.
    pub(crate) headers: Vec<ExtraHeader>,
    /// Maximum time without a byte from the provider.
    pub(crate) idle_timeout: Option<Duration>,
    /// Maximum time without a part of the reply.
    pub(crate) progress_timeout: Option<Duration>,
    /// Limits on its requests and tokens.
    pub(crate) limits: RateLimits,
}

/// Kind of the provider that a file describes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProviderKind {
    /// A built-in provider, under another name or with other settings.
    BuiltIn(&'static BuiltIn),
    /// Any service with a known wire format.
    Dialect(Dialect),
}

/// Settings of a model in a file. Absent ones are taken from the table of known models.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelSettings {
    /// Context window in tokens.
    pub(crate) context_window: Option<u64>,
    /// Maximum tokens of a reply.
    pub(crate) max_output_tokens: Option<u64>,
    /// True if it can call tools.
    pub(crate) tools: Option<bool>,
    /// How it calls them.
    pub(crate) tool_calls: Option<ToolCallFormat>,
    /// True if it accepts images.
    pub(crate) vision: Option<bool>,
    /// True if it can think before it answers.
    pub(crate) thinking: Option<bool>,
    /// Price of its tokens.
    pub(crate) price: Option<PriceSettings>,
}

/// A price in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PriceSettings {
    /// Input that was not read from a cache.
    pub(crate) input: f64,
    /// Output.
    pub(crate) output: f64,
    /// Input read from the cache; same as `input` if absent.
    pub(crate) cache_read: Option<f64>,
    /// Input written to the cache; same as `input` if absent.
    pub(crate) cache_write: Option<f64>,
}

impl ProviderConfig {
    /// Parses a provider's TOML. The path is used in errors only.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = SourceText { path, text };
        let raw: RawProvider = toml::from_str(text)
            .map_err(|error| source.syntax_error(error.span(), error.message()))?;
        super::resolve::resolve(raw, source)
    }

    /// Returns the part of a model reference before the slash.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns true if a provider with this name is built in.
pub fn is_built_in(name: &str) -> bool {
    built_in::find(name).is_some()
}

/// Source of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// The rule of the provider itself: its variable, or no key.
    BuiltIn,
    /// An environment variable.
    Variable(String),
    /// The configuration file itself.
    Direct(ApiKey),
}

/// Result of the lookup of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLookup {
    Key(ApiKey),
    /// A key from the credential store, stored for the origin that requests go to.
    Stored(ApiKey),
    /// No key is needed.
    NotNeeded,
    /// A key is needed, but this variable is not set or blank.
    Missing {
        variable: String,
    },
    /// The key cannot be sent, or the store cannot be read.
    Unusable {
        reason: String,
    },
}

impl KeyLookup {
    /// Returns true if there is a key.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self, Self::Key(_) | Self::Stored(_))
    }
}

/// Looks up a key in the configuration or the environment.
pub(crate) fn find_key(
    source: &KeySource,
    rule: KeyRule,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> KeyLookup {
    let (variable, is_needed) = match (source, rule) {
        (KeySource::Direct(key), _) => return KeyLookup::Key(key.clone()),
        (KeySource::Variable(variable), _) => (variable.as_str(), true),
        (KeySource::BuiltIn, KeyRule::Required(variable)) => (variable, true),
        (KeySource::BuiltIn, KeyRule::Optional(variable)) => (variable, false),
        (KeySource::BuiltIn, KeyRule::None) => return KeyLookup::NotNeeded,
    };
    let found = lookup(variable).filter(|value| !value.trim().is_empty());
    match found.as_deref().map(ApiKey::check) {
        Some(Ok(key)) => KeyLookup::Key(key),
        Some(Err(reason)) => {
            KeyLookup::Unusable { reason: format!("the key in {variable} {reason}") }
        }
        None if is_needed => KeyLookup::Missing { variable: variable.to_owned() },
        None => KeyLookup::NotNeeded,
    }
}

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
        let contains_key = matches!(self.key, KeySource::Direct(_));
        ProviderDestination { address, key_variable: self.key_variable(), contains_key }
    }

    /// Returns the environment variable of the key.
    pub(crate) fn key_variable(&self) -> Option<String> {
        match (&self.key, self.key_rule()) {
            (KeySource::Variable(variable), _) => Some(variable.clone()),
            (KeySource::BuiltIn, KeyRule::Required(variable) | KeyRule::Optional(variable)) => {
                Some(variable.to_owned())
            }
            (KeySource::BuiltIn, KeyRule::None) | (KeySource::Direct(_), _) => None,
        }
    }

    /// Returns the rule of the built-in provider that it is based on.
    pub(crate) fn key_rule(&self) -> KeyRule {
        match self.kind {
            ProviderKind::BuiltIn(built_in) => built_in.key,
            ProviderKind::Dialect(_) => KeyRule::None,
        }
    }
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
