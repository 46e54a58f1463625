//! Summaries of providers and their models for lists.

use crow_core::model::{ModelInfo, Price};

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
