//! Models and the providers that serve them.
//!
//! A [`Provider`] gives a [`Conversation`] per session. The conversation caches the wire bytes of every message it
//! has seen and turns each [`ModelRequest`] into a stream of [`ModelEvent`]s.

mod error;
mod info;
mod provider;
mod reply;

pub use error::{ProviderError, ProviderErrorKind};
pub use info::{
    Abilities, ModelConfig, ModelInfo, ModelRef, ModelRefError, Price, Thinking, ToolCallFormat,
};
pub use provider::{
    Conversation, ModelRequest, ModelStream, Models, ModelsError, NoModels, Provider,
    ResolvedModel, ToolChoice, ToolDefinition, WindowAnswer,
};
pub use reply::{ModelEvent, ModelReply, RateLimitWait, Retry, StopReason, TextCallNotes};
