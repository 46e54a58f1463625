//! How the terminal treats what is typed.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};

/// The value of a control character that no key sends.
const DISABLED: u8 = if cfg!(target_os = "macos") { 0xff } else { 0 };
/// The terminal marks pastes.
pub(super) const PASTE_ON: &str = "\u{1b}[?2004h";
pub(super) const PASTE_OFF: &str = "\u{1b}[?2004l";
/// A wait that only looks.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How the terminal was, and how it is while the agent works: each key comes at once, unseen, and ctrl-c is a signal.
#[derive(Debug, Clone)]
pub(super) struct Modes(Option<Arc<Pair>>);

#[derive(Debug)]
struct Pair {
    original: Termios,
    working: Termios,
}

impl Modes {
    /// Reads how the terminal is. A terminal that understands nothing is left as it is: lines come when they are entered.
    pub(super) fn read(capable: Capable) -> io::Result<Self> {
        if capable == Capable::No {
            return Ok(Self(None));
        }
        let original = tcgetattr(io::stdin())?;
        let mut working = original.clone();
        working.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        let codes = &mut working.special_codes;
        codes[SpecialCodeIndex::VMIN] = 1;
        codes[SpecialCodeIndex::VTIME] = 0;
        // Ctrl-z comes as a key, so that the terminal is put right before the process stops.
        codes[SpecialCodeIndex::VSUSP] = DISABLED;
        codes[SpecialCodeIndex::VQUIT] = DISABLED;
        Ok(Self(Some(Arc::new(Pair { original, working }))))
    }

    /// Returns whether keys come one by one while the agent works.
    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Makes the terminal as it is while the agent works.
    pub(super) fn work(&self) {
        self.set(|pair| &pair.working);
    }

    /// Makes the terminal as it was.
    pub(super) fn restore(&self) {
        self.set(|pair| &pair.original);
    }

    /// A terminal that is gone needs no mode.
    fn set(&self, mode: impl Fn(&Pair) -> &Termios) {
        if let Some(pair) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode(pair));
        }
    }
}

/// Whether the terminal understands escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capable {
    Yes,
    No,
}

/// Makes the terminal as it was, however the chat ends.
#[derive(Debug)]
pub(super) struct Restore(pub(super) Modes);

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.restore();
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
        // A terminal that takes nothing may not hold up the end.
        if self.0.is_live() && poll(&mut fds, Some(&NO_TIME)).is_ok_and(|ready| ready > 0) {
            let mut stdout = stdout.lock();
            drop(stdout.write_all(PASTE_OFF.as_bytes()).and_then(|()| stdout.flush()));
        }
    }
}
