//! The program on a pseudo-terminal, with a model of its screen.

use std::{
    io::{Read as _, Write},
    num::NonZeroU16,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use crate::program::Fixture;

/// Maximum wait for an expected output.
const PATIENCE: Duration = Duration::from_secs(15);
/// Rows of a terminal, unless a test wants another number.
const ROWS: u16 = 40;
/// Part of the status line.
pub(crate) const STATUS: &str = "% of context";

/// A pseudo-terminal that runs the program.
pub(crate) struct Terminal {
    master: Box<dyn MasterPty + Send>,
    /// Keeps the terminal open after the program's end, so that its modes can be read.
    slave: Option<Box<dyn portable_pty::SlavePty + Send>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    shown: Arc<Mutex<ShownOutput>>,
    changes: watch::Receiver<usize>,
    modes: String,
    rows: u16,
}

/// The output of the program.
struct ShownOutput {
    parser: vt100::Parser,
    /// All bytes.
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts the program on a terminal with a width and a value of `TERM`.
    pub(crate) fn start(fixture: &Fixture, args: &[&str], columns: u16, term: &str) -> Self {
        Self::start_sized(fixture, args, (columns, ROWS), term)
    }

    /// Starts the program on a terminal with so many columns and rows.
    pub(crate) fn start_sized(
        fixture: &Fixture,
        args: &[&str],
        size: (u16, u16),
        term: &str,
    ) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_crow-agent"));
        command.args(args);
        Self::start_command(fixture, command, size, term)
    }

    /// Starts a command in place of the program.
    pub(crate) fn start_command(
        fixture: &Fixture,
        mut command: CommandBuilder,
        (columns, rows): (u16, u16),
        term: &str,
    ) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = format!("{:?}", pair.master.get_termios().unwrap());
        command.cwd(fixture.project(""));
        command.env_clear();
        command.env("TERM", term);
        for (name, value) in fixture.variables() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let size = |count| NonZeroU16::new(count).unwrap();
        let parser = vt100::Parser::new(size(rows), size(columns), 1000);
        let shown = Arc::new(Mutex::new(ShownOutput { parser, bytes: Vec::new() }));
        let (sender, changes) = watch::channel(0);
        let shared = Arc::clone(&shown);
        // The thread ends when the terminal is closed.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                let mut shown = lock(&shared);
                shown.parser.process(&bytes[..length]);
                shown.bytes.extend_from_slice(&bytes[..length]);
                drop(shown);
                sender.send_modify(|count| *count += length);
            }
        });
        let slave = Some(pair.slave);
        Self { master: pair.master, slave, keys, child, shown, changes, modes, rows }
    }

    /// Types keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.type_bytes(keys.as_bytes());
    }

    /// Types bytes, which need not be text.
    pub(crate) fn type_bytes(&mut self, bytes: &[u8]) {
        self.keys.write_all(bytes).unwrap();
        self.keys.flush().unwrap();
    }

    /// Returns the text on the screen.
    pub(crate) fn screen(&self) -> String {
        self.with_screen(vt100::Screen::contents)
    }

    /// Passes the screen to a function and returns its result.
    pub(crate) fn with_screen<T>(&self, read: impl FnOnce(&vt100::Screen) -> T) -> T {
        read(self.lock().parser.screen())
    }

    /// Returns all bytes that the terminal received.
    pub(crate) fn received_bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Returns the number of lines that were too long and wrapped to the next row.
    pub(crate) fn broken_lines(&self) -> usize {
        self.with_screen(|screen| (0..self.rows).filter(|row| screen.row_wrapped(*row)).count())
    }

    fn lock(&self) -> MutexGuard<'_, ShownOutput> {
        lock(&self.shown)
    }

    /// Waits until the screen contains a text.
    pub(crate) async fn wait_for_text(&mut self, text: &str) -> &mut Self {
        self.wait_for(text, |screen| screen.contains(text)).await
    }

    /// Waits until there is a prompt with exactly the text `typed`: the last line, or the last one above a status line.
    pub(crate) async fn wait_for_prompt(&mut self, typed: &str) -> &mut Self {
        let expected = format!("> {typed}");
        self.wait_for(&format!("a prompt with {typed:?}"), |screen| {
            let mut lines = screen.lines().rev().map(str::trim_end).peekable();
            if lines.peek() == Some(&expected.trim_end()) {
                return true;
            }
            lines.find(|line| line.contains(STATUS));
            lines.next() == Some(expected.trim_end())
        })
        .await
    }

    /// Waits until the screen contains a text, and below it the end of its run.
    pub(crate) async fn wait_for_run_end(&mut self, text: &str) -> &mut Self {
        self.wait_for(&format!("{text:?} and the end of the run"), |screen| {
            screen.rsplit_once(text).is_some_and(|(_, below)| below.contains(" in · "))
        })
        .await
    }

    /// Waits until a key answers a question.
    pub(crate) async fn wait_for_question(&mut self) -> &mut Self {
        self.wait_for_text("press a key, or").await
    }

    /// Waits until the screen fulfils a condition. Panics with `description` after the maximum wait.
    pub(crate) async fn wait_for(
        &mut self,
        description: &str,
        expected: impl Fn(&str) -> bool,
    ) -> &mut Self {
        let end = Instant::now() + PATIENCE;
        loop {
            // Marked as seen before the check, so that output during the check wakes the wait below.
            self.changes.borrow_and_update();
            if expected(self.screen().trim_end()) {
                return self;
            }
            let remaining = end.saturating_duration_since(Instant::now());
            let changed = timeout(remaining, self.changes.changed()).await;
            if !matches!(changed, Ok(Ok(()))) {
                assert!(
                    expected(self.screen().trim_end()),
                    "not seen: {description}\n{}",
                    self.screen()
                );
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Changes the number of columns.
    pub(crate) fn resize(&mut self, columns: u16) {
        self.resize_to((columns, self.rows));
    }

    /// Changes the size to so many columns and rows.
    pub(crate) fn resize_to(&mut self, (columns, rows): (u16, u16)) {
        self.rows = rows;
        let size = |count| NonZeroU16::new(count).unwrap();
        self.lock().parser.screen_mut().set_size(size(rows), size(columns));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
    }

    /// Writes to the screen as another program does.
    pub(crate) fn write_as_other_program(&self, text: &str) {
        self.lock().parser.process(text.as_bytes());
    }

    /// Returns true if the terminal has the modes that it had before the program.
    pub(crate) fn has_original_modes(&self) -> bool {
        format!("{:?}", self.master.get_termios().unwrap()) == self.modes
    }

    /// Waits until all bytes that the terminal received fulfil a condition.
    pub(crate) async fn wait_for_bytes(&mut self, expected: impl Fn(&[u8]) -> bool) {
        let shown = Arc::clone(&self.shown);
        let is_fulfilled = |_: &str| expected(&lock(&shown).bytes);
        self.wait_for("bytes", is_fulfilled).await;
    }

    /// Ends the program without asking it.
    pub(crate) async fn kill(mut self) {
        self.child.kill().unwrap();
        spawn_blocking(move || self.child.wait().unwrap()).await.unwrap();
    }

    /// Waits for the end of the program, checks its exit code and that the terminal's modes are restored, and returns the last
    /// screen.
    pub(crate) async fn wait_for_exit(mut self, code: u32) -> String {
        let mut killer = self.child.clone_killer();
        let waiting = spawn_blocking(move || {
            let status = self.child.wait().unwrap();
            (self, status.exit_code())
        });
        let Ok(ended) = timeout(PATIENCE, waiting).await else {
            // Without the kill the blocking wait would delay the end of the test.
            drop(killer.kill());
            panic!("it does not end");
        };
        let (mut terminal, exited) = ended.unwrap();
        let modes = format!("{:?}", terminal.master.get_termios().unwrap());
        // Dropping the last handle closes the terminal; the reader thread ends after reading the remaining output.
        terminal.slave = None;
        while terminal.changes.changed().await.is_ok() {}
        assert_eq!(exited, code, "{}", terminal.screen());
        assert_eq!(modes, terminal.modes, "the terminal is not as it was");
        let pastes = terminal.with_screen(vt100::Screen::bracketed_paste);
        assert!(!pastes, "the terminal still marks pastes");
        assert!(!terminal.with_screen(vt100::Screen::hide_cursor), "the cursor is hidden");
        terminal.screen()
    }
}

fn lock(shown: &Mutex<ShownOutput>) -> MutexGuard<'_, ShownOutput> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}
