//! A program on a pseudo-terminal, and what its screen showed at which time.
//!
//! A thread reads the output and notes when it was read. The screen is emulated later, by the thread that asks for it: while keys
//! are typed, nothing else of the benchmark runs beside the program but the server.

use std::{
    io::{Read as _, Write},
    num::NonZeroU16,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Size of the terminal.
const COLUMNS: u16 = 100;
const ROWS: u16 = 40;
/// Sequence that ends a frame.
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// Mark of the prompt.
const PROMPT: &str = "> ";
/// Mark of the first entry of a list.
const FIRST_MARK: &str = "› ";
/// Maximum wait for an expected output.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A pseudo-terminal that runs a program.
pub(crate) struct ChatTerminal {
    /// Keeps the terminal open.
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    output: Receiver<TimedOutput>,
    /// Output of a frame whose end has not been read.
    unfinished: Vec<u8>,
    parser: vt100::Parser,
    started: Instant,
    /// Time of the last frame.
    shown: Instant,
}

/// Output of one read.
struct TimedOutput {
    read: Instant,
    bytes: Vec<u8>,
}

impl ChatTerminal {
    pub(crate) fn start(command: CommandBuilder) -> Self {
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let (sender, output) = mpsc::channel();
        // The thread ends with the program, or when nobody is left to receive.
        thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                let read = Instant::now();
                let bytes = bytes.iter().take(length).copied().collect();
                if sender.send(TimedOutput { read, bytes }).is_err() {
                    break;
                }
            }
        });
        let size = |count| NonZeroU16::new(count).unwrap();
        let parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        // The program alone has the other side: its end is the end of the output.
        drop(pair.slave);
        Self {
            _master: pair.master,
            keys,
            child,
            output,
            unfinished: Vec::new(),
            parser,
            started,
            shown: started,
        }
    }

    /// Types keys, and returns the time before.
    pub(crate) fn type_keys(&mut self, keys: &str) -> Instant {
        let typed = Instant::now();
        self.keys.write_all(keys.as_bytes()).unwrap();
        typed
    }

    /// Waits for a frame after which the screen fulfils a condition, and returns its time. Panics with `description` after the
    /// maximum wait. The current screen counts too.
    fn wait_for(
        &mut self,
        description: &str,
        expected: impl Fn(&vt100::Screen) -> bool,
    ) -> Instant {
        let end = Instant::now() + PATIENCE;
        while !expected(self.parser.screen()) {
            assert!(
                self.next_frame(end),
                "not seen: {description}\n{}",
                self.parser.screen().contents()
            );
        }
        self.shown
    }

    /// Waits until the prompt has exactly this text, and the list below it this entry as the first one.
    pub(crate) fn wait_for_list(&mut self, typed: &str, entry: &str) -> Instant {
        self.wait_for(&format!("{entry} in the list of {typed:?}"), |screen| {
            let mut rows = screen.rows(0, COLUMNS);
            prompt_text(screen).as_deref() == Some(typed)
                && rows.any(|row| row.strip_prefix(FIRST_MARK) == Some(entry))
        })
    }

    /// Waits until the prompt has a text that begins with `typed`.
    pub(crate) fn wait_for_typed(&mut self, typed: &str) -> Instant {
        self.wait_for(&format!("a prompt with {typed:?}"), |screen| {
            prompt_text(screen).is_some_and(|text| text.starts_with(typed))
        })
    }

    /// Waits for the end of a run.
    pub(crate) fn wait_for_run_end(&mut self) {
        self.wait_for("the end of the run", |screen| screen.contents().contains(" in · "));
    }

    /// Waits for a prompt without text.
    pub(crate) fn wait_for_empty_prompt(&mut self) -> Instant {
        self.wait_for("an empty prompt", |screen| {
            prompt_text(screen).is_some_and(|text| text.is_empty())
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Returns the time at which the program was started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Leaves the chat, whose prompt is empty, and waits for its end.
    pub(crate) fn quit(mut self) {
        self.type_keys("\u{4}");
        self.wait_for_end();
    }

    /// Waits for the end of the program, and returns when its last output was read.
    pub(crate) fn wait_for_end(&mut self) -> Instant {
        let end = Instant::now() + PATIENCE;
        while self.next_frame(end) {}
        assert!(self.child.wait().unwrap().success(), "{}", self.parser.screen().contents());
        self.shown
    }

    /// Shows the next frame, or what is left at the end of the output. Returns false if there is none until `end`.
    fn next_frame(&mut self, end: Instant) -> bool {
        loop {
            if let Some(length) = frame_length(&self.unfinished) {
                let frame: Vec<u8> = self.unfinished.drain(..length).collect();
                self.parser.process(&frame);
                return true;
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(TimedOutput { read, bytes }) => {
                    self.shown = read;
                    self.unfinished.extend(bytes);
                }
                Err(RecvTimeoutError::Disconnected) if !self.unfinished.is_empty() => {
                    self.parser.process(&std::mem::take(&mut self.unfinished));
                    return true;
                }
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// Returns the length of the first complete frame, with what stands before it.
fn frame_length(output: &[u8]) -> Option<usize> {
    let start = output.windows(FRAME_END.len()).position(|part| part == FRAME_END)?;
    Some(start + FRAME_END.len())
}

/// Returns the text of the prompt: the last row with its mark.
fn prompt_text(screen: &vt100::Screen) -> Option<String> {
    let rows: Vec<String> = screen.rows(0, COLUMNS).collect();
    let row = rows.iter().rev().map(|row| format!("{} ", row.trim_end()));
    row.into_iter().find_map(|row| row.strip_prefix(PROMPT).map(|text| text.trim_end().to_owned()))
}
