//! How a server is set up.

use super::check::Checks;
use crate::wire::{ChatFlavour, Pieces};

/// The settings of a server; the default checks everything.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// What requests are checked for.
    pub checks: Checks,
    /// The ids that `GET /v1/models` lists.
    pub models: Vec<String>,
    /// How texts are cut into deltas.
    pub pieces: Pieces,
    /// Which speaker of the Chat dialect is imitated.
    pub chat: ChatFlavour,
    /// How chunks reach the socket.
    pub delivery: Delivery,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            checks: Checks::default(),
            models: vec!["test-model".to_owned()],
            pieces: Pieces::default(),
            chat: ChatFlavour::default(),
            delivery: Delivery::default(),
        }
    }
}

/// How chunks reach the socket; the HTTP chunks are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// One write for each chunk, as a service that generates does.
    #[default]
    Each,
    /// One write for all chunks up to a wait: the least overhead, for benchmarks.
    Together,
}
