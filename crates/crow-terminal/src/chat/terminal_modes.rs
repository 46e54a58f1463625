//! Terminal modes: the original one, and the one in which keys arrive one by one.

use std::{
    io::{self, Write as _},
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::getpgrp,
    termios::{
        InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
        tcgetpgrp, tcsetattr,
    },
};

/// Escape sequences that switch bracketed paste and reports of the focus on and off.
const REPORTS_ON: &str = "\u{1b}[?2004h\u{1b}[?1004h";
const REPORTS_OFF: &str = "\u{1b}[?1004l\u{1b}[?2004l";
/// Escape sequences that ask for keys in the form of kitty's protocol, in which escape and shift-enter are unmistakable,
/// and that take this back. Terminals without the protocol ignore them.
const KITTY_KEYS_ON: &str = "\u{1b}[>1u";
const KITTY_KEYS_OFF: &str = "\u{1b}[<u";
/// Leaves the screen of full-screen views.
const LEAVE_FULL_SCREEN: &str = "\u{1b}[?1049l";
/// Wraps lines and shows the cursor: a frame may not have come to its end.
const END_OF_FRAME: &str = "\u{1b}[?7h\u{1b}[?25h";
/// Timeout of a poll that does not wait.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The modes of the terminal. Restores the original one when dropped, however the chat ends.
#[derive(Debug)]
pub(super) struct ChatTerminalModes(Option<KeyModes>);

/// The modes of a terminal that delivers keys.
#[derive(Debug)]
struct KeyModes {
    terminal: OwnedFd,
    original: Termios,
    /// Keys arrive one by one, without echo and signals.
    keys: Termios,
    asks_for_kitty_keys: bool,
    /// True while the terminal is asked for reports and keys.
    is_asked: bool,
    /// True while a full-screen view is shown.
    is_full_screen: bool,
}

impl ChatTerminalModes {
    /// Returns the modes of a terminal that is left as it is: it delivers whole lines.
    pub(super) fn lines() -> Self {
        Self(None)
    }

    /// Reads the current mode of standard input and derives the other. `term` is the value of `TERM`.
    ///
    /// # Errors
    /// Fails if standard input is no terminal.
    pub(super) fn keys(term: &str) -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let original = tcgetattr(&terminal)?;
        let mut keys = original.clone();
        keys.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN | LocalModes::ISIG;
        keys.input_modes -= InputModes::ICRNL | InputModes::IXON;
        // Without it, the kernel hands on what is written as a whole, and not row by row.
        keys.output_modes -= OutputModes::OPOST;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        Ok(Self(Some(KeyModes {
            terminal,
            original,
            keys,
            // The console of Linux knows neither the protocol nor how to ignore it.
            asks_for_kitty_keys: term != "linux",
            is_asked: false,
            is_full_screen: false,
        })))
    }

    /// Returns true if keys arrive one by one.
    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the mode in which keys arrive one by one. Errors are ignored: the terminal may be gone.
    pub(super) fn set_keys(&self) {
        if let Some(modes) = self.0.as_ref().filter(|modes| modes.is_in_foreground()) {
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, &modes.keys);
        }
    }

    /// Sets the original mode. Errors are ignored: the terminal may be gone.
    pub(super) fn restore(&self) {
        if let Some(modes) = self.0.as_ref().filter(|modes| modes.is_in_foreground()) {
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, &modes.original);
        }
    }

    /// Records that a full-screen view is shown, or that it is no longer.
    pub(super) fn set_full_screen(&mut self, is_full_screen: bool) {
        if let Some(modes) = &mut self.0 {
            modes.is_full_screen = is_full_screen;
        }
    }

    /// Returns the sequences that ask the terminal for marked pastes, the focus and unmistakable keys. Terminals keep modes
    /// of keys on a stack, so they are asked for once.
    pub(super) fn start_sequences(&mut self) -> String {
        let Some(modes) = &mut self.0 else { return String::new() };
        let was_asked = std::mem::replace(&mut modes.is_asked, true);
        let keys = if modes.asks_for_kitty_keys && !was_asked { KITTY_KEYS_ON } else { "" };
        format!("{keys}{REPORTS_ON}")
    }

    /// Returns the sequences that take back those of [`start_sequences`](Self::start_sequences). Empty if there is nothing to
    /// take back.
    pub(super) fn end_sequences(&mut self) -> String {
        let Some(modes) = self.0.as_mut().filter(|modes| modes.is_asked) else {
            return String::new();
        };
        modes.is_asked = false;
        let keys = if modes.asks_for_kitty_keys { KITTY_KEYS_OFF } else { "" };
        format!("{keys}{REPORTS_OFF}")
    }
}

impl KeyModes {
    /// Returns true if the process may set modes: in the background, the system would stop it.
    fn is_in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp())
    }
}

impl Drop for ChatTerminalModes {
    fn drop(&mut self) {
        self.restore();
        let Some(modes) = &self.0 else { return };
        let is_full_screen = modes.is_full_screen;
        // Kitty keeps its modes of keys for each screen.
        let leave = if is_full_screen { LEAVE_FULL_SCREEN } else { "" };
        let sequences = format!("{leave}{}{END_OF_FRAME}", self.end_sequences());
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
        // A terminal that accepts no output must not delay the end.
        if poll(&mut fds, Some(&NO_TIME)).is_ok_and(|ready| ready > 0) {
            let mut stdout = stdout.lock();
            drop(stdout.write_all(sequences.as_bytes()).and_then(|()| stdout.flush()));
        }
    }
}
