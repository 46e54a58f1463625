//! Runs of agents at a terminal.
//!
//! [`ConsoleRenderer`] turns the events of a run into lines for people, [`ReportBuilder`] into a [`RunReport`], and a
//! [`QuestionQueue`] asks the person about calls. [`AgentConsole`] puts them together for an agent of your own: it sends
//! a prompt, shows the run to its end, and asks. This crate knows no loop, no provider and no tool.

mod agent_console;
mod open_reply;
mod questions;
mod render;
mod report;
mod screen_thread;
mod signals;
mod typing;

pub use agent_console::{AgentConsole, ConsoleError};
pub use open_reply::{StreamedReplyProgress, text_of, thinking_of};
pub use questions::{
    AnswerDelivery, QuestionEffect, QuestionOption, QuestionQueue, TerminalQuestion,
};
pub use render::{
    AnswerDestination, ChangedWords, ConsoleRenderer, ConsoleStyle, DiffLineKind, DiffPart, Glyphs,
    Paint, PatchLine, RunActivity, TerminalFacts, Visibility, changed_words, diff_parts,
    paired_lines, short_usage_text, show_session, terminal_width, usage_text, words, wrap,
};
pub use report::{
    ErrorReport, ExitCode, FailureReport, PermissionsHint, ProgramHints, RefusalReport,
    ReportBuilder, ReportOutcome, RunFacts, RunReport, UsageReport, prices_of, usage_of,
};
pub use screen_thread::{PumpEnd, ScreenGone, ScreenSink, ScreenThread};
pub use signals::{SignalAction, Signals, end_signal};
pub use typing::{Keyboard, LineInputBuffer, TypedLine};
