//! Undoing what calls changed: which calls there are, what undoes them, and what was undone.
//!
//! The logs of a root session and of those below it say which call changed what; `undo.jsonl` beside the root's log says
//! what was undone since. An undo takes back what the chosen calls are known to have changed, path by path, and nothing
//! else: what somebody changed since is a conflict and stays.

mod change_history;
mod error;
mod execution;
mod journal;
mod killed_jobs;
mod notice;
mod record;
mod reversal;
mod selection;
mod steps;
mod types;
mod undone_steps;

pub(crate) use change_history::snapshots_of;
pub use error::UndoError;
pub use journal::UndoJournal;
pub use types::{
    CallKey, ChangedCall, PathException, PathOutcome, RestorePoint, RestoredPath, UndoAction,
    UndoOptions, UndoRecord, UndoReport, UndoTarget,
};
