//! What is typed at the prompt, on its way to the line editor.
//!
//! The editor reads as much as there is, and forgets what stands behind the line that it returns. So it reads from a
//! pseudo-terminal of its own and gets no more than what may be one line; the rest waits here.

use std::{io, os::fd::OwnedFd, sync::Arc, time::Duration};

use super::pastes::Pastes;
use rustix::{
    fs::{Mode, OFlags, fcntl_setfl, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    stdio::dup2_stdin,
    termios::{OptionalActions, tcgetattr, tcsetattr},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
    time::sleep,
};

/// The most bytes that are passed on at once.
const CHUNK: usize = 1024;
/// How long the editor may take to return a line. After that, the key meant something else to it.
const ENTERING: Duration = Duration::from_millis(500);
const PASTE_BEGINS: &[u8; 6] = b"\x1b[200~";
const PASTE_ENDS: &[u8; 6] = b"\x1b[201~";
const ESCAPE: u8 = 0x1b;

/// Passes on what is typed.
#[derive(Debug)]
pub(super) struct InputFeed {
    master: AsyncFd<OwnedFd>,
    waiting: Vec<u8>,
    arriving: InputPastes,
    keys: Keys,
    flow: FeedFlow,
    goes_on: Arc<Notify>,
}

/// Whether the editor gets more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedFlow {
    Open,
    /// What it got may end its reading.
    Held,
}

impl InputFeed {
    /// Puts a terminal of its own in the place of standard input. Whoever wants the real one has a copy of it.
    ///
    /// `goes_on` tells that a key which may end the reading did not.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub(super) fn new(goes_on: Arc<Notify>, pastes: Pastes) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut raw = tcgetattr(&slave)?;
        raw.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &raw)?;
        fcntl_setfl(&master, OFlags::NONBLOCK)?;
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
        let master = AsyncFd::with_interest(master, Interest::WRITABLE)?;
        dup2_stdin(&slave)?;
        let (waiting, keys, flow) = (Vec::new(), Keys::default(), FeedFlow::Open);
        let arriving = InputPastes { paste: None, pastes };
        Ok(Self { master, waiting, arriving, keys, flow, goes_on })
    }

    /// The editor begins to read.
    pub(super) fn begin(&mut self) {
        self.flow = FeedFlow::Open;
    }

    /// Adds what was typed.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.arriving.push(bytes, &mut self.waiting);
    }

    /// Takes what the editor did not get.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.arriving.give_up(&mut self.waiting);
        std::mem::take(&mut self.waiting)
    }

    /// Passes on what may be passed on. Returns only when that fails. May be dropped at any time.
    pub(super) async fn pump(&mut self) -> io::Error {
        loop {
            if self.flow == FeedFlow::Held {
                tokio::select! {
                    () = self.goes_on.notified() => {}
                    () = sleep(ENTERING) => {}
                }
                self.flow = FeedFlow::Open;
            }
            if self.waiting.is_empty() {
                return std::future::pending().await;
            }
            let mut guard = match self.master.writable().await {
                Ok(guard) => guard,
                Err(error) => return error,
            };
            let next = self.keys.first_line(&self.waiting);
            match rustix::io::write(guard.get_inner(), next) {
                Ok(length) => {
                    for byte in self.waiting.drain(..length) {
                        self.flow = if self.keys.push(byte) == Means::End {
                            FeedFlow::Held
                        } else {
                            FeedFlow::Open
                        };
                    }
                }
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return error.into(),
            }
        }
    }
}

/// What comes, up to the end of a paste: a long one goes on to the editor as a few words.
#[derive(Debug)]
struct InputPastes {
    /// A paste whose end is still to come.
    paste: Option<Vec<u8>>,
    pastes: Pastes,
}

