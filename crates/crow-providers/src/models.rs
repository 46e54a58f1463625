//! From `provider/model` to a model that can be asked.

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use crow_core::model::{ModelRef, Models, ModelsError, Price, Provider, ResolvedModel};

use crate::{
    config::{BUILT_IN, ProviderConfig},
    configured::ConfiguredProvider,
    endpoint::ExtraHeader,
    http::HttpClient,
    limit::RateLimiter,
    replay::ReplayProvider,
    route::{RouteChange, RouteError, RouteSummary},
    stored::{KeyHome, KeyStore, NoKeys, Sources},
    summary::ProviderSummary,
};

/// The providers that are built in and those that were configured.
///
/// A configured provider with the name of a built-in one takes its place. Nothing is read, connected or set up before a
/// model is resolved.
pub struct ProviderModels {
    providers: Vec<Arc<ConfiguredProvider>>,
    sources: Sources,
    client: HttpClient,
    /// Where the user's providers are described, for messages.
    folder: Option<PathBuf>,
}

impl ProviderModels {
    /// Puts the configured providers beside the built-in ones.
    ///
    /// Variables are looked up when a provider is first needed. Two configurations with one name are an error.
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
            let place = providers.iter_mut().find(|provider| provider.name() == config.name);
            let configured = Arc::new(ConfiguredProvider::new(config));
            match place {
                Some(place) => *place = configured,
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

    /// Takes keys from there where no variable holds one.
    #[must_use]
    pub fn with_stored_keys(mut self, stored: Arc<dyn KeyStore>) -> Self {
        self.sources.stored = stored;
        self
    }

    /// Names the folder with the TOML of providers in messages: a built-in provider gets settings there.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Returns the model to ask when nobody names one: the default of the first provider whose key is there. Configured
    /// providers come before built-in ones, and what needs no key comes last.
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

    /// Returns the model that a provider is asked for when only the provider is named.
    pub fn default_model_of(&self, provider: &str) -> Result<Option<ModelRef>, ModelsError> {
        Ok(self.find(provider)?.default_model())
    }

    /// Returns what all requests to a provider pass, for those that a program sends to it by itself.
    pub fn limiter(&self, provider: &str) -> Result<RateLimiter, ModelsError> {
        self.find(provider).map(|provider| provider.limiter().clone())
    }

    /// Returns the variables of the environment in which keys are looked for.
    pub fn key_variables(&self) -> Vec<String> {
        self.providers.iter().filter_map(|provider| provider.key_variable()).collect()
    }

    /// Returns all providers that are not disabled with what is known about them, the built-in ones first. Asks nobody.
    pub fn list(&self) -> Vec<ProviderSummary> {
        let enabled = self.providers.iter().filter(|provider| !provider.is_disabled());
        enabled.map(|provider| provider.summary(&self.sources)).collect()
    }

    /// Says where each provider is called that is called anywhere, those that are disabled included; the built-in ones
    /// first.
    pub fn routes(&self) -> Vec<RouteSummary> {
        self.providers.iter().filter_map(|provider| provider.route(&self.sources)).collect()
    }

    /// Lets a provider be called elsewhere, and enables it if it is disabled. Whoever resolved a model of it before asks
    /// there from the next request on. Sent are the headers of the change: no key, and no header of the provider's file.
    pub fn set_route(&self, change: RouteChange) -> Result<(), RouteError> {
        self.find(&change.provider)?.choose(change, &self.client)
    }

    /// Lets no model of a provider be asked, whoever resolved it, until [`set_route`](Self::set_route) says where. Nothing
    /// is done of a provider that is not known, and of one that plays recordings.
    pub fn disable(&self, provider: &str) {
        if let Ok(provider) = self.find(provider) {
            provider.disable();
        }
    }

    /// Returns whether a provider is disabled.
    pub fn is_disabled(&self, provider: &str) -> bool {
        self.find(provider).is_ok_and(|provider| provider.is_disabled())
    }

    /// Says where the key of a provider is kept and sent to.
    pub fn key_home(&self, provider: &str) -> Result<KeyHome, ModelsError> {
        self.find(provider)?.key_home(&self.sources)
    }

    /// Returns what may not show anywhere: the keys of all providers, and what their secret headers say.
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

    /// The servers that may run on this machine: name, base URL and headers. One whose address is no address is left out:
    /// asking it will say what is wrong.
    pub(crate) fn local_servers(&self) -> impl Iterator<Item = (&str, String, Vec<ExtraHeader>)> {
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
        let warning = configured.warning(&reference.model, self.folder.as_deref());
        Ok(ResolvedModel { provider, info, warning })
    }

    fn default_of(&self, provider: &str) -> Option<ModelRef> {
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

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
