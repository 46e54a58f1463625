//! Why nothing is undone.

use crow_core::ids::SessionId;

use crate::{SnapshotStoreError, session::SessionError};

/// Why nothing is undone.
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
    /// A call changes files now, and goes on for long.
    #[error("a call changes files now; interrupt it, or wait until it has ended")]
    Busy,
    /// The folder of the project is not where it was, and no call removed it.
    #[error("{} is gone: was the project moved?", .path.display())]
    ProjectGone {
        /// The folder.
        path: std::path::PathBuf,
    },
    /// There is nothing to do.
    #[error("there is nothing to {what}")]
    Nothing {
        /// What was asked for: `undo`, `redo`.
        what: &'static str,
    },
    /// There is nothing to undo, and this may be why.
    #[error("there is nothing to undo; what commands change here is not captured: {0}")]
    NotCaptured(SnapshotStoreError),
    /// No call that changed files begins with what was given.
    #[error("no call that changed files has an id that begins with {id}")]
    UnknownCall {
        /// The id as given.
        id: String,
    },
    /// Several calls begin with what was given.
    #[error("{count} calls begin with {id}; give more of the id")]
    AmbiguousCall {
        /// The id as given.
        id: String,
        /// How many calls fit.
        count: usize,
    },
    /// In this turn no file was changed.
    #[error("turn {turn} changed no files; the session has {turns} turns")]
    UnknownTurn {
        /// The turn as given.
        turn: u32,
        /// How many turns there are.
        turns: u32,
    },
    /// What was asked for is undone already.
    #[error("that is undone already")]
    UndoneAlready,
    /// The path is in no snapshot of that point.
    #[error("it is not known what {path} was at that point")]
    UnknownPath {
        /// The path as given.
        path: String,
    },
    /// The conversation can only go back together with everything after the point.
    #[error(
        "the conversation can only go back to before turn {turn} if all later changes are undone, too"
    )]
    ChatNeedsAll {
        /// The turn.
        turn: u32,
    },
    /// The conversation of a session that is at work elsewhere is not touched.
    #[error("session {id} is in use by another process, so its conversation cannot go back")]
    ChatInUse {
        /// The session.
        id: SessionId,
    },
}
