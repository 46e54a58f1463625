//! Undoing what calls changed: which calls there are, what undoes them, and what was undone.
//!
//! The logs of a root session and of those below it say which call changed what; `undo.jsonl` beside the root's log says
//! what was undone since. An undo takes back what the chosen calls are known to have changed, path by path, and nothing
//! else: what somebody changed since is a conflict and stays.

mod act;
mod choose;
mod compose;
mod error;
mod journal;
mod killed_jobs;
mod notice;
mod read;
mod record;
mod steps;
mod types;
mod undone_steps;

pub use error::UndoError;
pub use journal::UndoJournal;
pub(crate) use read::snapshots_of;
pub use types::{
    CallKey, ChangedCall, PathException, PathOutcome, RestorePoint, RestoredPath, UndoAction,
    UndoOptions, UndoRecord, UndoReport, UndoTarget,
};