impl InputPastes {
    /// Passes bytes on. A mark of which the first half was passed on already is the editor's: its paste is shown whole.
    fn push(&mut self, bytes: &[u8], waiting: &mut Vec<u8>) {
        for byte in bytes {
            let Some(paste) = &mut self.paste else {
                waiting.push(*byte);
                if waiting.ends_with(PASTE_BEGINS) {
                    waiting.truncate(waiting.len() - PASTE_BEGINS.len());
                    self.paste = Some(Vec::new());
                }
                continue;
            };
            paste.push(*byte);
            if paste.ends_with(PASTE_ENDS) {
                let pasted = &paste[..paste.len() - PASTE_ENDS.len()];
                let text =
                    String::from_utf8_lossy(pasted).replace("\r\n", "\n").replace('\r', "\n");
                waiting.extend_from_slice(PASTE_BEGINS);
                waiting.extend_from_slice(self.pastes.shown(text).as_bytes());
                waiting.extend_from_slice(PASTE_ENDS);
                self.paste = None;
            }
        }
    }

    /// Passes on what came of a paste that goes on.
    fn give_up(&mut self, waiting: &mut Vec<u8>) {
        if let Some(paste) = self.paste.take() {
            waiting.extend_from_slice(PASTE_BEGINS);
            waiting.extend(paste);
        }
    }
}

/// The last keys, as far as they say what the next one means.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    last: [u8; 6],
    pasting: bool,
}

/// What a key may mean to the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// It goes on reading.
    More,
    /// It returns.
    End,
}

impl Keys {
    fn push(&mut self, byte: u8) -> Means {
        let after_escape = self.last.last() == Some(&ESCAPE);
        self.last.rotate_left(1);
        if let Some(last) = self.last.last_mut() {
            *last = byte;
        }
        self.pasting = match &self.last {
            PASTE_BEGINS => true,
            PASTE_ENDS => false,
            _ => self.pasting,
        };
        // Enter, ctrl-c, ctrl-d, ctrl-z. Alt and Enter make a new line.
        let ends = matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x1a);
        if ends && !after_escape && !self.pasting { Means::End } else { Means::More }
    }

    /// Returns what goes to the editor at once: up to the first key that may end its reading.
    fn first_line(mut self, bytes: &[u8]) -> &[u8] {
        let end = bytes.iter().position(|byte| self.push(*byte) == Means::End);
        let length = end.map_or(bytes.len(), |end| end + 1).min(CHUNK);
        bytes.get(..length).unwrap_or(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_gets_what_may_be_one_line() {
        let table: [(&[u8], usize); 8] = [
            (b"", 0),
            (b"one", 3),
            (b"one\rtwo\r", 4),
            (b"\ntwo", 1),
            (b"\x1b[200~one\rtwo\x1b[201~\rthree", 20),
            (b"one\x1b\rtwo\rthree", 9),
            (b"a\x03b", 2),
            ("漢字\r漢".as_bytes(), 7),
        ];
        for (bytes, expected) in table {
            assert_eq!(Keys::default().first_line(bytes).len(), expected, "{bytes:?}");
        }
        assert_eq!(Keys::default().first_line(&[b'x'; 5000]).len(), CHUNK);
    }

    #[test]
    fn a_long_paste_goes_to_the_editor_as_a_few_words() {
        let mut arriving = InputPastes { paste: None, pastes: Pastes::default() };
        let mut waiting = Vec::new();
        let long = format!("a\x1b[200~{}\x1b[201~b\r", "x\r".repeat(30));
        for part in long.as_bytes().chunks(7) {
            arriving.push(part, &mut waiting);
        }
        assert_eq!(String::from_utf8_lossy(&waiting), "a\x1b[200~[30 lines pasted]\x1b[201~b\r");
        let text = arriving.pastes.take_into("[30 lines pasted]").unwrap();
        assert_eq!(text, "x\n".repeat(30));
        waiting.clear();
        arriving.push(b"c\x1b[200~d\re", &mut waiting);
        assert_eq!(waiting, b"c");
        arriving.give_up(&mut waiting);
        assert_eq!(waiting, b"c\x1b[200~d\re");
    }

    #[test]
    fn a_paste_that_comes_in_parts_does_not_end_the_line() {
        let mut keys = Keys::default();
        let means: Vec<_> = b"\x1b[200~a\r".iter().map(|byte| keys.push(*byte)).collect();
        assert!(means.iter().all(|means| *means == Means::More), "{means:?}");
        assert_eq!(keys.first_line(b"b\rc\x1b[201~d\re"), b"b\rc\x1b[201~d\r");
    }
}
