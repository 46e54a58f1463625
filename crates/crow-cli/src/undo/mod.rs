//! Front end of undo: the arguments of the commands and of the chat, and the selection of the session.

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
