//! A line editor for a terminal in which events are shown at the same time: turns the bytes of the terminal into lines.
//!
//! [`LineInputBuffer`] is a state machine over single bytes, so that its result does not depend on how reads cut the
//! input. State beside the text: an incomplete UTF-8 character (`partial`), the position in an escape sequence
//! ([`Sequence`]) and whether a bracketed paste is open. In a paste, line ends and tabs are text and other control
//! characters are dropped.

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

    /// Appends a text.
    pub fn append(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Takes the unfinished state as bytes, for another editor to continue with: the start of an open paste, and an
    /// incomplete character.
    pub fn take_unfinished(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if std::mem::take(&mut self.pasting) {
            bytes.extend_from_slice(b"\x1b[");
            bytes.extend_from_slice(PASTE_BEGINS);
        }
        bytes.append(&mut self.partial);
        bytes
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
    fn an_incomplete_character_and_an_open_paste_are_handed_over() {
        let table: [(&[u8], &[u8]); 3] = [
            (b"a\xe6\xbc", b"\xe6\xbc"),
            (b"\x1b[200~one\r", b"\x1b[200~"),
            (b"\x1b[200~one\x1b[201~", b""),
        ];
        for (bytes, expected) in table {
            let mut typing = LineInputBuffer::default();
            typing.push(bytes);
            assert_eq!(typing.take_unfinished(), expected, "{bytes:?}");
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
