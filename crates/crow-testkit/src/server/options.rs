//! Settings of a server.

use super::check::ServerChecks;
use crate::wire::{ChatFlavour, DeltaSize};

/// Settings of a server; by default everything is checked.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Checks of requests.
    pub checks: ServerChecks,
    /// Model ids that `GET /v1/models` lists.
    pub models: Vec<String>,
    /// The only key with which the list of models is sent; without one, anybody gets it.
    pub key: Option<String>,
    /// Size of the deltas of texts.
    pub pieces: DeltaSize,
    /// Variant of the Chat dialect.
    pub chat: ChatFlavour,
    /// Source of the reported prompt usage.
    pub usage: UsageSource,
    /// Writing of chunks to the socket.
    pub delivery: Delivery,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            checks: ServerChecks::default(),
            models: vec!["test-model".to_owned()],
            key: None,
            pieces: DeltaSize::default(),
            chat: ChatFlavour::default(),
            usage: UsageSource::default(),
            delivery: Delivery::default(),
        }
    }
}

/// Source of the reported prompt usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageSource {
    /// The usage of the scripted reply.
    #[default]
    Scripted,
    /// The server counts the prompt and simulates a prompt cache by the vendor's rules (Anthropic: marked prefixes;
    /// elsewhere any common prefix; nothing under 1024 tokens). A token is four bytes. Output is as scripted.
    Measured,
}

/// Writing of chunks to the socket; the HTTP chunks are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// One write for each chunk, as a generating service does.
    #[default]
    Each,
    /// One write for all chunks up to a wait, which has the least overhead, for benchmarks. Together with
    /// [`ScriptStep::Raw`](super::ScriptStep::Raw) and pre-rendered frames, only the checks are computed per request.
    Together,
}
