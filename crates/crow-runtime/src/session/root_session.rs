//! What the sessions of one root share.

use std::sync::{Arc, Mutex, PoisonError};

use crow_core::ids::SessionId;

/// The root session as all sessions below it know it: its id, and the one count of durable events.
#[derive(Debug, Clone)]
pub struct RootSession {
    id: SessionId,
    last_seq: Arc<Mutex<u64>>,
}

impl RootSession {
    pub(crate) fn new(id: SessionId, last_seq: u64) -> Self {
        Self { id, last_seq: Arc::new(Mutex::new(last_seq)) }
    }

    /// Returns the id that the user knows.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Does something between two durable events, with the number of the last one.
    pub(crate) fn between<T>(&self, work: impl FnOnce(u64) -> T) -> T {
        work(*self.last_seq.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Numbers an event. The number is taken only if `write` succeeds, and no other event is written meanwhile.
    pub(crate) fn number<T, E>(&self, write: impl FnOnce(u64) -> Result<T, E>) -> Result<T, E> {
        let mut last = self.last_seq.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write(*last + 1)?;
        *last += 1;
        Ok(written)
    }
}
