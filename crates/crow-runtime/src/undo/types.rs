//! Public types of the undo journal.

use std::path::PathBuf;

use crow_core::{
    ids::{CallId, SessionId, SnapshotId},
    tool::{ChangeCounts, FileChange},
};
use jiff::Timestamp;

use super::{CallKey, UndoAction};

/// A call that changed files, or may have; or the later changes of a background job started by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedCall {
    /// Number of its first event among the events of its root session.
    pub seq: u64,
    /// Number of the start event of the call. Differs from `seq` if a background job of the call made these changes
    /// after the end of the call.
    pub started: u64,
    /// The session of the call: the root or a descendant.
    pub session_id: SessionId,
    /// The agent that made the call.
    pub agent: String,
    /// The id of the call.
    pub call_id: CallId,
    /// The name of the tool.
    pub tool: String,
    /// One-line description of the call.
    pub title: String,
    /// Time of its start.
    pub time: Timestamp,
    /// Turn of the root session during the call.
    pub turn: u32,
    /// Snapshot before it.
    pub before: SnapshotId,
    /// Snapshot after it; `None` for a call that was cut off before its end.
    pub after: Option<SnapshotId>,
    /// Number of changed files and lines.
    pub changes: ChangeCounts,
    /// The changed files; the list has a maximum length.
    pub files: Vec<PathBuf>,
    /// True if others may have made some of the changes: these are only undone by force.
    pub shared: bool,
    /// True if the end of the call was not observed.
    pub cut_off: bool,
    /// True if all its changes are undone at present.
    pub undone: bool,
}

impl ChangedCall {
    /// Returns the key of the call.
    pub(super) fn key(&self) -> CallKey {
        CallKey { seq: self.seq, call_id: self.call_id.clone() }
    }
}

/// Selects the calls to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoTarget {
    /// The calls of the last turn with changes that are not undone.
    LastTurn,
    /// One call, given by its id or a unique prefix of it.
    Call(String),
    /// The calls of one turn.
    Turn(u32),
    /// The calls of this turn and all later ones, so that the files are as before it.
    BackTo(u32),
    /// All calls.
    ToStart,
}

/// Options of an undo, redo or restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoOptions {
    /// Also overwrite what another writer changed since, after copying it.
    pub force: bool,
    /// Change nothing and report the expected outcome of each path.
    pub dry_run: bool,
    /// Rewind the conversation to before the undone turns.
    pub chat: bool,
}

/// A point in the history of a session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestorePoint {
    /// Before the first call that changed files.
    Start,
    /// Before this call, given by its id or a unique prefix of it.
    BeforeCall(String),
    /// After this call, given by its id or a unique prefix of it.
    AfterCall(String),
    /// Before the first call of this turn.
    BeforeTurn(u32),
    /// After the last call of this turn.
    AfterTurn(u32),
    /// After the last call.
    End,
}

/// The result of an undo, redo or restore, or the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReport {
    /// Kind of the operation.
    pub action: UndoAction,
    /// The affected calls, in order.
    pub calls: Vec<ChangedCall>,
    /// The outcome of each path, sorted by path.
    pub paths: Vec<RestoredPath>,
    /// Number of other changed paths that stay because only some paths were chosen, or only the conversation.
    pub not_chosen: usize,
    /// The turn before which the conversation continues, if it is rewound.
    pub rewound_to: Option<u32>,
    /// True if the agent runs in another process and is notified before its next model call.
    pub notified_later: bool,
    /// True if nothing was changed and the outcomes are predictions.
    pub dry_run: bool,
}

impl UndoReport {
    /// Returns true if every path has its intended state.
    pub fn is_complete(&self) -> bool {
        self.paths.iter().all(RestoredPath::is_done)
    }
}

/// The outcome of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredPath {
    /// The path, absolute.
    pub path: PathBuf,
    /// The outcome.
    pub outcome: PathOutcome,
}

impl RestoredPath {
    /// Returns true if the path has its intended state.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, PathOutcome::Restored { .. } | PathOutcome::Unchanged)
    }

    /// Returns the copy of the previous content, if force made one.
    pub(super) fn copy(&self) -> Option<&PathBuf> {
        match &self.outcome {
            PathOutcome::Restored { copy, .. } => copy.as_ref(),
            PathOutcome::Unchanged
            | PathOutcome::Conflict { .. }
            | PathOutcome::NotRestorable { .. }
            | PathOutcome::Failed { .. } => None,
        }
    }
}

/// The outcome of putting a path back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathOutcome {
    /// The path has the wanted state now.
    Restored {
        /// The kind of change made to the path.
        how: FileChange,
        /// The copy of the previous content, if force made one.
        copy: Option<PathBuf>,
    },
    /// The path had the wanted state already.
    Unchanged,
    /// Another writer changed the path since; it was left alone.
    Conflict {
        /// Short description of the obstacle.
        reason: String,
        /// True if the same operation with force puts the path back.
        forcible: bool,
    },
    /// The wanted content was never stored; the path was left alone.
    NotRestorable {
        /// The reason.
        reason: String,
    },
    /// The path could not be put back.
    Failed {
        /// The error.
        error: String,
    },
}
