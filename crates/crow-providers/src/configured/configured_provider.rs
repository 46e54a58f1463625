//! One provider, from all sources: built-in data, its file, the environment, stored keys, and the current route.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use crow_core::model::{
    Abilities, ModelInfo, ModelRef, ModelsError, Price, Provider, ToolCallFormat,
};
use reqwest::Url;

use super::routed_provider::RoutedProvider;
use crate::{
    catalogue::{KnownModel, Vendor},
    config::{
        self, Address, BUILT_IN, BuiltIn, KeyLookup, KeyRule, KeySource, ModelSettings,
        PriceSettings, ProviderConfig, ProviderKind,
    },
    defaults::WithDefaults,
    dialect::Dialect,
    endpoint::{Endpoint, is_secret},
    http::{HttpClient, Timeouts, redact_url},
    limit::{RateLimitedProvider, RateLimiter, RateLimits},
    provider::HttpProvider,
    retry::RetryPolicy,
    route::{ProviderRouteState, RouteProvider, RouteTarget},
    secret::ApiKey,
    stored::{self, KeyDestination, Sources},
    summary::{CredentialStatus, ModelSummary, ProviderSummary},
    text_calls::TextCallProvider,
};

/// A provider with its limiter and its route.
#[derive(Debug)]
pub(crate) struct ConfiguredProvider {
    config: ProviderConfig,
    source: ProviderSource,
    limiter: RateLimiter,
    pub(crate) route: ProviderRouteState,
}

/// The keys of a model's settings, with the units of their values.
const WINDOW_KEY: &str = "context_window = TOKENS";
const PRICE_KEY: &str = "price = { input = USD, output = USD } per million tokens";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProviderSource {
    BuiltIn,
    File,
}

impl ConfiguredProvider {
    pub(crate) fn built_in(built_in: &'static BuiltIn) -> Self {
        Self::with_source(ProviderConfig::of_built_in(built_in), ProviderSource::BuiltIn)
    }

    pub(crate) fn new(config: ProviderConfig) -> Self {
        Self::with_source(config, ProviderSource::File)
    }

    fn with_source(config: ProviderConfig, source: ProviderSource) -> Self {
        let limiter = RateLimiter::new(config.name.clone(), config.limits);
        Self { config, source, limiter, route: ProviderRouteState::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    pub(crate) fn is_configured(&self) -> bool {
        self.source == ProviderSource::File
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.dialect().is_none()
    }

    /// Returns the wire format; none for a recording.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        match self.config.kind {
            ProviderKind::BuiltIn(built_in) => built_in.dialect,
            ProviderKind::Dialect(dialect) => Some(dialect),
        }
    }

    pub(crate) fn address(&self) -> Option<Address> {
        match self.config.kind {
            ProviderKind::BuiltIn(built_in) => Some(built_in.address),
            ProviderKind::Dialect(_) => None,
        }
    }

    fn vendor(&self) -> Vendor {
        match self.config.kind {
            ProviderKind::BuiltIn(built_in) => built_in.vendor,
            ProviderKind::Dialect(_) => Vendor::Unknown,
        }
    }

    fn key_rule(&self) -> KeyRule {
        match self.config.kind {
            ProviderKind::BuiltIn(built_in) => built_in.key,
            ProviderKind::Dialect(_) => KeyRule::None,
        }
    }

    /// Returns the base URL: of the file, of a variable, or the built-in one. The error is a sentence.
    pub(crate) fn base_url(&self, sources: &Sources) -> Result<String, String> {
        if let Some(url) = &self.config.base_url {
            return Ok(url.clone());
        }
        match self.address() {
            Some(Address::Cloud { url, variable }) => match sources.variable(variable) {
                Some(value) => config::base_url(&value)
                    .map_err(|reason| format!("{variable} cannot be used: {reason}")),
                None => Ok(url.to_owned()),
            },
            Some(Address::Local { port, variable }) => {
                let value = sources.variable(variable).unwrap_or_else(|| "127.0.0.1".to_owned());
                config::host(&value, port)
                    .map_err(|reason| format!("{variable} cannot be used: {reason}"))
            }
            Some(Address::File) | None => Ok(String::new()),
        }
    }

    /// Returns the environment variable of the key.
    pub(crate) fn key_variable(&self) -> Option<String> {
        match (&self.config.key, self.key_rule()) {
            (KeySource::Variable(variable), _) => Some(variable.clone()),
            (KeySource::Direct(_), _) | (KeySource::BuiltIn, KeyRule::None) => None,
            (KeySource::BuiltIn, KeyRule::Required(variable) | KeyRule::Optional(variable)) => {
                Some(variable.to_owned())
            }
        }
    }

