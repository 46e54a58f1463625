//! Undoing what calls changed, as people ask for it: the words of the commands and of the chat, and the session that is
//! meant.

mod place;
mod standin;
mod words;

pub(crate) use place::{Journal, journal_of};
pub(crate) use standin::{SnapshotStores, UndoJournal};
pub(crate) use words::{HowWords, PathAt, Span, UndoWords, slash_undo};
