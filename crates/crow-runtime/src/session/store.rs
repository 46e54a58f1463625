//! The interface of session stores.

use std::{fmt, path::PathBuf};

use crow_core::{event::Envelope, ids::SessionId};
use jiff::Timestamp;

use super::{Damage, SessionError, SessionMetadata, UndoRecord};

/// The only writer of a session's log.
pub trait SessionLog: Send + fmt::Debug {
    /// Appends one event. When it returns, the event survives the end of this process.
    fn append(&mut self, event: &Envelope) -> Result<(), SessionError>;

    /// Replaces the session header.
    fn save_metadata(&mut self, metadata: &SessionMetadata) -> Result<(), SessionError>;

    /// Returns the events read when the session was opened, provided none was damaged, as a cache for the next reader.
    /// The cache is valid until a run begins.
    fn cache_events(&mut self, events: Vec<Envelope>);

    /// Returns a job that makes everything appended so far survive a power cut, or `None` if there is nothing to do.
    /// The job blocks and may run concurrently with further appends.
    fn sync(&mut self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>>;
}

/// A session as read from a store.
#[derive(Debug)]
pub struct StoredSession {
    /// The header.
    pub metadata: SessionMetadata,
    /// The events. Lost lines are replaced by notices, and events that depend on them are mended: every call has a
    /// reply and a result.
    pub events: Vec<Envelope>,
    /// The damage on disk.
    pub damage: Damage,
}

/// The outcome of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionRepair {
    /// The damage that was repaired.
    pub damage: Damage,
    /// Paths of the copies of the damaged files.
    pub copies: Vec<PathBuf>,
}

/// A session open for writing.
#[derive(Debug)]
pub struct OpenedSession {
    /// Its content.
    pub stored: StoredSession,
    /// The writer of its log.
    pub log: Box<dyn SessionLog>,
    /// Number of bytes of a torn last line that were cut off and saved elsewhere.
    pub torn_bytes: usize,
}

/// Selects the sessions of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only sessions with this working directory.
    pub cwd: Option<PathBuf>,
    /// Maximum number of sessions.
    pub limit: Option<usize>,
    /// Only sessions after this position, which is that of the last one of the previous page.
    pub after: Option<ListCursor>,
    /// Treatment of sessions without user input.
    pub unused: UnusedSessions,
}

/// Treatment of sessions without user input in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnusedSessions {
    /// Listed like any other.
    #[default]
    Listed,
    /// Left out. Those that no process has open are removed: they belong to a program that was killed.
    LeftOut,
}

/// The position of a session in a list, which is in descending order: newest update first, and on equal times the
/// highest id first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    /// Time of the last update.
    pub updated_at: Timestamp,
    /// The session.
    pub id: SessionId,
}

impl ListCursor {
    /// Returns the position of a session.
    pub fn of_session(metadata: &SessionMetadata) -> Self {
        Self { updated_at: metadata.updated_at, id: metadata.session_id.clone() }
    }
}

impl SessionFilter {
    /// Returns true if `place` comes after the position where the list starts.
    pub(super) fn is_after_cursor(&self, place: &ListCursor) -> bool {
        self.after.as_ref().is_none_or(|after| place < after)
    }

    /// Returns the first sessions that match.
    pub(super) fn apply(
        &self,
        sessions: impl Iterator<Item = SessionMetadata>,
    ) -> Vec<SessionMetadata> {
        let fits = |metadata: &SessionMetadata| {
            self.cwd.as_ref().is_none_or(|cwd| metadata.crow().cwd == *cwd)
                && (self.unused == UnusedSessions::Listed || !metadata.is_unused())
        };
        sessions.filter(fits).take(self.limit.unwrap_or(usize::MAX)).collect()
    }
}

/// Stores sessions. All methods block.
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Creates a new session.
    fn create(&self, metadata: &SessionMetadata) -> Result<Box<dyn SessionLog>, SessionError>;

    /// Adds a session with these events. After a crash it is there with all of them, or not at all.
    fn add(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError>;

    /// Replaces a session that is not in use by another one of its id. If it cannot be written, the old one stays.
    fn replace(&self, metadata: &SessionMetadata, events: &[Envelope]) -> Result<(), SessionError>;

    /// Opens a session as its only writer and cuts off a torn last line.
    fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError>;

    /// Reads a session, also while another process writes it. Of a damaged session the readable parts are returned.
    fn read(&self, id: &SessionId) -> Result<StoredSession, SessionError>;

    /// Reads only the header of a session; the result equals that of [`read`](Self::read).
    fn header(&self, id: &SessionId) -> Result<SessionMetadata, SessionError>;

    /// Rewrites a damaged session from its readable parts and keeps copies of the damaged files next to it. Fails while
    /// it is in use.
    fn repair(&self, id: &SessionId) -> Result<SessionRepair, SessionError>;

    /// Returns the headers of root sessions in the order of [`ListCursor`]. A header rebuilt from the log because the
    /// stored one is lost or damaged has `rebuilt` set and may lack its children.
    fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionMetadata>, SessionError>;

    /// Removes a session and its children. Fails while one of them is in use.
    fn remove(&self, id: &SessionId) -> Result<(), SessionError>;

    /// Returns the one session whose id equals `prefix` or begins with it.
    fn find(&self, prefix: &str) -> Result<SessionId, SessionError>;

    /// Appends an undo record. The session may be in use. When this returns, the record is on disk.
    fn add_undo(&self, id: &SessionId, record: &UndoRecord) -> Result<(), SessionError>;

    /// Returns the undo records of a session, oldest first. The session may be in use.
    fn undos(&self, id: &SessionId) -> Result<Vec<UndoRecord>, SessionError>;

    /// Returns a number that grows with every undo record; 0 before the first one. Cheap.
    fn undo_mark(&self, id: &SessionId) -> Result<u64, SessionError>;

    /// Returns true if a session is in use, in this process or another one.
    fn is_in_use(&self, id: &SessionId) -> Result<bool, SessionError>;

    /// Returns the folder for outputs too long for the model, if the store has one. It may not exist yet.
    fn scratch(&self, id: &SessionId) -> Option<PathBuf>;
}
