//! From the bytes that a terminal sends to lines, while something else is on the screen.

/// The longest text that is collected, in bytes. What is typed beyond it is lost.
const LONGEST: usize = 1024 * 1024;
/// The longest escape sequence that is recognised.
const LONGEST_SEQUENCE: usize = 32;

const PASTE_BEGINS: &[u8] = b"200~";
const PASTE_ENDS: &[u8] = b"201~";

/// What the keys came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypedLine {
    /// A line, which may hold line ends that were pasted.
    Line(String),
    /// Ctrl-d where nothing is typed.
    EndOfInput,
    /// Ctrl-z.
    Suspend,
    /// Ctrl-l.
    Redraw,
}

/// The line that is being typed. Keys that move a cursor do nothing: there is room for one line only.
#[derive(Debug, Default)]
pub(crate) struct LineInputBuffer {
    text: String,
    /// The beginning of a character whose other bytes are still to come.
    partial: Vec<u8>,
    sequence: Sequence,
    pasting: bool,
}

/// Where in an escape sequence the next byte stands.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// After ESC.
    Begun,
    /// After ESC O: one byte ends it.
    Single,
    /// After ESC [, with what came since.
    Control(Vec<u8>),
}

impl LineInputBuffer {
    /// Takes bytes in. They may end in the middle of a character, a sequence or a paste.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<TypedLine> {
        bytes.iter().filter_map(|byte| self.push_byte(*byte)).collect()
    }

    /// Returns what is typed so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Goes on with another text and returns the one before.
    pub(crate) fn replace(&mut self, text: String) -> String {
        self.partial.clear();
        std::mem::replace(&mut self.text, text)
    }

    /// Puts a text before what is typed, in lines of its own.
    pub(crate) fn put_before(&mut self, text: &str) {
        let between = if self.text.is_empty() { "" } else { "\n" };
        self.text.insert_str(0, between);
        self.text.insert_str(0, text);
    }

    /// Adds a text behind what is typed.
    pub(crate) fn append(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Takes the bytes that begin something: the paste that goes on, and half of a character.
    pub(crate) fn take_unfinished(&mut self) -> Vec<u8> {
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
                // Alt and Enter make a new line, other keys with Alt do nothing.
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
            // ctrl-u, ctrl-w, ctrl-d, ctrl-z, ctrl-l
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

    /// A backslash at the end continues on a further line.
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
        let kept = self.text.trim_end();
        let kept = kept.trim_end_matches(|character: char| !character.is_whitespace()).len();
        self.text.truncate(kept);
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
        for (bytes, expected, left) in table {
            let mut whole = LineInputBuffer::default();
            assert_eq!(whole.push(bytes), expected, "{bytes:?}");
            assert_eq!(whole.text(), left, "{bytes:?}");
            let mut split = LineInputBuffer::default();
            let one_by_one: Vec<_> = bytes.chunks(1).flat_map(|byte| split.push(byte)).collect();
            assert_eq!((one_by_one, split.text()), (expected, left), "{bytes:?}");
        }
    }

    #[test]
    fn a_half_character_and_an_open_paste_can_go_on_elsewhere() {
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
    fn what_is_typed_is_bounded() {
        let mut typing = LineInputBuffer::default();
        typing.push(&vec![b'x'; LONGEST + 10]);
        assert_eq!(typing.text().len(), LONGEST);
    }

    #[test]
    fn an_endless_sequence_ends() {
        let mut typing = LineInputBuffer::default();
        typing.push(b"\x1b[");
        typing.push(&[b'1'; 100]);
        assert_eq!(typing.sequence, Sequence::None);
    }
}
