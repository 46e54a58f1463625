//! The report of a session: one HTML file that needs nothing else, neither a network nor scripts.
//!
//! Sizes are bounded by shares: what the texts, the outputs and the diffs of all calls may take together is divided
//! among them, so that a session of 200 turns stays below 400 kB whatever its tools printed. What is cut says so.

mod charts;
mod html;
mod island;
mod session_report;
#[cfg(test)]
mod tests;
mod transcript;
mod words;

pub use session_report::{REPORT_STYLE, ReportSection, SessionReport};
pub use transcript::TranscriptRenderer;
