//! Sessions that are lost when the process ends.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{event::Envelope, ids::SessionId};

use super::{
    Damage, ListCursor, OpenedSession, SessionError, SessionFilter, SessionLog, SessionMetadata,
    SessionRepair, SessionStore, StoredSession, UndoRecord,
};

/// A session store in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    sessions: Arc<Mutex<BTreeMap<SessionId, MemorySession>>>,
}

#[derive(Debug)]
struct MemorySession {
    metadata: SessionMetadata,
    events: Vec<Envelope>,
    undos: Vec<UndoRecord>,
    in_use: bool,
}

impl MemorySession {
    fn stored(&self) -> StoredSession {
        StoredSession {
            metadata: self.metadata.clone(),
            events: self.events.clone(),
            damage: Damage::default(),
        }
    }
}

/// The writer of a session; releases it when dropped.
#[derive(Debug)]
struct MemoryLog {
    id: SessionId,
    store: MemoryStore,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, MemorySession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, id: &SessionId) -> Box<dyn SessionLog> {
        Box::new(MemoryLog { id: id.clone(), store: self.clone() })
    }
}

impl SessionStore for MemoryStore {
    fn create(&self, metadata: &SessionMetadata) -> Result<Box<dyn SessionLog>, SessionError> {
        let id = &metadata.session_id;
        let mut sessions = self.lock();
        if sessions.contains_key(id) {
            return Err(SessionError::Exists { id: id.clone() });
        }
        sessions.insert(
            id.clone(),
            MemorySession {
                metadata: metadata.clone(),
                events: Vec::new(),
                undos: Vec::new(),
                in_use: true,
            },
        );
        Ok(self.log(id))
    }

    fn add(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError> {
        let mut log = self.create(metadata)?;
        events.iter().try_for_each(|event| log.append(event))
    }

    fn replace(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError> {
        self.remove(&metadata.session_id)?;
        self.add(metadata, events)
    }

    fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError> {
        let mut sessions = self.lock();
        let session =
            sessions.get_mut(id).ok_or_else(|| SessionError::Unknown { id: id.to_string() })?;
        if session.in_use {
            return Err(SessionError::Locked { id: id.clone(), pid: Some(std::process::id()) });
        }
        session.in_use = true;
        let stored = session.stored();
        Ok(OpenedSession { stored, log: self.log(id), torn_bytes: 0 })
    }

    fn read(&self, id: &SessionId) -> Result<StoredSession, SessionError> {
        let sessions = self.lock();
        let session =
            sessions.get(id).ok_or_else(|| SessionError::Unknown { id: id.to_string() })?;
        Ok(session.stored())
    }

    fn header(&self, id: &SessionId) -> Result<SessionMetadata, SessionError> {
        let sessions = self.lock();
        let session =
            sessions.get(id).ok_or_else(|| SessionError::Unknown { id: id.to_string() })?;
        Ok(session.metadata.clone())
    }

    fn repair(&self, id: &SessionId) -> Result<SessionRepair, SessionError> {
        // Sessions in memory are never damaged.
        self.read(id).map(|_| SessionRepair::default())
    }

    fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionMetadata>, SessionError> {
        let sessions = self.lock();
        let roots = sessions
            .values()
            .map(|session| &session.metadata)
            .filter(|metadata| metadata.parent_session_id.is_none())
            .filter(|metadata| filter.is_after_cursor(&ListCursor::of_session(metadata)));
        let mut list: Vec<_> = roots.cloned().collect();
        list.sort_by_key(|metadata| std::cmp::Reverse(ListCursor::of_session(metadata)));
        Ok(filter.apply(list.into_iter()))
    }

    fn remove(&self, id: &SessionId) -> Result<(), SessionError> {
        let mut sessions = self.lock();
        let session =
            sessions.get(id).ok_or_else(|| SessionError::Unknown { id: id.to_string() })?;
        if session.in_use {
            return Err(SessionError::Locked { id: id.clone(), pid: Some(std::process::id()) });
        }
        sessions.retain(|other, session| other != id && session.metadata.crow().root_id != *id);
        Ok(())
    }

    fn find(&self, prefix: &str) -> Result<SessionId, SessionError> {
        let sessions = self.lock();
        super::file::resolve_prefix(prefix, sessions.keys().cloned())
    }

    fn add_undo(&self, id: &SessionId, record: &UndoRecord) -> Result<(), SessionError> {
        match self.lock().get_mut(id) {
            Some(session) => session.undos.push(record.clone()),
            None => return Err(SessionError::Unknown { id: id.to_string() }),
        }
        Ok(())
    }

    fn undos(&self, id: &SessionId) -> Result<Vec<UndoRecord>, SessionError> {
        let sessions = self.lock();
        let session =
            sessions.get(id).ok_or_else(|| SessionError::Unknown { id: id.to_string() })?;
        Ok(session.undos.clone())
    }

    fn undo_mark(&self, id: &SessionId) -> Result<u64, SessionError> {
        Ok(self.lock().get(id).map_or(0, |session| session.undos.len() as u64))
    }

    fn is_in_use(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.lock().get(id).is_some_and(|session| session.in_use))
    }

    fn scratch(&self, _id: &SessionId) -> Option<PathBuf> {
        None
    }
}

impl SessionLog for MemoryLog {
    fn append(&mut self, event: &Envelope) -> Result<(), SessionError> {
        match self.store.lock().get_mut(&self.id) {
            Some(session) => session.events.push(event.clone()),
            None => return Err(SessionError::Unknown { id: self.id.to_string() }),
        }
        Ok(())
    }

    fn save_metadata(&mut self, metadata: &SessionMetadata) -> Result<(), SessionError> {
        match self.store.lock().get_mut(&self.id) {
            Some(session) => session.metadata = metadata.clone(),
            None => return Err(SessionError::Unknown { id: self.id.to_string() }),
        }
        Ok(())
    }

    fn cache_events(&mut self, _events: Vec<Envelope>) {}

    fn sync(&mut self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>> {
        None
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        if let Some(session) = self.store.lock().get_mut(&self.id) {
            session.in_use = false;
        }
    }
}
