//! What is typed at a terminal at which events are shown at the same time: bytes are read without blocking a thread, which
//! would swallow the next line after a cancel, and turned into lines.
//!
//! [`LineInputBuffer`] is a state machine over single bytes, so that its result does not depend on how reads cut the
//! input. State beside the text: an incomplete UTF-8 character (`partial`), the position in an escape sequence
//! ([`Sequence`]) and whether a bracketed paste is open. In a paste, line ends and tabs are text and other control
//! characters are dropped.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::isatty,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Length of the text, in bytes, from which further characters are dropped.
const LONGEST: usize = 1024 * 1024;
/// Maximum number of bytes of an escape sequence after `ESC [`; a longer one is abandoned.
const LONGEST_SEQUENCE: usize = 32;

const PASTE_BEGINS: &[u8] = b"200~";
const PASTE_ENDS: &[u8] = b"201~";

/// Result of a key that ends or interrupts the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypedLine {
    /// A complete line; contains line ends that were pasted or typed with a backslash or Alt.
    Line(String),
    /// Ctrl-d on an empty line.
    EndOfInput,
    /// Ctrl-z.
    Suspend,
    /// Ctrl-l.
    Redraw,
}

/// The line that is being typed. Keys that move the cursor do nothing: editing happens at the end only.
#[derive(Debug, Default)]
pub struct LineInputBuffer {
    text: String,
    /// Bytes of an incomplete UTF-8 character.
    partial: Vec<u8>,
    sequence: Sequence,
    pasting: bool,
}

/// Position in an escape sequence.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// After ESC.
    Begun,
    /// After ESC O: one byte ends it.
    Single,
    /// After `ESC [`, with the bytes since.
    Control(Vec<u8>),
}

impl LineInputBuffer {
    /// Processes bytes and returns the lines and keys that they complete. The bytes may end in the middle of a
    /// character, an escape sequence or a paste.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<TypedLine> {
        bytes.iter().filter_map(|byte| self.push_byte(*byte)).collect()
    }

    /// Returns the text of the unfinished line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the text and returns the previous one.
    pub fn replace(&mut self, text: String) -> String {
        self.partial.clear();
        std::mem::replace(&mut self.text, text)
    }

    /// Inserts a text before the current one, on lines of its own.
    pub fn put_before(&mut self, text: &str) {
        let between = if self.text.is_empty() { "" } else { "\n" };
        self.text.insert_str(0, between);
        self.text.insert_str(0, text);
    }

    fn push_byte(&mut self, byte: u8) -> Option<TypedLine> {
        match std::mem::take(&mut self.sequence) {
            Sequence::None => return self.push_plain(byte),
            Sequence::Begun => match byte {
                b'[' => self.sequence = Sequence::Control(Vec::new()),
                b'O' => self.sequence = Sequence::Single,
                0x1b => self.sequence = Sequence::Begun,
                // Alt-Enter inserts a line end; other keys with Alt do nothing.
                b'\r' | b'\n' => self.add('\n'),
                _ => {}
            },
            Sequence::Single => {}
            Sequence::Control(mut so_far) => {
                so_far.push(byte);
                if (0x40..=0x7e).contains(&byte) || so_far.len() > LONGEST_SEQUENCE {
                    self.end_sequence(&so_far);
                } else {
                    self.sequence = Sequence::Control(so_far);
                }
            }
        }
        None
    }

    fn end_sequence(&mut self, sequence: &[u8]) {
        match sequence {
            PASTE_BEGINS => self.pasting = true,
            PASTE_ENDS => self.pasting = false,
            _ => {}
        }
    }

    fn push_plain(&mut self, byte: u8) -> Option<TypedLine> {
        if !matches!(byte, 0x80..=0xff) {
            self.partial.clear();
        }
        match byte {
            0x1b => self.sequence = Sequence::Begun,
            b'\r' | b'\n' if self.pasting => self.add('\n'),
            b'\t' if self.pasting => self.add('\t'),
            b'\r' | b'\n' => return self.enter(),
            b'\t' => self.add(' '),
            0x00..=0x1f | 0x7f if self.pasting => {}
            0x7f | 0x08 => {
                self.text.pop();
            }
            // Ctrl-u, ctrl-w, ctrl-d, ctrl-z, ctrl-l, in this order.
            0x15 => self.text.clear(),
            0x17 => self.drop_word(),
            0x04 if self.text.is_empty() => return Some(TypedLine::EndOfInput),
            0x1a => return Some(TypedLine::Suspend),
            0x0c => return Some(TypedLine::Redraw),
            0x00..=0x1f => {}
            b' '..=b'~' => self.add(char::from(byte)),
            0x80..=0xff => self.push_part(byte),
        }
        None
    }

    /// Ends the line, unless it ends with a backslash, which continues it on a further line.
    fn enter(&mut self) -> Option<TypedLine> {
        if self.text.ends_with('\\') {
            self.text.pop();
            self.text.push('\n');
            return None;
        }
        Some(TypedLine::Line(std::mem::take(&mut self.text)))
    }

    fn push_part(&mut self, byte: u8) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let character = text.chars().next();
                self.partial.clear();
                if let Some(character) = character {
                    self.add(character);
                }
            }
            Err(error) if error.error_len().is_some() => {
                self.partial.clear();
                self.add(char::REPLACEMENT_CHARACTER);
            }
            Err(_) => {}
        }
    }

    fn add(&mut self, character: char) {
        if self.text.len() < LONGEST {
            self.text.push(character);
        }
    }

    fn drop_word(&mut self) {
        let end = self.text.trim_end();
        let end = end.trim_end_matches(|character: char| !character.is_whitespace()).len();
        self.text.truncate(end);
    }
}

