//! A provider as described by its TOML.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::{
    config::{ConfigError, SourceText},
    model::ToolCallFormat,
};

use super::{BuiltIn, KeySource, built_in, raw::RawProvider};
use crate::{dialect::Dialect, endpoint::ExtraHeader, limit::RateLimits};

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

#[cfg(test)]
#[path = "provider_tests.rs"]
mod tests;
