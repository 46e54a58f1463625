//! Why a session cannot be kept or opened.

use std::{io, path::PathBuf};

use crow_core::{history::HistoryError, ids::SessionId};

use super::ReservedKey;

/// Why a session cannot be kept or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session {id}")]
    Unknown {
        /// The id as given.
        id: String,
    },
    /// Several sessions begin with what was given.
    #[error("{count} sessions begin with {prefix}; give more of the id")]
    Ambiguous {
        /// The beginning as given.
        prefix: String,
        /// How many sessions fit.
        count: usize,
    },
    /// A session of that id exists.
    #[error("session {id} exists already")]
    Exists {
        /// The id.
        id: SessionId,
    },
    /// An id that cannot be the name of a folder.
    #[error(
        "\"{id}\" cannot be a session id: use letters, digits, dash, dot and underscore, at most 128 of them"
    )]
    BadId {
        /// The id as given.
        id: String,
    },
    /// Another process works on the session.
    #[error("session {id} is in use by {}", .pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The session.
        id: SessionId,
        /// The process, if it left its number.
        pid: Option<u32>,
    },
    /// An agent of another session started it: its events are counted with those of its root, so it cannot be gone on
    /// with alone.
    #[error("session {id} belongs to session {root}; open that one, or fork this one")]
    IsChild {
        /// The session.
        id: SessionId,
        /// Its root.
        root: SessionId,
    },
    /// The agent of the session has ended: nothing is written any more.
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
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be written. What was written before is kept.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line before the last one cannot be understood.
    #[error("{}:{line}: the log is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, the first being 1.
        line: usize,
        /// What is wrong.
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
    /// A key that is not for programs.
    #[error(transparent)]
    ReservedKey(#[from] ReservedKey),
    /// The log contradicts itself.
    #[error("the log of session {id} contradicts itself: {source}")]
    Inconsistent {
        /// The session.
        id: SessionId,
        /// How.
        source: HistoryError,
    },
}
