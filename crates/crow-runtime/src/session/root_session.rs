//! State shared by the sessions of one root.

use std::sync::{Arc, Mutex, PoisonError};

use crow_core::ids::SessionId;

/// The root as seen by all sessions below it: its id, and the shared counter of durable events.
#[derive(Debug, Clone)]
pub struct RootSession {
    id: SessionId,
    last_seq: Arc<Mutex<u64>>,
}

impl RootSession {
    pub(crate) fn new(id: SessionId, last_seq: u64) -> Self {
        Self { id, last_seq: Arc::new(Mutex::new(last_seq)) }
    }

    /// Returns the id of the root session, which users see.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs `work` with the number of the last durable event, while the counter is locked.
    pub(crate) fn with_last_seq<T>(&self, work: impl FnOnce(u64) -> T) -> T {
        work(*self.last_seq.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Assigns the next number to an event. The number is consumed only if `write` succeeds; the counter is locked
    /// meanwhile.
    pub(crate) fn with_next_seq<T, E>(
        &self,
        write: impl FnOnce(u64) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut last = self.last_seq.lock().unwrap_or_else(PoisonError::into_inner);
        let output = write(*last + 1)?;
        *last += 1;
        Ok(output)
    }
}
