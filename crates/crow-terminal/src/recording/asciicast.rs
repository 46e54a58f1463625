//! Writes a recording, line by line.

use std::{
    io::{self, Write},
    time::Duration,
};

use crow_console::words;
use jiff::Timestamp;
use serde::Serialize;

use super::utf8_stream::Utf8Stream;
use crate::screen_size::ScreenSize;

/// The first line of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsciicastHeader {
    /// Size of the terminal at the beginning.
    pub(crate) size: ScreenSize,
    /// Time of the beginning. The file has it in seconds.
    pub(crate) started: Timestamp,
    /// The variable `TERM`.
    pub(crate) term: Option<String>,
    /// The variable `SHELL`.
    pub(crate) shell: Option<String>,
}

/// The error of a recording that could not be written. The terminal is not affected by it.
#[derive(Debug, thiserror::Error)]
#[error("the recording could not be written, and ends after {}", words::count(*events, "event"))]
pub struct AsciicastError {
    /// Number of events that the file has.
    pub events: u64,
    #[source]
    source: io::Error,
}

/// State of the file of a recording.
#[derive(Debug)]
enum RecordingFile<W> {
    Open(W),
    /// It could not be written.
    Failed(io::Error),
    /// It was ended, and its error told.
    Closed,
}

/// Writer of a recording in the format asciicast v2. It has no keys of the user, which may be secrets.
///
/// Every line is written at once and flushed, so that the file is readable when the program is killed. After an error
/// nothing more is written; [`finish`](Self::finish) tells the error.
#[derive(Debug)]
pub(crate) struct AsciicastRecorder<W> {
    file: RecordingFile<W>,
    output: Utf8Stream,
    /// Time of the last event.
    last: Duration,
    events: u64,
}

impl<W: Write> AsciicastRecorder<W> {
    /// Begins a recording with its header.
    ///
    /// # Errors
    /// Fails if the header cannot be written.
    pub(crate) fn new(mut file: W, header: &AsciicastHeader) -> Result<Self, AsciicastError> {
        write_line(&mut file, &HeaderLine::from(header))
            .map_err(|source| AsciicastError { events: 0, source })?;
        Ok(Self {
            file: RecordingFile::Open(file),
            output: Utf8Stream::default(),
            last: Duration::ZERO,
            events: 0,
        })
    }

    /// Records bytes that were written to the terminal. An incomplete character at their end is recorded with the next ones.
    /// `time` is that since the beginning; a time before that of the last event counts as the latter.
    pub(crate) fn on_output(&mut self, time: Duration, bytes: &[u8]) {
        let text = self.output.push(bytes);
        self.record_text(time, EventCode::Output, &text);
    }

    /// Records that the terminal has another size.
    pub(crate) fn on_resize(&mut self, time: Duration, size: ScreenSize) {
        let size = format!("{}x{}", size.columns, size.rows);
        self.record_text(time, EventCode::Resize, &size);
    }

    /// Ends the recording. Further events are ignored.
    ///
    /// # Errors
    /// Fails if any line could not be written. The error is told once.
    pub(crate) fn finish(&mut self, time: Duration) -> Result<(), AsciicastError> {
        let rest = self.output.finish();
        self.record_text(time, EventCode::Output, rest);
        match std::mem::replace(&mut self.file, RecordingFile::Closed) {
            RecordingFile::Open(_) | RecordingFile::Closed => Ok(()),
            RecordingFile::Failed(source) => Err(AsciicastError { events: self.events, source }),
        }
    }

    fn record_text(&mut self, time: Duration, code: EventCode, text: &str) {
        let RecordingFile::Open(file) = &mut self.file else { return };
        if text.is_empty() {
            return;
        }
        self.last = self.last.max(time);
        // Whole microseconds are short in the file.
        let micros = u64::try_from(self.last.as_micros()).unwrap_or(u64::MAX);
        let seconds = Duration::from_micros(micros).as_secs_f64();
        match write_line(file, &(seconds, code.as_str(), text)) {
            Ok(()) => self.events += 1,
            Err(error) => self.file = RecordingFile::Failed(error),
        }
    }
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventCode {
    Output,
    Resize,
}

impl EventCode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Output => "o",
            Self::Resize => "r",
        }
    }
}

/// The header as it is in the file.
#[derive(Debug, Serialize)]
struct HeaderLine {
    version: u8,
    width: usize,
    height: usize,
    timestamp: i64,
    #[serde(skip_serializing_if = "EnvironmentLine::is_empty")]
    env: EnvironmentLine,
}

/// Variables of the header.
#[derive(Debug, Serialize)]
struct EnvironmentLine {
    #[serde(rename = "TERM", skip_serializing_if = "Option::is_none")]
    term: Option<String>,
    #[serde(rename = "SHELL", skip_serializing_if = "Option::is_none")]
    shell: Option<String>,
}

impl EnvironmentLine {
    fn is_empty(&self) -> bool {
        self.term.is_none() && self.shell.is_none()
    }
}

impl From<&AsciicastHeader> for HeaderLine {
    fn from(header: &AsciicastHeader) -> Self {
        Self {
            version: 2,
            width: header.size.columns,
            height: header.size.rows,
            timestamp: header.started.as_second(),
            env: EnvironmentLine { term: header.term.clone(), shell: header.shell.clone() },
        }
    }
}

/// Writes a line at once.
fn write_line<W: Write>(file: &mut W, content: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.flush()
}
