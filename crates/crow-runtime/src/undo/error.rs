//! Errors of undo, redo and restore.

use crow_core::ids::SessionId;

use crate::{SnapshotStoreError, session::SessionError};

/// Reason why nothing was undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The runtime keeps no snapshots.
    #[error("this runtime keeps no snapshots")]
    Unavailable,
    /// The session cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The snapshots cannot be read or written.
    #[error(transparent)]
    Snapshots(#[from] SnapshotStoreError),
    /// A call is changing files and does not end in time.
    #[error("a call is changing files; interrupt it, or wait until it has ended")]
    Busy,
    /// The project folder is missing, and no call removed it.
    #[error("{} is gone: was the project moved?", .path.display())]
    ProjectGone {
        /// The folder.
        path: std::path::PathBuf,
    },
    /// There is nothing to do.
    #[error("there is nothing to {what}")]
    Nothing {
        /// The operation: `undo` or `redo`.
        what: &'static str,
    },
    /// There is nothing to undo, possibly because changes are not captured.
    #[error("there is nothing to undo; changes of commands are not captured here: {0}")]
    NotCaptured(SnapshotStoreError),
    /// No call that changed files has an id with this prefix.
    #[error("no call that changed files has an id that begins with {id}")]
    UnknownCall {
        /// The id as given.
        id: String,
    },
    /// Several call ids begin with this prefix.
    #[error("{count} calls begin with {id}; give more of the id")]
    AmbiguousCall {
        /// The id as given.
        id: String,
        /// Number of matching calls.
        count: usize,
    },
    /// No file was changed in this turn.
    #[error("turn {turn} changed no files; the session has {turns} turns")]
    UnknownTurn {
        /// The turn as given.
        turn: u32,
        /// Number of turns.
        turns: u32,
    },
    /// The conversation does not contain this turn, or no longer.
    #[error("turn {turn} is not part of the conversation; the session has {turns} turns")]
    TurnNotInConversation {
        /// The turn as given.
        turn: u32,
        /// Number of turns.
        turns: u32,
    },
    /// The selected changes are undone already.
    #[error("that is already undone")]
    UndoneAlready,
    /// The calls to undo changed nothing at this path that is not undone already.
    #[error("there is nothing to undo at {path}: these calls did not change it, or that is undone")]
    NothingAtPath {
        /// The path, relative to the project if it is in it.
        path: String,
    },
    /// The conversation cannot be rewound by an undo of some paths only, since other changes stay.
    #[error("the conversation can only go back if the changes of all files are undone")]
    ChatNeedsAllPaths,
    /// The path is in no snapshot of that point.
    #[error("the state of {path} at that point is unknown")]
    UnknownPath {
        /// The path as given.
        path: String,
    },
    /// The conversation can only be rewound if everything after the point is undone as well.
    #[error(
        "the conversation can only go back to before turn {turn} if all later changes are undone, too"
    )]
    ChatNeedsAll {
        /// The turn.
        turn: u32,
    },
    /// The session is in use by another process, so its conversation cannot be rewound.
    #[error("session {id} is in use by another process, so its conversation cannot go back")]
    ChatInUse {
        /// The session.
        id: SessionId,
    },
}
