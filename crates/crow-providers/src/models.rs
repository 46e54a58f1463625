//! Resolution of `provider/model` to a usable model, and discovery of model servers that are running on this machine.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use crow_core::model::{ModelRef, Models, ModelsError, Price, Provider, ResolvedModel};
use futures_util::future::join_all;
use reqwest::Url;
use tokio::time::timeout;

use crate::{
    config::{BUILT_IN, ProviderConfig},
    configured::{ConfiguredProvider, ModelSummary, ProviderSummary},
    endpoint::{Endpoint, ExtraHeader},
    http::HttpClient,
    limit::RateLimiter,
    local_server::{get, list_of_models, window_in_list},
    replay::ReplayProvider,
    route::{RouteChange, RouteError, RouteSummary},
    secret::{KeyDestination, KeyStore, NoKeys, Sources},
};

/// Time limit for the answer of a server.
const DISCOVERY_LIMIT: Duration = Duration::from_millis(200);

/// The built-in providers and the configured ones.
///
/// A configured provider replaces a built-in one with the same name. Nothing is read, connected or set up before a
/// model is resolved.
pub struct ProviderModels {
    providers: Vec<Arc<ConfiguredProvider>>,
    sources: Sources,
    client: HttpClient,
    /// Folder of the user's provider files, for messages.
    folder: Option<PathBuf>,
}

impl ProviderModels {
    /// Adds the configured providers to the built-in ones.
    ///
    /// Variables are looked up when a provider is first needed. Two configurations with the same name are an error.
    pub fn new(
        configs: Vec<ProviderConfig>,
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        client: HttpClient,
    ) -> Result<Self, ModelsError> {
        let built_in = BUILT_IN.iter().map(ConfiguredProvider::built_in);
        let mut providers: Vec<Arc<ConfiguredProvider>> = built_in.map(Arc::new).collect();
        let mut names: Vec<String> = Vec::new();
        for config in configs {
            if names.contains(&config.name) {
                let reason = "it is configured twice".to_owned();
                return Err(ModelsError::Unusable { provider: config.name, reason });
            }
            names.push(config.name.clone());
            let slot = providers.iter_mut().find(|provider| provider.name() == config.name);
            let configured = Arc::new(ConfiguredProvider::new(config));
            match slot {
                Some(slot) => *slot = configured,
                None => providers.push(configured),
            }
        }
        let sources = Sources { lookup: Arc::new(lookup), stored: Arc::new(NoKeys) };
        Ok(Self { providers, sources, client, folder: None })
    }

    /// Returns the client that all providers share.
    pub fn client(&self) -> HttpClient {
        self.client.clone()
    }

    /// Uses the keys of a store where no variable contains one.
    #[must_use]
    pub fn with_stored_keys(mut self, stored: Arc<dyn KeyStore>) -> Self {
        self.sources.stored = stored;
        self
    }

    /// Sets the folder of provider files that messages name: settings of a built-in provider belong there.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Returns the model to use if the user names none: the default of the first provider with a key. Configured
    /// providers come before built-in ones, and configured ones that need no key come last.
    pub fn default_model(&self) -> Option<ModelRef> {
        let with_key =
            |provider: &&Arc<ConfiguredProvider>| provider.has_credentials(&self.sources);
        let without = |provider: &&Arc<ConfiguredProvider>| provider.needs_no_key(&self.sources);
        let configured = || self.providers.iter().filter(|provider| provider.is_configured());
        let built_in = || self.providers.iter().filter(|provider| !provider.is_configured());
        configured()
            .filter(with_key)
            .chain(built_in().filter(with_key))
            .chain(configured().filter(without))
            .find_map(|provider| provider.default_model())
    }

    /// Returns the model to use if the user names only the provider. Fails if the provider is unknown.
    pub fn default_model_of(&self, provider: &str) -> Result<Option<ModelRef>, ModelsError> {
        Ok(self.find(provider)?.default_model())
    }

    /// Returns the limiter of all requests to a provider, for requests that a program sends to it by itself.
    pub fn limiter(&self, provider: &str) -> Result<RateLimiter, ModelsError> {
        self.find(provider).map(|provider| provider.limiter().clone())
    }

    /// Returns the environment variables of the providers' keys.
    pub fn key_variables(&self) -> Vec<String> {
        self.providers.iter().filter_map(|provider| provider.key_variable()).collect()
    }

    /// Returns what is known of a model without a request, key or not. Fails if the provider is unknown.
    pub fn summary_of(&self, reference: &ModelRef) -> Result<ModelSummary, ModelsError> {
        let provider = self.find(&reference.provider)?;
        Ok(ModelSummary { info: provider.info(reference), price: provider.price(&reference.model) })
    }

    /// Returns a summary of each provider that is not disabled, the built-in ones first. Sends no request.
    pub fn list(&self) -> Vec<ProviderSummary> {
        let enabled = self.providers.iter().filter(|provider| !provider.is_disabled());
        enabled.map(|provider| provider.summary(&self.sources)).collect()
    }

    /// Returns the routes of all providers except recordings, the disabled ones included; the built-in ones first.
    pub fn routes(&self) -> Vec<RouteSummary> {
        self.providers.iter().filter_map(|provider| provider.route(&self.sources)).collect()
    }

