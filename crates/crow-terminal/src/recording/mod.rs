//! Recordings of the terminal in the format asciicast v2, which asciinema plays.
//!
//! The format is a file of lines: a header, and one line for each event with its time in seconds. The times come from the
//! caller.

mod asciicast;
mod recorded_output;
#[cfg(test)]
mod tests;
mod utf8_stream;

pub use asciicast::AsciicastError;
pub(crate) use asciicast::{AsciicastHeader, AsciicastRecorder};
pub(crate) use recorded_output::RecordedOutput;
