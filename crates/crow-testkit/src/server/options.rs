//! How a server is set up.

use super::check::ServerChecks;
use crate::wire::{ChatFlavour, Pieces};

/// The settings of a server; the default checks everything.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// What requests are checked for.
    pub checks: ServerChecks,
    /// The ids that `GET /v1/models` lists.
    pub models: Vec<String>,
    /// How texts are cut into deltas.
    pub pieces: Pieces,
    /// Which speaker of the Chat dialect is imitated.
    pub chat: ChatFlavour,
    /// Where the reported prompt usage comes from.
    pub usage: UsageSource,
    /// How chunks reach the socket.
    pub delivery: Delivery,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            checks: ServerChecks::default(),
            models: vec!["test-model".to_owned()],
            pieces: Pieces::default(),
            chat: ChatFlavour::default(),
            usage: UsageSource::default(),
            delivery: Delivery::default(),
        }
    }
}

/// Where the reported prompt usage comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageSource {
    /// The reply says it.
    #[default]
    Scripted,
    /// The server counts the prompt and keeps a prompt cache by the vendor's rules (Anthropic: what is marked; elsewhere
    /// any common prefix; nothing under 1024 tokens). A token is four bytes. Output is as scripted.
    Measured,
}

/// How chunks reach the socket; the HTTP chunks are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// One write for each chunk, as a service that generates does.
    #[default]
    Each,
    /// One write for all chunks up to a wait: the least overhead, for benchmarks; together with
    /// [`ScriptStep::Raw`](super::ScriptStep::Raw) and frames rendered beforehand nothing is computed per request but the checks.
    Together,
}
