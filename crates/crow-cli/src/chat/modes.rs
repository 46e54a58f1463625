//! Terminal modes: original, at the prompt, and while the agent works.

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

/// Value that disables a control character.
const DISABLED: u8 = if cfg!(target_os = "macos") { 0xff } else { 0 };
/// Escape sequences that switch bracketed paste on and off.
pub(super) const PASTE_ON: &str = "\u{1b}[?2004h";
pub(super) const PASTE_OFF: &str = "\u{1b}[?2004l";
/// Timeout of a poll that does not wait.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The terminal modes of the chat; without content on terminals that are left as they are.
#[derive(Debug, Clone)]
pub(super) struct Modes(Option<Arc<TerminalModes>>);

#[derive(Debug)]
struct TerminalModes {
    terminal: OwnedFd,
    /// True once the chat has ended; then no mode is set any more, because the thread that reads prompts may end
    /// later.
    over: Mutex<bool>,
    original: Termios,
    /// Keys arrive one by one, without echo and signals.
    prompting: Termios,
    /// Mode of the prompt, except that ctrl-c sends a signal.
    working: Termios,
}

impl Modes {
    /// Reads the current mode and derives the others. A terminal without escape sequences is left as it is: it
    /// delivers whole lines.
    pub(super) fn read(capable: EscapeSupport) -> io::Result<Self> {
        if capable == EscapeSupport::No {
            return Ok(Self(None));
        }
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let original = tcgetattr(&terminal)?;
        let mut working = original.clone();
        working.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        let codes = &mut working.special_codes;
        codes[SpecialCodeIndex::VMIN] = 1;
        codes[SpecialCodeIndex::VTIME] = 0;
        // Ctrl-z arrives as a key, so that the terminal is restored before the process stops.
        codes[SpecialCodeIndex::VSUSP] = DISABLED;
        codes[SpecialCodeIndex::VQUIT] = DISABLED;
        let mut prompting = working.clone();
        prompting.local_modes -= LocalModes::ISIG;
        prompting.input_modes -= InputModes::ICRNL | InputModes::IXON;
        let over = Mutex::new(false);
        Ok(Self(Some(Arc::new(TerminalModes { terminal, over, original, prompting, working }))))
    }

    /// Returns true if keys arrive one by one.
    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the mode of the prompt.
    pub(super) fn prompt(&self) {
        self.set(|modes| &modes.prompting);
    }

    /// Sets the mode of the working agent.
    pub(super) fn work(&self) {
        self.set(|modes| &modes.working);
    }

    /// Sets the original mode.
    pub(super) fn restore(&self) {
        self.set(|modes| &modes.original);
    }

    /// Sets the original mode and refuses further changes.
    fn close(&self) {
        if let Some(modes) = &self.0 {
            let mut over = modes.over.lock().unwrap_or_else(PoisonError::into_inner);
            *over = true;
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, &modes.original);
        }
    }

    /// Sets a mode unless the chat has ended. Errors are ignored: the terminal may be gone.
    fn set(&self, mode: impl Fn(&TerminalModes) -> &Termios) {
        if let Some(modes) = &self.0
            && let over = modes.over.lock().unwrap_or_else(PoisonError::into_inner)
            && !*over
        {
            let _ = tcsetattr(&modes.terminal, OptionalActions::Now, mode(modes));
        }
    }
}

/// Support of escape sequences by the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeSupport {
    Yes,
    No,
}

/// Restores the terminal when dropped, however the chat ends.
#[derive(Debug)]
pub(super) struct TerminalModeGuard(pub(super) Modes);

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        self.0.close();
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
        // A terminal that accepts no output must not delay the end.
        if self.0.is_live() && poll(&mut fds, Some(&NO_TIME)).is_ok_and(|ready| ready > 0) {
            let mut stdout = stdout.lock();
            drop(stdout.write_all(PASTE_OFF.as_bytes()).and_then(|()| stdout.flush()));
        }
    }
}
