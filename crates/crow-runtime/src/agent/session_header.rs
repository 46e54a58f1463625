//! The header of an open session, which lists and other programs read instead of the log.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use crow_core::{event::ParentCall, ids::SessionId};
use serde_json::Value;

use super::recorder::Recorder;
use crate::{
    OpenedWith,
    session::{SessionError, SessionMetadata},
};

/// The header of the session of a running agent. Each change is written to the store.
#[derive(Debug)]
pub struct SessionHeader {
    metadata: Mutex<SessionMetadata>,
    /// Dangling once the agent has ended: the session is free then.
    recorder: Weak<Recorder>,
}

impl SessionHeader {
    pub(super) fn new(metadata: SessionMetadata, recorder: Weak<Recorder>) -> Self {
        Self { metadata: Mutex::new(metadata), recorder }
    }

    /// Locks the header in memory.
    pub(super) fn lock(&self) -> MutexGuard<'_, SessionMetadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the header and writes it. Fails with [`SessionError::Closed`] once the agent has ended.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut SessionMetadata) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        // Written under the lock, so that of two changes the later one is written last.
        let mut metadata = self.lock();
        let Some(recorder) = self.recorder.upgrade() else {
            return Err(SessionError::Closed { id: metadata.session_id.clone() });
        };
        change(&mut metadata)?;
        recorder.save_metadata(&metadata)
    }

    /// Sets the title of the session. Blocks.
    pub fn set_title(&self, title: &str) -> Result<(), SessionError> {
        self.change(|metadata| {
            let mut crow = metadata.crow();
            title.clone_into(&mut crow.title);
            metadata.set_crow(&crow);
            Ok(())
        })
    }

    /// Stores the agent and choices to reopen the session with. Blocks.
    pub fn set_opened_with(&self, with: OpenedWith) -> Result<(), SessionError> {
        self.change(|metadata| {
            let mut crow = metadata.crow();
            crow.set_opened_with(with);
            metadata.set_crow(&crow);
            Ok(())
        })
    }

    /// Stores a value of the embedding program. Blocks.
    pub fn set_value(&self, key: &str, value: Value) -> Result<(), SessionError> {
        self.change(|metadata| Ok(metadata.set(key, value)?))
    }

    /// Returns the call that started the session, for a child.
    pub fn parent(&self) -> Option<ParentCall> {
        self.lock().parent()
    }

    /// Returns the ids of the child sessions.
    pub fn children(&self) -> Vec<SessionId> {
        self.lock().child_session_ids.clone()
    }
}
