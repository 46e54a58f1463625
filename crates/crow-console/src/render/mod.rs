//! The output for people: renders events as lines of text on a terminal or in a file.
//!
//! The renderer reads only the events and the report of the run, never a provider, a tool or a file. Foreign text (of
//! models, tools, files, errors) reaches the screen only through [`neutralise`] or its relatives in `crow_text`, which
//! make control characters visible. Comments in this module call text *harmless* once that has been done.

mod call;
mod calls;
mod change_summary;
mod console;
mod diff;
mod end;
mod live;
mod open_calls;
mod output_excerpt;
mod paint;
mod phrase;
mod question;
mod screen;
mod style;
mod terminal;
mod todo;
mod transcript;
mod waiting;
pub mod words;
pub mod wrap;

#[cfg(test)]
mod tests;

pub(crate) use crow_text::{Neutraliser, approval_line, approval_text, neutralise, one_line};

pub use console::ConsoleRenderer;
pub use end::{RunActivity, short_usage_text, usage_text};
pub use live::LiveInput;
pub use paint::Paint;
pub use style::{AnswerDestination, ConsoleStyle, Glyphs, TerminalFacts, Visibility};
pub use terminal::terminal_width;
pub use transcript::show_session;
