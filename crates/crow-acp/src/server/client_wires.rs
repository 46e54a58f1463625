//! Flow control of the updates to a client: one [`ClientWire`] for the connection, or one for each session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::wire::ClientWire;

/// The [`ClientWire`]s of a connection.
#[derive(Debug)]
pub(super) enum ClientWires {
    /// One for all sessions: standard streams and WebSocket.
    Shared(Arc<ClientWire>),
    /// One for each session, by its id: over HTTP every session has its own stream of server-sent events.
    PerSession(Mutex<HashMap<String, Arc<ClientWire>>>),
}

impl ClientWires {
    /// Creates the wires of a client that opens a stream for each session.
    pub(super) fn of_sessions() -> Self {
        Self::PerSession(Mutex::default())
    }

    /// Returns the wire that carries the updates of a session.
    pub(super) fn wire_of(&self, session: &str) -> Arc<ClientWire> {
        match self {
            Self::Shared(wire) => Arc::clone(wire),
            Self::PerSession(wires) => {
                let mut wires = wires.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(wire) = wires.get(session) {
                    return Arc::clone(wire);
                }
                Arc::clone(wires.entry(session.to_owned()).or_default())
            }
        }
    }

    /// Drops the wire of a closed session: its next stream is a new one, and updates that were not read are lost.
    pub(super) fn remove(&self, session: &str) {
        match self {
            Self::Shared(_) => {}
            Self::PerSession(wires) => {
                wires.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
            }
        }
    }
}
