//! The program on a pseudo-terminal, with a model of its screen.

use std::{
    io::{Read as _, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use crate::program::Fixture;

/// Maximum wait for an expected output.
const PATIENCE: Duration = Duration::from_secs(15);
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
    parser: Arc<Mutex<vt100::Parser>>,
    changes: watch::Receiver<usize>,
    modes: String,
}

impl Terminal {
    /// Starts the program on a terminal with a width and a value of `TERM`.
    pub(crate) fn start(fixture: &Fixture, args: &[&str], columns: u16, term: &str) -> Self {
        let size = PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = format!("{:?}", pair.master.get_termios().unwrap());
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_crow-agent"));
        command.args(args);
        command.cwd(fixture.project(""));
        command.env_clear();
        command.env("TERM", term);
        for (name, value) in fixture.variables() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let rows = std::num::NonZeroU16::new(ROWS).unwrap();
        let cols = std::num::NonZeroU16::new(columns).unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 1000)));
        let (sender, changes) = watch::channel(0);
        let shared = Arc::clone(&parser);
        // The thread ends when the terminal is closed.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..length]);
                sender.send_modify(|count| *count += length);
            }
        });
        Self { master: pair.master, slave: Some(pair.slave), keys, child, parser, changes, modes }
    }

    /// Types keys.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Returns the text on the screen.
    pub(crate) fn screen(&self) -> String {
        self.parser.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// Passes the screen to a function and returns its result.
    pub(crate) fn with_screen<T>(&self, read: impl FnOnce(&vt100::Screen) -> T) -> T {
        read(self.parser.lock().unwrap_or_else(PoisonError::into_inner).screen())
    }

    /// Returns the number of lines that were too long and wrapped to the next row.
    pub(crate) fn broken_lines(&self) -> usize {
        let parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        (0..ROWS).filter(|row| parser.screen().row_wrapped(*row)).count()
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

    pub(crate) fn resize(&self, columns: u16) {
        let size = PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 };
        let cols = std::num::NonZeroU16::new(columns).unwrap();
        let rows = std::num::NonZeroU16::new(ROWS).unwrap();
        self.parser.lock().unwrap().screen_mut().set_size(rows, cols);
        self.master.resize(size).unwrap();
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
        let pastes = terminal.parser.lock().unwrap().screen().bracketed_paste();
        assert!(!pastes, "the terminal still marks pastes");
        terminal.screen()
    }
}
