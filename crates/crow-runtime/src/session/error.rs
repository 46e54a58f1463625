//! Errors of storing and opening sessions.

use std::{io, path::PathBuf};

use crow_core::{history::HistoryError, ids::SessionId};

use super::ReservedKey;

/// Error of storing or opening a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session {id}")]
    Unknown {
        /// The id as given.
        id: String,
    },
    /// Several session ids begin with the given prefix.
    #[error("{count} sessions begin with {prefix}; give more of the id")]
    Ambiguous {
        /// The prefix as given.
        prefix: String,
        /// Number of matching sessions.
        count: usize,
    },
    /// A session with this id exists.
    #[error("session {id} exists already")]
    Exists {
        /// The id.
        id: SessionId,
    },
    /// The id cannot be used as a folder name.
    #[error(
        "\"{id}\" cannot be a session id: use letters, digits, dash, dot and underscore, at most 128 of them"
    )]
    BadId {
        /// The id as given.
        id: String,
    },
    /// Another process has the session open.
    #[error("session {id} is in use by {}", .pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The session.
        id: SessionId,
        /// The id of the process, if the lock file contains it.
        pid: Option<u32>,
    },
    /// The session was started by an agent of another session. Its events are numbered with those of its root, so it
    /// cannot be continued alone.
    #[error("session {id} belongs to session {root}; open that one, or fork this one")]
    IsChild {
        /// The session.
        id: SessionId,
        /// Its root.
        root: SessionId,
    },
    /// The agent of the session has ended: nothing more is written.
    #[error("session {id} is closed")]
    Closed {
        /// The session.
        id: SessionId,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file cannot be written. Earlier content is kept.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A line before the last one cannot be parsed.
    #[error("{}:{line}: the log is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line number, starting at 1.
        line: usize,
        /// Description of the error.
        reason: String,
    },
    /// The log was written by a newer version.
    #[error("session {id} was written in format {found}; this version reads up to format {known}")]
    NewerFormat {
        /// The session.
        id: SessionId,
        /// The format of the log.
        found: u32,
        /// The newest format that can be read.
        known: u32,
    },
    /// The key is reserved for Crow.
    #[error(transparent)]
    ReservedKey(#[from] ReservedKey),
    /// The log contradicts itself.
    #[error("the log of session {id} is inconsistent: {source}")]
    Inconsistent {
        /// The session.
        id: SessionId,
        /// The contradiction.
        source: HistoryError,
    },
}
