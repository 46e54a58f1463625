//! Passing typed bytes to the line editor, one line at a time, with long pastes replaced by placeholders.
//!
//! The editor reads all available bytes, and discards those behind the line that it returns. So standard input is
//! replaced by a pseudo-terminal, and [`InputFeed`] writes to it only up to the first key that may end the reading
//! (`Keys::first_line`). After such a key it stops (`FeedFlow::Paused`) until the editor reports that it is still
//! reading, starts to read again, or `ENTERING` has passed. Other bytes stay in `waiting`, where the chat takes them
//! when the agent starts to work. A long paste becomes a short placeholder on the way (`InputPastes`); [`Pastes`] puts
//! the text back when the line is sent.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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

/// Maximum number of bytes per write.
const CHUNK: usize = 1024;
/// Time the editor may take to return a line. After that, the key had another meaning to it.
const ENTERING: Duration = Duration::from_millis(500);
const PASTE_BEGINS: &[u8; 6] = b"\x1b[200~";
const PASTE_ENDS: &[u8; 6] = b"\x1b[201~";
const ESCAPE: u8 = 0x1b;

/// Feeds typed bytes to the editor.
#[derive(Debug)]
pub(super) struct InputFeed {
    master: AsyncFd<OwnedFd>,
    waiting: Vec<u8>,
    arriving: InputPastes,
    keys: Keys,
    flow: FeedFlow,
    still_reading: Arc<Notify>,
}

/// State of the flow of bytes to the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedFlow {
    Open,
    /// The last key may have ended the reading.
    Paused,
}

