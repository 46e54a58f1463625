//! Providers and their models as lists show them.

use crow_core::model::{ModelInfo, Price};

/// A provider as the `models` command shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSummary {
    /// What stands before the slash in a model reference.
    pub name: String,
    /// The provider whose models it has, where it is called with the same key in another wire format.
    pub same_as: Option<String>,
    /// The wire format.
    pub dialect: &'static str,
    /// The address, or what is wrong with it. Without any secret.
    pub base_url: Result<String, String>,
    /// Whether its key is there.
    pub credentials: CredentialStatus,
    /// The model that is asked when nobody names one.
    pub default_model: Option<String>,
    /// The models that are known without asking it.
    pub models: Vec<ModelSummary>,
}

/// Whether a provider's key is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialStatus {
    /// It is, and can be sent.
    Present,
    /// It is kept for the place that requests go to.
    Stored,
    /// None is needed.
    NotNeeded,
    /// It is looked for here, and is not there.
    Missing {
        /// The variable.
        variable: String,
    },
    /// What is there cannot be sent.
    Unusable {
        /// Why.
        reason: String,
    },
}

/// A model that is known without asking its provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSummary {
    /// What is known about it.
    pub info: ModelInfo,
    /// What it costs.
    pub price: Option<Price>,
}
