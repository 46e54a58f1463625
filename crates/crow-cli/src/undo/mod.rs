//! Undoing what calls changed, as people ask for it: the words of the commands and of the chat, and the session that is
//! meant.

mod changed_paths;
mod lost;
mod place;
mod removal;
mod words;

pub(crate) use changed_paths::{DiffRefusal, absolute, diff_of};
pub(crate) use lost::lost;
pub(crate) use place::{Journal, journal_of, last_here};
pub(crate) use removal::remove;
pub(crate) use words::{
    DiffRequest, HowWords, PathAt, UndoWords, slash_diff, slash_redo, slash_undo,
};
