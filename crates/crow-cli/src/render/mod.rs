//! The output for people: renders events as lines of text on a terminal or in a file.
//!
//! The renderer reads only the events and the report of the run, never a provider, a tool or a file. Foreign text (of
//! models, tools, files, errors) reaches the screen only through [`neutralise`] or its relatives in `crow_text`, which
//! make control characters visible. Comments in this module call text *harmless* once that has been done.

mod call;
mod calls;
mod change_summary;
mod change_table;
mod console;
mod diff;
mod end;
mod git_binary;
mod live;
mod open_calls;
mod output_excerpt;
mod paint;
mod patch_text;
mod phrase;
mod question;
mod screen;
mod session_table;
mod style;
mod terminal;
mod todo;
mod transcript;
mod undo_report;
mod waiting;
mod words;
mod wrap;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

pub(crate) use change_table::{ChangeLine, change_table, merge_by_time};
pub(crate) use crow_text::{approval_line, approval_text};
pub(crate) use end::{short_usage_text, usage_text};
pub(crate) use patch_text::{Destination, format_patch_without};
pub(crate) use undo_report::{CommandStyle, UndoReporter};

pub use console::ConsoleRenderer;
pub use crow_text::{Neutraliser, neutralise, one_line};
pub use end::RunActivity;
pub use live::LiveInput;
pub use session_table::{SessionRow, session_table};
pub use style::{AnswerDestination, ConsoleStyle, Glyphs, TerminalFacts, Visibility};
pub use terminal::terminal_width;
pub use transcript::show_session;