    /// Looks up the key: in the environment or in the file, then in the store.
    pub(crate) fn key(&self, sources: &Sources) -> KeyLookup {
        let found = config::find_key(&self.config.key, self.key_rule(), &*sources.lookup);
        match found {
            KeyLookup::Missing { .. } | KeyLookup::NotNeeded if !self.is_replay() => {
                self.stored_key(sources, found)
            }
            KeyLookup::Missing { .. }
            | KeyLookup::NotNeeded
            | KeyLookup::Key(_)
            | KeyLookup::Stored(_)
            | KeyLookup::Unusable { .. } => found,
        }
    }

    /// Returns the stored key, unless it was stored for another origin than the one that requests go to.
    fn stored_key(&self, sources: &Sources, found: KeyLookup) -> KeyLookup {
        let stored = match (sources.stored.find(self.key_name()), &found) {
            (Ok(Some(stored)), _) => stored,
            (Err(reason), KeyLookup::Missing { .. }) => return KeyLookup::Unusable { reason },
            // A provider that needs no key works even if the store cannot be read.
            (Ok(None) | Err(_), _) => return found,
        };
        // An invalid address is reported where the provider is made.
        let Ok(url) = self.base_url(sources) else { return KeyLookup::Stored(stored.key) };
        let origin = stored::origin(&url);
        if origin.as_ref() == Some(&stored.origin) {
            return KeyLookup::Stored(stored.key);
        }
        let by = match self.redirect_variable(sources) {
            Some(variable) => format!(" ({variable} says so)"),
            None => String::new(),
        };
        let origin = origin.as_deref().unwrap_or("an address without a host");
        let reason = format!(
            "its stored key is for {}, but requests go to {origin}{by}; the key is not sent there. \
             `crow-agent login {}` stores one for that place",
            stored.origin, self.config.name
        );
        KeyLookup::Unusable { reason }
    }

    /// Returns the name under which the key is stored: built-in providers with the same variable share a key.
    fn key_name(&self) -> &str {
        let shared = (self.source == ProviderSource::BuiltIn).then(|| {
            let rule = self.key_rule();
            BUILT_IN.iter().find(|other| other.key == rule).map(|other| other.name)
        });
        shared.flatten().unwrap_or(&self.config.name)
    }

    /// Returns the variable that overrides the provider's own address, if it is set.
    fn redirect_variable(&self, sources: &Sources) -> Option<String> {
        match (&self.config.base_url, self.address()) {
            (None, Some(Address::Cloud { variable, .. } | Address::Local { variable, .. })) => {
                sources.variable(variable).map(|_| variable.to_owned())
            }
            (None, Some(Address::File) | None) | (Some(_), _) => None,
        }
    }

    /// Returns the name under which the key is stored, and the origin that it is stored for.
    pub(crate) fn key_home(&self, sources: &Sources) -> Result<KeyDestination, ModelsError> {
        let unusable =
            |reason: String| ModelsError::Unusable { provider: self.config.name.clone(), reason };
        let url = self.base_url(sources).map_err(unusable)?;
        let origin = stored::origin(&url).ok_or_else(|| unusable("it takes no key".to_owned()))?;
        Ok(KeyDestination {
            name: self.key_name().to_owned(),
            origin,
            redirect_variable: self.redirect_variable(sources),
            variable: self.key_variable(),
        })
    }

    /// Returns the texts that must never be shown: the key and the values of secret headers.
    pub(crate) fn secrets(&self, sources: &Sources) -> Vec<String> {
        let key = match self.key(sources) {
            KeyLookup::Key(key) | KeyLookup::Stored(key) => Some(key.reveal().to_owned()),
            KeyLookup::NotNeeded | KeyLookup::Missing { .. } | KeyLookup::Unusable { .. } => None,
        };
        let chosen = match self.route.target() {
            RouteTarget::Chosen(chosen) => chosen.headers,
            RouteTarget::Configured | RouteTarget::Disabled => Vec::new(),
        };
        let headers = self.config.headers.iter().chain(&chosen);
        let headers = headers
            .filter(|header| is_secret(&header.name))
            .map(|header| header.value.strip_prefix("Bearer ").unwrap_or(&header.value).to_owned());
        key.into_iter().chain(headers).collect()
    }

    pub(crate) fn default_model(&self) -> Option<ModelRef> {
        let built_in = match self.config.kind {
            ProviderKind::BuiltIn(built_in) => built_in.default_model,
            ProviderKind::Dialect(_) => None,
        };
        let model = self.config.default_model.as_deref().or(built_in)?;
        Some(ModelRef { provider: self.config.name.clone(), model: model.to_owned() })
    }

    /// Returns a provider that looks up its current route and its stored key at each request.
    pub(crate) fn provider(
        self: &Arc<Self>,
        sources: &Sources,
        client: &HttpClient,
    ) -> Result<Arc<dyn Provider>, ModelsError> {
        self.current_provider(sources, client)?;
        Ok(Arc::new(RoutedProvider::new(Arc::clone(self), sources.clone(), client.clone())))
    }