impl InputFeed {
    /// Replaces standard input by a pseudo-terminal. Users of the real terminal have a copy of its descriptor.
    ///
    /// `still_reading` is notified when a key that may end the reading did not.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub(super) fn new(still_reading: Arc<Notify>, pastes: Pastes) -> io::Result<Self> {
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
        Ok(Self { master, waiting, arriving, keys, flow, still_reading })
    }

    /// Called when the editor starts to read.
    pub(super) fn begin(&mut self) {
        self.flow = FeedFlow::Open;
    }

    /// Adds typed bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.arriving.push(bytes, &mut self.waiting);
    }

    /// Takes the bytes that the editor did not get.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.arriving.give_up(&mut self.waiting);
        std::mem::take(&mut self.waiting)
    }

    /// Writes waiting bytes to the editor as far as the flow allows. Returns only on an error. Cancel safe.
    pub(super) async fn pump(&mut self) -> io::Error {
        loop {
            if self.flow == FeedFlow::Paused {
                tokio::select! {
                    () = self.still_reading.notified() => {}
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
            // `first_line` works on a copy of the key state; only bytes that were really written advance it.
            let next = self.keys.first_line(&self.waiting);
            match rustix::io::write(guard.get_inner(), next) {
                Ok(length) => {
                    for byte in self.waiting.drain(..length) {
                        self.flow = if self.keys.push(byte) == KeyEffect::End {
                            FeedFlow::Paused
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

/// Detects bracketed pastes in the input and replaces long ones by placeholders.
#[derive(Debug)]
struct InputPastes {
    /// Bytes of a paste whose end has not arrived.
    paste: Option<Vec<u8>>,
    pastes: Pastes,
}

impl InputPastes {
    /// Appends bytes to `waiting`. If the first half of a start mark was already written to the editor, the editor
    /// handles that paste, and it is shown in full.
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
            if let Some(pasted) = paste.strip_suffix(PASTE_ENDS) {
                let text =
                    String::from_utf8_lossy(pasted).replace("\r\n", "\n").replace('\r', "\n");
                waiting.extend_from_slice(PASTE_BEGINS);
                waiting.extend_from_slice(self.pastes.shown(text).as_bytes());
                waiting.extend_from_slice(PASTE_ENDS);
                self.paste = None;
            }
        }
    }

    /// Appends an unfinished paste, with its start mark.
    fn give_up(&mut self, waiting: &mut Vec<u8>) {
        if let Some(paste) = self.paste.take() {
            waiting.extend_from_slice(PASTE_BEGINS);
            waiting.extend(paste);
        }
    }
}

/// State for deciding what the next key means.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    last: [u8; 6],
    pasting: bool,
}

/// Effect that a key may have on the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyEffect {
    /// The editor continues to read.
    More,
    /// The editor may return.
    End,
}

impl Keys {
    fn push(&mut self, byte: u8) -> KeyEffect {
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
        // Enter, ctrl-c, ctrl-d, ctrl-z. Alt with Enter inserts a newline.
        let ends = matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x1a);
        if ends && !after_escape && !self.pasting { KeyEffect::End } else { KeyEffect::More }
    }

    /// Returns the bytes up to the first key that may end the reading, at most `CHUNK`.
    fn first_line(mut self, bytes: &[u8]) -> &[u8] {
        let end = bytes.iter().position(|byte| self.push(*byte) == KeyEffect::End);
        let length = end.map_or(bytes.len(), |end| end + 1).min(CHUNK);
        bytes.get(..length).unwrap_or(bytes)
    }
}

/// Bounds above which a paste is shown as a placeholder.
const MOST_LINES: usize = 20;
const MOST_BYTES: usize = 2048;

/// Long pastes on lines that were not sent yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<LongPaste>>>);

#[derive(Debug)]
struct LongPaste {
    /// Placeholder; unique among the stored pastes.
    shown: String,
    text: String,
}

impl Pastes {
    /// Returns the text, or a placeholder for it if it is long.
    pub(super) fn shown(&self, text: String) -> String {
        let Some(size) = size_if_longer(MOST_LINES, MOST_BYTES, &text) else { return text };
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |shown: &str| pastes.iter().any(|paste| paste.shown == shown);
        let mut shown = format!("[{size} pasted]");
        let mut number = 1;
        while is_taken(&shown) {
            number += 1;
            shown = format!("[{size} pasted, {number}]");
        }
        pastes.push(LongPaste { shown: shown.clone(), text });
        shown
    }

    /// Replaces the placeholders in a line by their texts, and forgets these pastes. Returns `None` if the line has
    /// none.
    pub(super) fn take_into(&self, line: &str) -> Option<String> {
        let mut pastes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut expanded, mut used) = (line, String::new(), Vec::new());
        // Inserted text is not searched: it may contain the placeholder of another paste.
        while let Some((before, after, paste)) = pastes
            .iter()
            .filter_map(|paste| {
                let (before, after) = rest.split_once(&paste.shown)?;
                Some((before, after, paste))
            })
            .min_by_key(|(before, _, _)| before.len())
        {
            expanded.push_str(before);
            expanded.push_str(&paste.text);
            rest = after;
            used.push(paste.shown.clone());
        }
        if used.is_empty() {
            return None;
        }
        expanded.push_str(rest);
        pastes.retain(|paste| !used.contains(&paste.shown));
        Some(expanded)
    }
}

/// Describes the size of a text that exceeds one of the bounds; `None` for others.
pub(super) fn size_if_longer(most_lines: usize, most_bytes: usize, text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines <= most_lines && text.len() <= most_bytes {
        return None;
    }
    Some(if lines > 1 {
        format!("{lines} lines")
    } else {
        format!("{} characters", text.chars().count())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_gets_at_most_one_line() {
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
    fn a_long_paste_reaches_the_editor_as_a_placeholder() {
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
        assert!(means.iter().all(|means| *means == KeyEffect::More), "{means:?}");
        assert_eq!(keys.first_line(b"b\rc\x1b[201~d\re"), b"b\rc\x1b[201~d\r");
    }

    #[test]
    fn a_long_paste_is_shown_as_a_placeholder_and_sent_in_full() {
        let pastes = Pastes::default();
        let short = "a\n".repeat(MOST_LINES);
        assert_eq!(pastes.shown(short.clone()), short);
        let (first, second) = ("b\n".repeat(21), "[21 lines pasted]\n".repeat(21));
        assert_eq!(pastes.shown(first.clone()), "[21 lines pasted]");
        assert_eq!(pastes.shown(second.clone()), "[21 lines pasted, 2]");
        assert_eq!(pastes.shown("é".repeat(2000)), "[2000 characters pasted]");
        assert_eq!(pastes.take_into("[22 lines pasted]"), None);
        let line = "x [21 lines pasted, 2] y [21 lines pasted] z";
        assert_eq!(pastes.take_into(line).unwrap(), format!("x {second} y {first} z"));
        assert_eq!(pastes.take_into(line), None);
        assert!(pastes.take_into("[2000 characters pasted]").is_some());
    }
}
