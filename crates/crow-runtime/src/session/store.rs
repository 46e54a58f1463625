//! Where sessions are kept.

use std::{fmt, path::PathBuf};

use crow_core::{event::Envelope, ids::SessionId};
use jiff::Timestamp;

use super::{Damage, SessionError, SessionMetadata};
use crate::undo::UndoRecord;

/// The one writer of a session's log.
pub trait SessionLog: Send + fmt::Debug {
    /// Writes one event. When it returns, the event outlives this process.
    fn append(&mut self, event: &Envelope) -> Result<(), SessionError>;

    /// Writes the header.
    fn save_metadata(&mut self, metadata: &SessionMetadata) -> Result<(), SessionError>;

    /// Takes the events back that the session held when it was opened, if all of it was whole. Whoever reads the session
    /// next, before a run begins, need not read them again.
    fn give_back(&mut self, events: Vec<Envelope>);

    /// Returns work that makes everything appended so far outlive a power cut, or none if there is nothing to do. It
    /// blocks and may run beside further appends.
    fn sync(&mut self) -> Option<Box<dyn FnOnce() -> Result<(), SessionError> + Send>>;
}

/// A session that was read.
#[derive(Debug)]
pub struct StoredSession {
    /// The header.
    pub metadata: SessionMetadata,
    /// The log. Where lines of it are lost, notices say so, and what they break is mended: every call has a reply and a
    /// result.
    pub events: Vec<Envelope>,
    /// What of it is damaged on the disk.
    pub damage: Damage,
}

/// What the repair of a session came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionRepair {
    /// What was damaged.
    pub damage: Damage,
    /// Where the files are kept as they were.
    pub kept: Vec<PathBuf>,
}

/// A session that was opened for writing.
#[derive(Debug)]
pub struct OpenedSession {
    /// What it holds.
    pub stored: StoredSession,
    /// Its writer.
    pub log: Box<dyn SessionLog>,
    /// How many bytes of a torn last line were cut off and put aside.
    pub torn_bytes: usize,
}

/// Which sessions a list holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those that work in this directory.
    pub cwd: Option<PathBuf>,
    /// At most this many.
    pub limit: Option<usize>,
    /// Only those that stand behind this place, which is that of the last one of the list before.
    pub after: Option<ListPlace>,
    /// What becomes of those in which nothing was said.
    pub unused: UnusedSessions,
}

/// What becomes of sessions in which nothing was said when others are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnusedSessions {
    /// They are listed like any other.
    #[default]
    Listed,
    /// They are left out. Those that nobody works in any more are removed: a program made them that was killed.
    LeftOut,
}

/// The place of a session in a list: the last updated first, and of those of one moment the one with the highest id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPlace {
    /// When the session was updated.
    pub updated_at: Timestamp,
    /// The session.
    pub id: SessionId,
}

impl ListPlace {
    /// Returns the place of a session.
    pub fn of(metadata: &SessionMetadata) -> Self {
        Self { updated_at: metadata.updated_at, id: metadata.session_id.clone() }
    }
}

impl SessionFilter {
    /// Returns whether a session at that place may be in the list.
    pub(super) fn is_behind(&self, place: &ListPlace) -> bool {
        self.after.as_ref().is_none_or(|after| place < after)
    }

    /// Takes the first sessions that fit.
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

/// Keeps sessions. All methods block.
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Makes a new session.
    fn create(&self, metadata: &SessionMetadata) -> Result<Box<dyn SessionLog>, SessionError>;

    /// Opens a session as its only writer and repairs it if it was torn.
    fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError>;

    /// Reads a session, also while another process writes it. Of a damaged one what is whole is read.
    fn read(&self, id: &SessionId) -> Result<StoredSession, SessionError>;

    /// Reads the header of a session alone, as [`read`](Self::read) would find it.
    fn header(&self, id: &SessionId) -> Result<SessionMetadata, SessionError>;

    /// Writes a damaged session anew from what is whole, and keeps the damaged files beside it. Refused while it is in use.
    fn repair(&self, id: &SessionId) -> Result<SessionRepair, SessionError>;

    /// Returns the headers of root sessions in the order of their [`ListPlace`]. One that was made from the log because it
    /// is lost or damaged says so, and names no children.
    fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionMetadata>, SessionError>;

    /// Removes a session and its children. Refused while one is in use.
    fn remove(&self, id: &SessionId) -> Result<(), SessionError>;

    /// Returns the one session whose id is or begins with `prefix`.
    fn find(&self, prefix: &str) -> Result<SessionId, SessionError>;

    /// Adds to what was undone in a session. The session may be in use. When this returns, the record is on the disk.
    fn add_undo(&self, id: &SessionId, record: &UndoRecord) -> Result<(), SessionError>;

    /// Returns what was undone in a session, the first one first. The session may be in use.
    fn undos(&self, id: &SessionId) -> Result<Vec<UndoRecord>, SessionError>;

    /// Returns a number that grows with everything that is undone in a session; 0 before the first time. Cheap.
    fn undo_mark(&self, id: &SessionId) -> Result<u64, SessionError>;

    /// Returns whether somebody works in a session, in this process or in another one.
    fn is_in_use(&self, id: &SessionId) -> Result<bool, SessionError>;

    /// Returns the folder for outputs that are too long for the model, if the store keeps them. It may not exist yet.
    fn scratch(&self, id: &SessionId) -> Option<PathBuf>;
}
