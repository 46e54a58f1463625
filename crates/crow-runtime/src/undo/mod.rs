//! Undoing changes of calls: which calls there are, how each is reverted, and what was undone.
//!
//! The logs of a root session and its descendants record which call changed what; `undo.jsonl` next to the root's log
//! records what was undone since. An undo reverts exactly what the chosen calls are known to have changed, path by
//! path: anything changed by others since is a conflict and stays.

mod change_history;
mod error;
mod execution;
mod journal;
mod ledger;
mod notice;
mod record;
mod reversal;
mod selection;
mod types;
mod undone_steps;

pub(crate) use change_history::snapshots_of;
pub use error::UndoError;
pub use journal::UndoJournal;
pub use types::{
    ChangedCall, PathOutcome, RestorePoint, RestoredPath, UndoOptions, UndoReport, UndoTarget,
};

pub(crate) use journal::RunningAgent;

use crate::session::{CallKey, PathException, UndoAction, UndoRecord};
