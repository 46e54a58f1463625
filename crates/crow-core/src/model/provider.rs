//! The interface between the loops and the services that serve models: requests, replies and the events of their streams.

use std::{fmt, future::ready, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_core::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ModelConfig, ModelInfo, ModelRef, Price, ProviderError};
use crate::{
    ids::SessionId,
    message::{Message, Origin, ReplyBlock, ToolCall, calls_of},
    usage::TokenUsage,
};

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

/// The constraint on tool calls in a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// It may call tools.
    #[default]
    Auto,
    /// It may not call tools. They stay in the request, so that the provider's cache remains valid.
    None,
    /// It must call some tool.
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
    /// The complete history. Every call in it has its result.
    pub messages: &'a [Arc<Message>],
    /// Sampling and thinking settings.
    pub config: &'a ModelConfig,
    /// The constraint on tool calls.
    pub tool_choice: ToolChoice<'a>,
}

/// The items of a reply. Ends after [`ModelEvent::Completed`] or an error; dropping it ends the request.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ProviderError>> + Send>>;

/// The conversation of one session with one model.
///
/// Caches the wire bytes of each message by its id: a message never changes once it was sent.
pub trait Conversation: Send {
    /// Sends a request. Retries happen inside and are reported as [`ModelEvent::Retrying`].
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream;
}

/// The answer of [`Provider::context_window`].
pub type WindowAnswer<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

/// A service that serves models.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Returns the name in the configuration.
    fn name(&self) -> &str;

    /// Starts a conversation with a model. The session id serves as the provider's cache key.
    fn conversation(&self, model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation>;

    /// Asks a server on this machine for the context window that it runs a model with, in tokens. `None` if it does not
    /// say, and for other servers. Takes less than half a second.
    fn context_window<'a>(&'a self, _model: &'a ModelInfo) -> WindowAnswer<'a> {
        Box::pin(ready(None))
    }
}

/// A model that is ready for requests.
#[derive(Debug, Clone)]
pub struct ResolvedModel {
    /// The provider that serves it.
    pub provider: Arc<dyn Provider>,
    /// Facts about it.
    pub info: ModelInfo,
    /// A warning for the user, such as that price and window are unknown.
    pub warning: Option<String>,
}

/// Error of resolving a model reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// There is no provider of this name.
    #[error("unknown provider \"{name}\"{}; known are {}", .nearest.as_ref().map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default(), .known.join(", "))]
    UnknownProvider {
        /// The name as given.
        name: String,
        /// The most similar known name, if similar enough.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// There is no key for the provider.
    #[error("no credentials for {provider}: set {variable}")]
    NoCredentials {
        /// The provider.
        provider: String,
        /// The environment variable of the key.
        variable: String,
    },
    /// The provider cannot be used as configured.
    #[error("provider {provider} cannot be used: {reason}")]
    Unusable {
        /// The provider.
        provider: String,
        /// The reason.
        reason: String,
    },
    /// The runtime was given no models.
    #[error("no models are configured")]
    NoneConfigured,
}

/// Resolves model references.
#[async_trait]
pub trait Models: Send + Sync + fmt::Debug {
    /// Returns the model with its provider. Makes no request.
    async fn resolve(&self, reference: &ModelRef) -> Result<ResolvedModel, ModelsError>;

    /// Returns the default model of a provider. Makes no request.
    fn provider_default_model(&self, _provider: &str) -> Option<ModelRef> {
        None
    }

    /// Returns the price of a model, if known. May read files; not needed before the first request.
    async fn price(&self, reference: &ModelRef) -> Option<Price>;
}

/// Models of a runtime that was given none: every reference is an error.
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

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// It reached the limit of output tokens. The last call, if any, may be cut.
    MaxTokens,
    /// It came upon a stop sequence.
    StopSequence,
    /// It refused, or a filter stopped it.
    Refusal,
    /// The provider paused a long turn; sending the same history goes on.
    Pause,
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// The blocks in the order in which they came.
    pub blocks: Vec<ReplyBlock>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The tokens that it used.
    pub usage: TokenUsage,
    /// Its origin.
    pub origin: Origin,
    /// The provider's id of the reply.
    pub response_id: Option<String>,
    /// Findings about calls that the model wrote as text.
    pub text_calls: TextCallNotes,
}

/// Notes for the model about tool calls that it wrote as text. Empty for a reply with native calls or plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextCallNotes {
    /// What was unusual about the calls that were read from the text; they are among the blocks of the reply.
    pub repair: Option<String>,
    /// The reason why something in the text that begins like a call was not run, and how to call. It stays text.
    pub unread: Option<String>,
}

impl ModelReply {
    /// Returns the tool calls in the order in which the model asked for them.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        calls_of(&self.blocks)
    }
}

/// A retry of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The error that caused it.
    pub error: ProviderError,
    /// Number of the next attempt; the first retry is 1.
    pub attempt: u32,
    /// Time until that attempt.
    pub wait: Duration,
}

/// The wait of a request for the rate limits of its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitWait {
    /// The limit that it waits for.
    pub reason: String,
    /// Remaining time, if known.
    pub wait: Option<Duration>,
}

/// One item of a reply's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text.
    TextDelta(String),
    /// More readable reasoning.
    ThinkingDelta(String),
    /// A call begins; its arguments are still to come.
    CallStarted {
        /// The name that the model calls; empty if it is not known yet.
        name: String,
    },
    /// The service accepted the request, and its answer begins.
    Accepted {
        /// Length of the request's body in bytes.
        request_bytes: u64,
    },
    /// The request waits and was not sent yet.
    Waiting(RateLimitWait),
    /// The user should know this of the request. It goes on.
    Warning(String),
    /// The items so far are void; the request is sent again.
    Retrying(Retry),
    /// The reply is complete. Always the last item.
    Completed(ModelReply),
}
