//! The output to a terminal that is recorded as well.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::asciicast::AsciicastRecorder;

/// A terminal whose output goes to a recording, too.
///
/// The recorder is shared, because events other than output are recorded elsewhere. An error of the recording does not
/// change what the terminal gets: the recorder keeps it.
pub(crate) struct RecordedOutput<T, W, C> {
    terminal: T,
    recorder: Arc<Mutex<AsciicastRecorder<W>>>,
    elapsed: C,
}

impl<T: Write, W: Write, C: Fn() -> Duration> RecordedOutput<T, W, C> {
    /// Records what is written to `terminal`. `elapsed` returns the time since the beginning of the recording.
    pub(crate) fn new(terminal: T, recorder: Arc<Mutex<AsciicastRecorder<W>>>, elapsed: C) -> Self {
        Self { terminal, recorder, elapsed }
    }
}

impl<T: Write, W: Write, C: Fn() -> Duration> Write for RecordedOutput<T, W, C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.terminal.write(bytes)?;
        let time = (self.elapsed)();
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        recorder.on_output(time, &bytes[..written.min(bytes.len())]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.terminal.flush()
    }
}

impl<T: fmt::Debug, W: fmt::Debug, C> fmt::Debug for RecordedOutput<T, W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedOutput")
            .field("terminal", &self.terminal)
            .field("recorder", &self.recorder)
            .finish_non_exhaustive()
    }
}
