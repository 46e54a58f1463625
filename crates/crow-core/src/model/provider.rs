//! The seam between the loops and the services that serve models.

use std::{fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures_core::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ModelConfig, ModelEvent, ModelInfo, ModelRef, Price, ProviderError};
use crate::{ids::SessionId, message::Message};

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDefinition {
    /// The name to call.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Whether the model may call tools in this reply, or must.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// As it likes.
    #[default]
    Auto,
    /// Not at all. The tools stay in the request, so that the provider's cache holds.
    None,
    /// It must call a tool, whichever.
    Any,
    /// It must call the tool of this name.
    Tool(&'a str),
}

/// One request to a model.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The tools, sorted by name.
    pub tools: &'a [ToolDefinition],
    /// The whole history. Every call in it has its result.
    pub messages: &'a [Arc<Message>],
    /// How the model is asked.
    pub config: &'a ModelConfig,
    /// Whether it may call tools.
    pub tool_choice: ToolChoice<'a>,
}

/// The items of a reply. Ends after [`ModelEvent::Completed`] or an error; dropping it ends the request.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ProviderError>> + Send>>;

/// One session's talk with one model.
///
/// It caches the wire bytes of each message by the message's id: a message never changes once it was sent.
pub trait Conversation: Send {
    /// Sends a request. Retries happen inside and show as [`ModelEvent::Retrying`].
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream;
}

/// A service that serves models.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Returns the name in the configuration.
    fn name(&self) -> &str;

    /// Starts a session's talk with a model. The session id serves as the provider's cache key.
    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation>;
}

/// A model that can be asked.
#[derive(Debug, Clone)]
pub struct ResolvedModel {
    /// Who serves it.
    pub provider: Arc<dyn Provider>,
    /// What is known about it.
    pub info: ModelInfo,
    /// What the caller should tell the user, such as that price and window are unknown.
    pub warning: Option<String>,
}

/// Why a model reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// The provider's name is not known.
    #[error("unknown provider \"{name}\"{}; known are {}", .nearest.as_ref().map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default(), .known.join(", "))]
    UnknownProvider {
        /// The name as given.
        name: String,
        /// A known name that is much like it.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// The provider's key is not there.
    #[error("no credentials for {provider}: set {variable}")]
    NoCredentials {
        /// The provider.
        provider: String,
        /// Where the key is looked for.
        variable: String,
    },
    /// The provider cannot be used as configured.
    #[error("provider {provider} cannot be used: {reason}")]
    Unusable {
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
    /// No models were given to the runtime.
    #[error("no models are configured")]
    NoneConfigured,
}

/// Turns model references into models that can be asked.
#[async_trait]
pub trait Models: Send + Sync + fmt::Debug {
    /// Finds the provider and what is known about the model. Makes no request.
    async fn resolve(&self, reference: &ModelRef) -> Result<ResolvedModel, ModelsError>;

    /// Returns the model of a provider that is asked where none is named. Makes no request.
    fn default_of(&self, _provider: &str) -> Option<ModelRef> {
        None
    }

    /// Looks up what a model costs. May read files; not needed before the first request.
    async fn price(&self, reference: &ModelRef) -> Option<Price>;
}

/// Models for a runtime that was given none: every reference is an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModels;

#[async_trait]
impl Models for NoModels {
    async fn resolve(&self, _reference: &ModelRef) -> Result<ResolvedModel, ModelsError> {
        Err(ModelsError::NoneConfigured)
    }

    async fn price(&self, _reference: &ModelRef) -> Option<Price> {
        None
    }
}
