//! How the terminal treats what is typed.

use std::{
    io::{self, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{
        InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    },
};

/// The value of a control character that no key sends.
const DISABLED: u8 = if cfg!(target_os = "macos") { 0xff } else { 0 };
/// The terminal marks pastes.
pub(super) const PASTE_ON: &str = "\u{1b}[?2004h";
pub(super) const PASTE_OFF: &str = "\u{1b}[?2004l";
/// A wait that only looks.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How the terminal was, how it is at the prompt, and how it is while the agent works.
#[derive(Debug, Clone)]
pub(super) struct Modes(Option<Arc<Three>>);

#[derive(Debug)]
struct Three {
    terminal: OwnedFd,
    /// Whether the chat is over. The thread that reads prompts may end later.
    over: Mutex<bool>,
    original: Termios,
    /// Each key comes at once, unseen.
    prompting: Termios,
    /// As at the prompt, but ctrl-c is a signal.
    working: Termios,
}

impl Modes {
    /// Reads how the terminal is. A terminal that understands nothing is left as it is: lines come when they are entered.
    pub(super) fn read(capable: Capable) -> io::Result<Self> {
        if capable == Capable::No {
            return Ok(Self(None));
        }
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let original = tcgetattr(&terminal)?;
        let mut working = original.clone();
        working.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        let codes = &mut working.special_codes;
        codes[SpecialCodeIndex::VMIN] = 1;
        codes[SpecialCodeIndex::VTIME] = 0;
        // Ctrl-z comes as a key, so that the terminal is put right before the process stops.
        codes[SpecialCodeIndex::VSUSP] = DISABLED;
        codes[SpecialCodeIndex::VQUIT] = DISABLED;
        let mut prompting = working.clone();
        prompting.local_modes -= LocalModes::ISIG;
        prompting.input_modes -= InputModes::ICRNL | InputModes::IXON;
        let over = Mutex::new(false);
        Ok(Self(Some(Arc::new(Three { terminal, over, original, prompting, working }))))
    }

    /// Returns whether keys come one by one while the agent works.
    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Makes the terminal as it is at the prompt.
    pub(super) fn prompt(&self) {
        self.set(|modes| &modes.prompting);
    }

    /// Makes the terminal as it is while the agent works.
    pub(super) fn work(&self) {
        self.set(|modes| &modes.working);
    }

    /// Makes the terminal as it was.
    pub(super) fn restore(&self) {
        self.set(|modes| &modes.original);
    }

    /// Makes the terminal as it was, for good.
    fn close(&self) {
        if let Some(modes) = &self.0 {
            let mut over = modes.over.lock().unwrap_or_else(PoisonError::into_inner);
            *over = true;
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, &modes.original);
        }
    }

    /// A terminal that is gone needs no mode.
    fn set(&self, mode: impl Fn(&Three) -> &Termios) {
        if let Some(modes) = &self.0
            && let over = modes.over.lock().unwrap_or_else(PoisonError::into_inner)
            && !*over
        {
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, mode(modes));
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
pub(super) struct TerminalModeGuard(pub(super) Modes);

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        self.0.close();
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
        // A terminal that takes nothing may not hold up the end.
        if self.0.is_live() && poll(&mut fds, Some(&NO_TIME)).is_ok_and(|ready| ready > 0) {
            let mut stdout = stdout.lock();
            drop(stdout.write_all(PASTE_OFF.as_bytes()).and_then(|()| stdout.flush()));
        }
    }
}
