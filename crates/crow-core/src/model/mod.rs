//! Models and the providers that serve them.
//!
//! A [`Provider`] gives a [`Conversation`] per session. The conversation caches the wire bytes of every message it
//! has seen and turns each [`ModelRequest`] into a stream of [`ModelEvent`]s.

mod error;
mod info;
mod provider;

pub use error::{ProviderError, ProviderErrorKind};
pub use info::{
    Abilities, ModelConfig, ModelInfo, ModelRef, ModelRefError, Price, Thinking, ToolCallFormat,
};
pub use provider::{
    Conversation, ModelEvent, ModelReply, ModelRequest, ModelStream, Models, ModelsError, NoModels,
    Provider, RateLimitWait, ResolvedModel, Retry, StopReason, TextCallNotes, ToolChoice,
    ToolDefinition, WindowAnswer,
};
