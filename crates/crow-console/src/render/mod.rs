//! The output for people: renders events as lines of text on a terminal or in a file.
//!
//! The renderer reads only the events and the report of the run, never a provider, a tool or a file. Foreign text (of
//! models, tools, files, errors) reaches the screen only through [`neutralise`] or its relatives in `crow_text`, which
//! make control characters visible. Comments in this module call text *harmless* once that has been done.

mod call;
mod calls;
mod console;
mod diff;
mod diff_model;
mod end;
mod live;
mod phrase;
mod screen;
mod style;
pub mod words;
pub mod wrap;

#[cfg(test)]
mod tests;

pub use console::{ConsoleRenderer, show_session};
pub(crate) use crow_text::{Neutraliser, approval_line, approval_text, neutralise, one_line};
pub use diff_model::{
    ChangedWords, DiffLineKind, DiffPart, PatchLine, changed_words, diff_parts, paired_lines,
};
pub use end::{RunActivity, short_usage_text, usage_text};
pub use style::{
    AnswerDestination, ConsoleStyle, Glyphs, Paint, TerminalFacts, Visibility, terminal_width,
};
