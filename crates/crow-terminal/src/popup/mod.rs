//! The list below the prompt of what can be completed: commands after `/`, and files after `@`.

mod command_matches;
mod completion_popup;
mod popup_rows;
mod text_cells;

pub(crate) use command_matches::ListedCommand;
pub(crate) use completion_popup::{CompletionPopup, EditCause, PopupChoice, PopupStep};
