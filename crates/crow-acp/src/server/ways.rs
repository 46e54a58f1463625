//! The ways to a client: one for all that it is told, or one for each session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::wire::ClientWire;

/// The ways to a client.
#[derive(Debug)]
pub(super) enum Ways {
    /// Standard streams and WebSocket.
    One(Arc<ClientWire>),
    /// A stream of events for each session, by its id.
    OfSessions(Mutex<HashMap<String, Arc<ClientWire>>>),
}

impl Ways {
    /// Makes the ways of a client that opens a stream for each session.
    pub(super) fn of_sessions() -> Self {
        Self::OfSessions(Mutex::default())
    }

    /// Returns the way on which the updates of a session go.
    pub(super) fn of(&self, session: &str) -> Arc<ClientWire> {
        match self {
            Self::One(wire) => Arc::clone(wire),
            Self::OfSessions(wires) => {
                let mut wires = wires.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(wire) = wires.get(session) {
                    return Arc::clone(wire);
                }
                Arc::clone(wires.entry(session.to_owned()).or_default())
            }
        }
    }

    /// Forgets what waits for a session that is closed: its next stream is a new one, and what was not taken is lost.
    pub(super) fn forget(&self, session: &str) {
        match self {
            Self::One(_) => {}
            Self::OfSessions(wires) => {
                wires.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
            }
        }
    }
}