    /// Routes a provider to another address, and enables it if it is disabled. Models that were resolved before use the
    /// new route from the next request on. Only the headers of the change are sent: no key, and no header of the
    /// provider's file.
    pub fn set_route(&self, change: RouteChange) -> Result<(), RouteError> {
        self.find(&change.provider)?.apply_route(change, &self.client)
    }

    /// Disables all models of a provider, resolved ones included, until [`set_route`](Self::set_route) sets a route.
    /// Does nothing for a provider that is unknown or plays recordings.
    pub fn disable(&self, provider: &str) {
        if let Ok(provider) = self.find(provider) {
            provider.disable();
        }
    }

    /// Returns the configured address of a provider with its key.
    pub(crate) fn endpoint(&self, provider: &str) -> Result<Endpoint, ModelsError> {
        Ok(self.find(provider)?.endpoint(&self.sources)?.0)
    }

    /// Returns true if a provider is disabled.
    pub fn is_disabled(&self, provider: &str) -> bool {
        self.find(provider).is_ok_and(|provider| provider.is_disabled())
    }

    /// Returns the name under which the key of a provider is stored, and the origin that it is sent to.
    pub fn key_home(&self, provider: &str) -> Result<KeyDestination, ModelsError> {
        self.find(provider)?.key_home(&self.sources)
    }

    /// Returns the texts that must never be shown: the keys of all providers, and the values of their secret headers.
    pub fn secrets(&self) -> Vec<String> {
        self.providers.iter().flat_map(|provider| provider.secrets(&self.sources)).collect()
    }

    fn find(&self, name: &str) -> Result<&Arc<ConfiguredProvider>, ModelsError> {
        self.providers.iter().find(|provider| provider.name() == name).ok_or_else(|| {
            let known = || self.providers.iter().map(|provider| provider.name());
            ModelsError::UnknownProvider {
                name: name.to_owned(),
                nearest: crow_core::config::nearest(name, known()).map(str::to_owned),
                known: known().map(str::to_owned).collect(),
            }
        })
    }

    /// Returns the servers that may run on this machine: name, base URL and headers. One with an invalid address is
    /// omitted; a request to it will report the error.
    fn local_servers(&self) -> impl Iterator<Item = (&str, String, Vec<ExtraHeader>)> {
        self.providers.iter().filter_map(|provider| {
            let (base_url, headers) = provider.local_server(&self.sources)?;
            Some((provider.name(), base_url, headers))
        })
    }
}

#[async_trait]
impl Models for ProviderModels {
    async fn resolve(&self, reference: &ModelRef) -> Result<ResolvedModel, ModelsError> {
        let configured = self.find(&reference.provider)?;
        if configured.is_replay() {
            let provider = ReplayProvider::read(&reference.model).await.map_err(|error| {
                let (provider, reason) = (reference.provider.clone(), error.to_string());
                ModelsError::Unusable { provider, reason }
            })?;
            let info = configured.info(reference);
            return Ok(ResolvedModel { provider: Arc::new(provider), info, warning: None });
        }
        let provider: Arc<dyn Provider> = configured.provider(&self.sources, &self.client)?;
        let info = configured.info(reference);
        let warning = configured.warning(&reference.model, &self.sources, self.folder.as_deref());
        Ok(ResolvedModel { provider, info, warning })
    }

    fn provider_default_model(&self, provider: &str) -> Option<ModelRef> {
        self.find(provider).ok()?.default_model()
    }

    async fn price(&self, reference: &ModelRef) -> Option<Price> {
        self.find(&reference.provider).ok()?.price(&reference.model)
    }
}

impl fmt::Debug for ProviderModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModels").field("providers", &self.providers).finish_non_exhaustive()
    }
}

/// A running server with its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundServer {
    /// Name of the provider, as in model references before the slash.
    pub provider: String,
    /// Base URL of its API.
    pub base_url: String,
    /// Models in the order of the server, without those that only embed.
    pub models: Vec<FoundModel>,
}

/// A model of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundModel {
    /// Id for requests.
    pub id: String,
    /// Context window in tokens, if the server reports it.
    pub context_window: Option<u64>,
}

/// Asks all local providers in parallel for their models. Servers without an answer in time, or without models, are
/// omitted. Used only when a run has no model, because it takes up to 200 ms.
pub async fn discover(models: &ProviderModels) -> Vec<FoundServer> {
    let questions = models.local_servers().map(|(provider, base_url, headers)| async move {
        let models = timeout(DISCOVERY_LIMIT, ask_for_models(&base_url, &headers)).await.ok()??;
        (!models.is_empty()).then(|| FoundServer {
            provider: provider.to_owned(),
            base_url,
            models,
        })
    });
    join_all(questions).await.into_iter().flatten().collect()
}

/// Asks one server.
async fn ask_for_models(base_url: &str, headers: &[ExtraHeader]) -> Option<Vec<FoundModel>> {
    let url = Url::parse(base_url).ok()?;
    let list = get(&url, list_of_models(&url), headers).await?;
    let models = list.get("data")?.as_array()?.iter().filter_map(|model| {
        let id = model.get("id")?.as_str()?;
        let is_for_chat = !id.to_ascii_lowercase().contains("embed");
        is_for_chat.then(|| FoundModel { id: id.to_owned(), context_window: window_in_list(model) })
    });
    Some(models.collect())
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod discovery_tests;
