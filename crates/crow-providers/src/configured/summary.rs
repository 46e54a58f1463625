//! What is known of a provider and its models without a request: for lists, prices and warnings.

use std::path::Path;

use crow_core::model::{Abilities, ModelInfo, ModelRef, Price, ToolCallFormat};

use super::configured_provider::{ConfiguredProvider, redact_base_url};
use crate::{
    catalogue::{KnownModel, Vendor},
    config::{KeyLookup, ModelSettings, PriceSettings},
    dialect::Dialect,
    http::is_loopback,
    route::RouteTarget,
    secret::Sources,
};

/// The keys of a model's settings, with the units of their values.
const WINDOW_KEY: &str = "context_window = TOKENS";
const PRICE_KEY: &str = "price = { input = USD, output = USD } per million tokens";

/// Returns true if the server is one for models on this machine: it is asked for the window of the model.
fn is_asked_for_window(provider: &ConfiguredProvider, sources: &Sources) -> bool {
    let url = provider.base_url(sources).ok().and_then(|url| url.parse().ok());
    provider.vendor() == Vendor::Local && url.is_some_and(|url| is_loopback(&url))
}

/// A provider as the `models` command shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSummary {
    /// The part of a model reference before the slash.
    pub name: String,
    /// The provider with the same models, if this one is called with the same key in another wire format.
    pub same_as: Option<String>,
    /// The wire format.
    pub dialect: &'static str,
    /// The base URL without any secret, or the reason why it is invalid.
    pub base_url: Result<String, String>,
    /// State of its key.
    pub credentials: CredentialStatus,
    /// Model used if the user names none.
    pub default_model: Option<String>,
    /// Models that are known without a request.
    pub models: Vec<ModelSummary>,
}

/// State of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialStatus {
    /// There is a key, and it can be sent.
    Present,
    /// There is a stored key for the origin that requests go to.
    Stored,
    /// No key is needed.
    NotNeeded,
    /// A key is needed, but this variable does not contain one.
    Missing {
        /// The variable.
        variable: String,
    },
    /// There is a key that cannot be sent, or the store cannot be read.
    Unusable {
        /// The reason.
        reason: String,
    },
}

/// A model that is known without a request to its provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSummary {
    /// Its properties.
    pub info: ModelInfo,
    /// Its price, if known.
    pub price: Option<Price>,
}

impl ConfiguredProvider {
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
            tool_calls: settings.and_then(|settings| settings.tool_calls),
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
    pub(crate) fn warning(
        &self,
        model: &str,
        sources: &Sources,
        folder: Option<&Path>,
    ) -> Option<String> {
        let reference = ModelRef { provider: self.config.name.clone(), model: model.to_owned() };
        let lacks_window =
            self.info(&reference).context_window.is_none() && !is_asked_for_window(self, sources);
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

fn with_settings(abilities: Abilities, settings: &ModelSettings) -> Abilities {
    Abilities {
        // Every model can call tools in text.
        tools: matches!(
            settings.tool_calls,
            Some(ToolCallFormat::Text | ToolCallFormat::CodeBlocks)
        ) || settings.tools.unwrap_or(abilities.tools),
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
