//! Front end of undo: the arguments of the commands and of the chat, and the selection of the session.

mod arguments;
mod changed_paths;
mod irreversible;
mod session_selection;

pub(crate) use arguments::{
    DiffRequest, HowWords, PathAt, UndoWords, slash_diff, slash_redo, slash_undo,
};
pub(crate) use changed_paths::{DiffRefusal, absolute, diff_of};
pub(crate) use irreversible::irreversible_counts;
pub(crate) use session_selection::{Journal, journal_of, last_session_of_current_dir};