    /// Returns what sends requests at the moment, with its number; none if there is no route. It is made once for each
    /// route, and again when the stored key that it sends is no longer the one in the store: after a logout, no process
    /// may send the key any more.
    pub(crate) fn current_provider(
        &self,
        sources: &Sources,
        client: &HttpClient,
    ) -> Result<Option<RouteProvider>, ModelsError> {
        if let Some(sent_key) = self.route.stored_key() {
            let is_current =
                matches!(self.key(sources), KeyLookup::Stored(stored) if stored == sent_key);
            if !is_current {
                self.route.reset();
            }
        }
        if !self.route.is_settled() {
            let (provider, stored_key) = self.make_provider(sources, client)?;
            self.route.store_provider(provider, stored_key);
        }
        Ok(self.route.current())
    }

    /// Makes what sends requests to the configured address. Also returns the stored key that it sends, if any.
    fn make_provider(
        &self,
        sources: &Sources,
        client: &HttpClient,
    ) -> Result<(Arc<dyn Provider>, Option<ApiKey>), ModelsError> {
        let name = || self.config.name.clone();
        let unusable = |reason: String| ModelsError::Unusable { provider: name(), reason };
        let dialect = self.dialect().ok_or_else(|| unusable("it is a recording".to_owned()))?;
        let (key, stored_key) = match self.key(sources) {
            KeyLookup::Key(key) => (Some(key), None),
            KeyLookup::Stored(key) => (Some(key.clone()), Some(key)),
            KeyLookup::NotNeeded => (None, None),
            KeyLookup::Missing { variable } => {
                return Err(ModelsError::NoCredentials { provider: name(), variable });
            }
            KeyLookup::Unusable { reason } => return Err(unusable(reason)),
        };
        let endpoint = Endpoint {
            provider: name(),
            dialect,
            base_url: self.base_url(sources).map_err(unusable)?,
            key,
            headers: self.config.headers.clone(),
        };
        let (client, timeouts) = (client.clone(), self.timeouts(&endpoint.base_url));
        let provider =
            HttpProvider::with_timeouts(endpoint, client, RetryPolicy::default(), timeouts)
                .map_err(|error| unusable(error.to_string()))?;
        Ok((self.apply_limits(provider), stored_key))
    }

    pub(crate) fn timeouts(&self, address: &str) -> Timeouts {
        let defaults = Timeouts::at(address);
        let silence = self.config.idle_timeout.unwrap_or(defaults.silence);
        let progress = self.config.progress_timeout.unwrap_or(defaults.progress.max(silence));
        Timeouts { silence, progress, ..defaults }
    }

    /// Applies the limits of the provider and the reading of calls in text, which are the same for every route.
    pub(crate) fn apply_limits(&self, provider: HttpProvider) -> Arc<dyn Provider> {
        let provider: Arc<dyn Provider> = match self.config.max_tokens {
            Some(max_tokens) => Arc::new(WithDefaults::new(provider, max_tokens)),
            None => Arc::new(provider),
        };
        let limited = RateLimitedProvider::new(provider, self.limiter.clone());
        Arc::new(TextCallProvider::new(Arc::new(limited)))
    }