/// Maximum number of bytes per read.
const CHUNK: usize = 4096;
/// Timeout of a poll that does not wait.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Reader of the bytes typed at a terminal, or sent through a pipe.
#[derive(Debug)]
pub struct Keyboard {
    input: AsyncFd<OwnedFd>,
    is_terminal: bool,
}

impl Keyboard {
    /// Registers a duplicate of the current standard input, which must be a terminal or a pipe.
    ///
    /// # Errors
    /// Fails for a file, which cannot be waited for.
    pub fn new() -> io::Result<Self> {
        Self::from_descriptor(io::stdin().as_fd().try_clone_to_owned()?)
    }

    /// Registers a terminal or a pipe.
    ///
    /// # Errors
    /// Fails for a file that cannot be waited for.
    #[expect(
        deprecated,
        reason = "its successor needs `unsafe`; the descriptor here is owned and stays open"
    )]
    pub fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        let is_terminal = isatty(&descriptor);
        let input = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Self { input, is_terminal })
    }

    /// Returns true if a person types at a terminal, which shows what is typed.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Waits for input and returns it; the bytes are empty at the end of input. Safe to drop at any time.
    pub async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut guard = self.input.readable().await?;
            // Another reader may have taken the input since, and readiness is reported for new input only.
            if !self.has_input()? {
                guard.clear_ready();
                continue;
            }
            let mut bytes = vec![0; CHUNK];
            match rustix::io::read(guard.get_inner(), &mut bytes) {
                Ok(length) => {
                    bytes.truncate(length);
                    return Ok(bytes);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns true if a read would not block.
    ///
    /// # Errors
    /// Fails with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the terminal hung up, or if the pipe is closed and
    /// empty.
    fn has_input(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
        match poll(&mut fds, Some(&NO_TIME)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => {
                let events = fds[0].revents();
                // A pipe is read to its end after the writer has closed it.
                let unread = !self.is_terminal && events.contains(PollFlags::IN);
                let gone = events.contains(PollFlags::HUP) && !unread;
                if gone { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(true) }
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> TypedLine {
        TypedLine::Line(text.to_owned())
    }

    #[test]
    fn keys_become_lines() {
        let table: [(&[u8], Vec<TypedLine>, &str); 18] = [
            (b"yes\n", vec![line("yes")], ""),
            (b"yes\rno\rrest", vec![line("yes"), line("no")], "rest"),
            ("grün 漢字".as_bytes(), vec![], "grün 漢字"),
            ("漢字\u{7f}".as_bytes(), vec![], "漢"),
            (b"one two  \x17", vec![], "one "),
            (b"one two\x15three", vec![], "three"),
            (b"\x7f\x7fa", vec![], "a"),
            (b"\x04", vec![TypedLine::EndOfInput], ""),
            (b"a\x04", vec![], "a"),
            (b"a\x1a", vec![TypedLine::Suspend], "a"),
            (b"a\x0c", vec![TypedLine::Redraw], "a"),
            (b"a\x1b[D\x1b[1;5C\x1bOAb\x1bfc", vec![], "abc"),
            (b"\x1b[200~one\r\ttwo\nthree\x1b[201~\r", vec![line("one\n\ttwo\nthree")], ""),
            (b"\x1b[200~one\x03\x15\x1b[A\x7f", vec![], "one"),
            (b"one\\\rtwo\r", vec![line("one\ntwo")], ""),
            (b"one\x1b\rtwo\r", vec![line("one\ntwo")], ""),
            (b"a\xffb", vec![], "a\u{fffd}b"),
            (b"a\xe6\xbcb", vec![], "ab"),
        ];
        for (bytes, expected, rest) in table {
            let mut whole = LineInputBuffer::default();
            assert_eq!(whole.push(bytes), expected, "{bytes:?}");
            assert_eq!(whole.text(), rest, "{bytes:?}");
            let mut split = LineInputBuffer::default();
            let one_by_one: Vec<_> = bytes.chunks(1).flat_map(|byte| split.push(byte)).collect();
            assert_eq!((one_by_one, split.text()), (expected, rest), "{bytes:?}");
        }
    }

    #[test]
    fn the_length_of_the_input_is_bounded() {
        let mut typing = LineInputBuffer::default();
        typing.push(&vec![b'x'; LONGEST + 10]);
        assert_eq!(typing.text().len(), LONGEST);
    }

    #[test]
    fn an_endless_escape_sequence_is_abandoned() {
        let mut typing = LineInputBuffer::default();
        typing.push(b"\x1b[");
        typing.push(&[b'1'; 100]);
        assert_eq!(typing.sequence, Sequence::None);
    }
}
