//! A provider as its TOML describes it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::config::{ConfigError, SourceText};

use super::{BuiltIn, KeySource, built_in, raw::RawProvider};
use crate::{dialect::Dialect, endpoint::ExtraHeader, limit::RateLimits};

/// A provider that a file describes.
///
/// ```toml
/// [provider]
/// name = "work"                       # what stands before the slash in a model reference
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
/// [models.claude-sonnet-4-5]          # optional, for models that are not known or known otherwise
/// context_window = 200000
/// max_output_tokens = 64000
/// supports_tools = true
/// supports_vision = true
/// supports_extended_thinking = true
/// price = { input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }
///
/// [headers]                           # optional, sent with every request
/// x-team = "crow"
///
/// [timeouts]                          # optional
/// idle_seconds = 120                  # without a byte; 1800 where the server is on this machine
/// progress_seconds = 600              # with keep-alives, but without a part of the reply; 1800 on this machine
///
/// [limits]                            # optional, shared by all agents of the process
/// concurrency = 4                     # requests in flight
/// requests_per_minute = 50
/// tokens_per_minute = 40000           # input and output together
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// The file that describes it; none of a built-in one.
    pub(crate) file: Option<PathBuf>,
    /// What stands before the slash in a model reference.
    pub(crate) name: String,
    /// What kind of provider it is.
    pub(crate) kind: ProviderKind,
    /// Where it is, if not where its kind is by default. Without a slash at its end.
    pub(crate) base_url: Option<String>,
    /// Where its key comes from.
    pub(crate) key: KeySource,
    /// The model that is asked when nobody names one.
    pub(crate) default_model: Option<String>,
    /// The most tokens of a reply when nobody says.
    pub(crate) max_tokens: Option<u64>,
    /// What is said about single models.
    pub(crate) models: BTreeMap<String, ModelSettings>,
    /// Headers that are sent with every request.
    pub(crate) headers: Vec<ExtraHeader>,
    /// How long the provider may send nothing.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long the provider may send no part of a reply.
    pub(crate) progress_timeout: Option<Duration>,
    /// How much may be asked of it.
    pub(crate) limits: RateLimits,
}

/// What kind of provider a file describes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProviderKind {
    /// One that is built in, under another name or with other settings.
    BuiltIn(&'static BuiltIn),
    /// Any service that speaks a known wire format.
    Dialect(Dialect),
}

/// What a file says about a model. What it does not say is taken from the table of known models.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ModelSettings {
    /// The window in tokens.
    pub(crate) context_window: Option<u64>,
    /// The most tokens of a reply.
    pub(crate) max_output_tokens: Option<u64>,
    /// Whether it can call tools.
    pub(crate) tools: Option<bool>,
    /// Whether it can see pictures.
    pub(crate) vision: Option<bool>,
    /// Whether it can think before it answers.
    pub(crate) thinking: Option<bool>,
    /// What it costs.
    pub(crate) price: Option<PriceSettings>,
}

/// A price in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PriceSettings {
    /// Input that no cache served.
    pub(crate) input: f64,
    /// Output.
    pub(crate) output: f64,
    /// Input read from the cache; as `input` if absent.
    pub(crate) cache_read: Option<f64>,
    /// Input written to the cache; as `input` if absent.
    pub(crate) cache_write: Option<f64>,
}

impl ProviderConfig {
    /// Reads a provider's TOML. The path serves only to say where an error is.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = SourceText { path, text };
        let raw: RawProvider = toml::from_str(text)
            .map_err(|error| source.syntax_error(error.span(), error.message()))?;
        super::resolve::resolve(raw, source)
    }

    /// Returns what stands before the slash in a model reference.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns whether a provider of that name is built in.
pub fn is_built_in(name: &str) -> bool {
    built_in::find(name).is_some()
}

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
