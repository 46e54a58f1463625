//! The output of commands for people: tables of sessions and changes, reports of undos, and patches.
//!
//! Events are rendered by crow-console. Foreign text reaches the screen only through `crow_text`, which makes control
//! characters visible.

mod change_table;
mod patch_text;
mod session_table;
mod undo_report;

pub(crate) use change_table::{ChangeLine, change_table, merge_by_time};
pub(crate) use patch_text::{Destination, format_patch_without};
pub(crate) use session_table::{SessionRow, session_table};
pub(crate) use undo_report::{CommandStyle, UndoReporter};