    /// Returns what is known about a model: from the file, otherwise from the table.
    pub(crate) fn info(&self, reference: &ModelRef) -> ModelInfo {
        let settings = self.settings(&reference.model);
        let known = self.known(&reference.model);
        let abilities =
            known.map_or_else(|| self.vendor().default_abilities(), |known| known.abilities);
        ModelInfo {
            reference: reference.clone(),
            context_window: settings
                .and_then(|settings| settings.context_window)
                .or(known.map(|known| known.context_window)),
            max_output_tokens: settings
                .and_then(|settings| settings.max_output_tokens)
                .or(known.map(|known| known.max_output_tokens)),
            abilities: settings.map_or(abilities, |settings| with_settings(abilities, settings)),
            tool_calls: settings.and_then(|settings| settings.tool_calls).unwrap_or_default(),
        }
    }

    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        let settings = self.settings(model).and_then(|settings| settings.price);
        settings.map(price).or_else(|| match self.known(model) {
            Some(known) => Some(known.price),
            None => self.vendor().default_price(),
        })
    }

    /// Returns a warning about unknown properties of a model, with the place to set them. `folder` is that of the
    /// user's providers.
    pub(crate) fn warning(&self, model: &str, folder: Option<&Path>) -> Option<String> {
        let reference = ModelRef { provider: self.config.name.clone(), model: model.to_owned() };
        let lacks_window = self.info(&reference).context_window.is_none();
        let (missing, keys) = match (lacks_window, self.price(model).is_none()) {
            (false, false) => return None,
            (true, false) => ("its window is", WINDOW_KEY.to_owned()),
            (false, true) => ("its price is", PRICE_KEY.to_owned()),
            (true, true) => {
                ("its window and its price are", format!("{WINDOW_KEY} and {PRICE_KEY}"))
            }
        };
        let is_listed = self.settings(model).is_some() || self.known(model).is_some();
        let (listed, near) = if is_listed {
            ("", None)
        } else {
            (" is not among the known models", crow_core::config::nearest(model, self.known_ids()))
        };
        let near = near.map(|near| format!(" Did you mean \"{near}\"?")).unwrap_or_default();
        let file = self.settings_file(folder);
        Some(format!(
            "{reference}{listed}: {missing} unknown.{near} Give {keys} under [models.\"{model}\"] in {file}."
        ))
    }

    /// Names the file with the provider's settings, or describes the one to create.
    fn settings_file(&self, folder: Option<&Path>) -> String {
        let name = &self.config.name;
        match (&self.config.file, folder) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(folder)) => format!(
                "{}, a new file that begins with [provider], name = \"{name}\" and type = \"{name}\"",
                folder.join(format!("{name}.toml")).display()
            ),
            (None, None) => "the provider's TOML".to_owned(),
        }
    }

    /// Summarises the provider for its current route.
    pub(crate) fn summary(&self, sources: &Sources) -> ProviderSummary {
        let (base_url, key) = match self.route.target() {
            RouteTarget::Chosen(chosen) => (Ok(chosen.base_url), KeyLookup::NotNeeded),
            RouteTarget::Configured | RouteTarget::Disabled => {
                (self.base_url(sources), self.key(sources))
            }
        };
        let models = self.known_ids().map(|id| {
            let reference = ModelRef { provider: self.config.name.clone(), model: id.to_owned() };
            ModelSummary { info: self.info(&reference), price: self.price(id) }
        });
        ProviderSummary {
            name: self.config.name.clone(),
            same_as: Some(self.key_name())
                .filter(|name| *name != self.config.name)
                .map(str::to_owned),
            dialect: self.dialect().map_or("replay", Dialect::name),
            base_url: base_url.map(|url| redact_base_url(&url)),
            credentials: match key {
                KeyLookup::Key(_) => CredentialStatus::Present,
                KeyLookup::Stored(_) => CredentialStatus::Stored,
                KeyLookup::NotNeeded => CredentialStatus::NotNeeded,
                KeyLookup::Missing { variable } => CredentialStatus::Missing { variable },
                KeyLookup::Unusable { reason } => CredentialStatus::Unusable { reason },
            },
            default_model: self.default_model().map(|reference| reference.model),
            models: models.collect(),
        }
    }

    /// Returns the ids of the file's models, then those of the table that are not among them.
    fn known_ids(&self) -> impl Iterator<Item = &str> {
        let own = &self.config.models;
        let table = self.vendor().models().iter().map(|known| known.id);
        own.keys().map(String::as_str).chain(table.filter(|id| !own.contains_key(*id)))
    }

    fn settings(&self, model: &str) -> Option<&ModelSettings> {
        self.config.models.get(model)
    }

    fn known(&self, model: &str) -> Option<&'static KnownModel> {
        self.vendor().find(model)
    }
}

impl ProviderConfig {
    fn of_built_in(built_in: &'static BuiltIn) -> Self {
        Self {
            file: None,
            name: built_in.name.to_owned(),
            kind: ProviderKind::BuiltIn(built_in),
            base_url: None,
            key: KeySource::BuiltIn,
            default_model: None,
            max_tokens: None,
            models: BTreeMap::new(),
            headers: Vec::new(),
            idle_timeout: None,
            progress_timeout: None,
            limits: RateLimits::default(),
        }
    }
}

fn with_settings(abilities: Abilities, settings: &ModelSettings) -> Abilities {
    Abilities {
        // Every model can call tools in text.
        tools: settings.tool_calls == Some(ToolCallFormat::Text)
            || settings.tools.unwrap_or(abilities.tools),
        vision: settings.vision.unwrap_or(abilities.vision),
        thinking: settings.thinking.unwrap_or(abilities.thinking),
    }
}

fn price(settings: PriceSettings) -> Price {
    let PriceSettings { input, output, cache_read, cache_write } = settings;
    let cache_write = cache_write.unwrap_or(input);
    Price {
        input,
        output,
        cache_read: cache_read.unwrap_or(input),
        cache_write,
        cache_write_1h: cache_write,
    }
}

pub(crate) fn redact_base_url(url: &str) -> String {
    let shown = Url::parse(url).map_or_else(|_| String::new(), |url| redact_url(&url));
    shown.trim_end_matches('/').to_owned()
}
