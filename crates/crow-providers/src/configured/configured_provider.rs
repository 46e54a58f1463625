//! One provider, from all sources: built-in data, its file, the environment, stored keys, and the current route.

use std::{collections::BTreeMap, sync::Arc};

use crow_core::{
    ids::SessionId,
    model::{
        Conversation, ModelConfig, ModelInfo, ModelRef, ModelRequest, ModelStream, ModelsError,
        Provider, WindowAnswer,
    },
};
use reqwest::Url;

use super::routing::RoutedProvider;
use crate::{
    catalogue::Vendor,
    config::{
        self, Address, BUILT_IN, BuiltIn, KeyLookup, KeySource, ProviderConfig, ProviderKind,
    },
    dialect::Dialect,
    endpoint::{Endpoint, is_secret},
    http::{HttpClient, Timeouts, redact_url},
    limit::{RateLimitedProvider, RateLimiter, RateLimits},
    provider::HttpProvider,
    retry::RetryPolicy,
    route::{ProviderRouteState, RouteProvider, RouteTarget},
    secret::{ApiKey, KeyDestination, Sources, url_origin},
    text_calls::TextCallProvider,
};

/// A provider with its limiter and its route.
#[derive(Debug)]
pub(crate) struct ConfiguredProvider {
    pub(super) config: ProviderConfig,
    source: ProviderSource,
    limiter: RateLimiter,
    pub(crate) route: ProviderRouteState,
}

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

    pub(super) fn vendor(&self) -> Vendor {
        match self.config.kind {
            ProviderKind::BuiltIn(built_in) => built_in.vendor,
            ProviderKind::Dialect(_) => Vendor::Unknown,
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
        self.config.key_variable()
    }

    /// Looks up the key: in the environment or in the file, then in the store.
    pub(crate) fn key(&self, sources: &Sources) -> KeyLookup {
        let found = config::find_key(&self.config.key, self.config.key_rule(), &*sources.lookup);
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
        let origin = url_origin(&url);
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
    pub(super) fn key_name(&self) -> &str {
        let shared = (self.source == ProviderSource::BuiltIn).then(|| {
            let rule = self.config.key_rule();
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
        let origin = url_origin(&url).ok_or_else(|| unusable("it takes no key".to_owned()))?;
        Ok(KeyDestination {
            name: self.key_name().to_owned(),
            origin,
            redirect_variable: self.redirect_variable(sources),
            variable: self.config.key_variable(),
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
        let unusable =
            |reason: String| ModelsError::Unusable { provider: self.config.name.clone(), reason };
        let (endpoint, stored_key) = self.endpoint(sources)?;
        let (client, timeouts) = (client.clone(), self.timeouts(&endpoint.base_url));
        let provider =
            HttpProvider::with_timeouts(endpoint, client, RetryPolicy::default(), timeouts)
                .map_err(|error| unusable(error.to_string()))?;
        Ok((self.apply_limits(provider), stored_key))
    }

    /// Returns the configured address with its key. Also returns the stored key that is sent, if any.
    pub(crate) fn endpoint(
        &self,
        sources: &Sources,
    ) -> Result<(Endpoint, Option<ApiKey>), ModelsError> {
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
        Ok((endpoint, stored_key))
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
            Some(max_tokens) => Arc::new(WithDefaults { inner: provider, max_tokens }),
            None => Arc::new(provider),
        };
        let limited = RateLimitedProvider::new(provider, self.limiter.clone());
        Arc::new(TextCallProvider::new(Arc::new(limited)))
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

pub(crate) fn redact_base_url(url: &str) -> String {
    let shown = Url::parse(url).map_or_else(|_| String::new(), |url| redact_url(&url));
    shown.trim_end_matches('/').to_owned()
}

/// A provider whose requests get a limit of output if the caller sets none.
#[derive(Debug)]
struct WithDefaults {
    inner: HttpProvider,
    max_tokens: u64,
}

impl Provider for WithDefaults {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn context_window<'a>(&'a self, model: &'a ModelInfo) -> WindowAnswer<'a> {
        self.inner.context_window(model)
    }

    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        // At most the maximum of the model.
        let most = model.max_output_tokens.unwrap_or(u64::MAX);
        let max_tokens = self.max_tokens.min(most);
        Box::new(LimitedConversation { inner: self.inner.conversation(model, session), max_tokens })
    }
}

struct LimitedConversation {
    inner: Box<dyn Conversation>,
    max_tokens: u64,
}

impl Conversation for LimitedConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let max_tokens = request.config.max_tokens.or(Some(self.max_tokens));
        let config = ModelConfig { max_tokens, ..request.config.clone() };
        self.inner.stream(ModelRequest { config: &config, ..request })
    }
}
