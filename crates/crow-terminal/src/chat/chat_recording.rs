//! The recording of what a chat shows.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::chat_screen::{ScreenWriter, screen_size};
use crate::{
    recording::{AsciicastError, AsciicastHeader, AsciicastRecorder, RecordedOutput},
    screen_size::ScreenSize,
};

/// Size of a terminal that does not tell its own.
const UNKNOWN_SIZE: ScreenSize = ScreenSize { columns: 80, rows: 24 };

/// A recording of what a chat shows, as an asciicast. It has no keys, which may be secrets. Its clones write to one file.
#[derive(Debug, Clone)]
pub struct ChatRecording {
    recorder: Arc<Mutex<AsciicastRecorder<File>>>,
    started: Instant,
}

impl ChatRecording {
    /// Begins a recording in a file. `term` and `shell` are the variables `TERM` and `SHELL`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn new(
        file: File,
        term: Option<String>,
        shell: Option<String>,
    ) -> Result<Self, AsciicastError> {
        let size = screen_size().unwrap_or(UNKNOWN_SIZE);
        let header = AsciicastHeader { size, started: Timestamp::now(), term, shell };
        let recorder = AsciicastRecorder::new(file, &header)?;
        Ok(Self { recorder: Arc::new(Mutex::new(recorder)), started: Instant::now() })
    }

    /// Ends the recording, after the chat has ended.
    ///
    /// # Errors
    /// Fails if any part of it could not be written. The error is told once.
    pub fn finish(&self) -> Result<(), AsciicastError> {
        let time = self.elapsed();
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).finish(time)
    }

    /// Returns a writer to a terminal whose output is recorded, and its changes of size.
    pub(super) fn writer(&self, terminal: impl Write + Send + 'static) -> ScreenWriter {
        let started = self.started;
        let elapsed = move || started.elapsed();
        let output = RecordedOutput::new(terminal, Arc::clone(&self.recorder), elapsed);
        Box::new(SizedOutput { output, size: screen_size(), recording: self.clone() })
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Output to a recorded terminal. What is written was made for the size that the terminal has then, so a new size is
/// recorded before it.
struct SizedOutput<W> {
    output: W,
    /// The size that was recorded last.
    size: Option<ScreenSize>,
    recording: ChatRecording,
}

impl<W: Write> Write for SizedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = screen_size();
        if let Some(now) = size.filter(|_| size != self.size) {
            self.size = size;
            let time = self.recording.elapsed();
            let mut recorder =
                self.recording.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.on_resize(time, now);
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
