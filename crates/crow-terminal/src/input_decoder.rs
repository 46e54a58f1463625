//! Turns the bytes of a terminal into events.
//!
//! The decoder is a state machine over single bytes, so its events do not depend on how reads cut the input. Escape
//! sequences are collected in `sequence` until their last byte and then looked up (`key_sequences`). Bytes between the
//! marks of a bracketed paste are text and never looked at. Some sequences begin like a key with alt (`ESC [` is also
//! alt-[): these, and a lone ESC, are decided by [`InputDecoder::flush`] after a short time without input. Answers that
//! have no end are given up at the first control character, so the keyboard never stays dead.

use crate::{
    key_sequences::{self, SequenceMeaning},
    keys::{InputEvent, Key, KeyCode},
};

/// Length of a paste, in bytes, from which it is delivered in parts.
const LONGEST_PASTE: usize = 16 * 1024 * 1024;
/// Maximum number of bytes of a control sequence. Further bytes are dropped, and its meaning is unknown.
const LONGEST_SEQUENCE: usize = 256;
/// Maximum number of bytes of an answer to a query. Further bytes are dropped.
const LONGEST_REPLY: usize = 64 * 1024;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Decoder of terminal input.
#[derive(Debug, Default)]
pub(crate) struct InputDecoder {
    state: DecoderState,
    /// Bytes of the current control sequence after its introducer, or of an answer or a paste as a whole.
    sequence: Vec<u8>,
    /// Bytes of an incomplete UTF-8 character.
    character: Vec<u8>,
    /// Whether the incomplete character came after ESC.
    character_prefix: Prefix,
    longest_paste: Option<usize>,
}

/// Whether ESC came before a key or a sequence, as it does with alt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Prefix {
    #[default]
    None,
    Escape,
}

impl Prefix {
    fn apply(self, key: Key) -> Key {
        match self {
            Self::None => key,
            Self::Escape => key.with_alt(),
        }
    }
}

/// Position in the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DecoderState {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC ESC.
    SecondEscape,
    /// After ESC and a byte that begins an answer if the next one fits.
    StringIntroducer(u8),
    /// After `ESC [`.
    Control(Prefix),
    /// After `ESC [ [`, with which function keys of the Linux console begin.
    LinuxFunction(Prefix),
    /// After ESC O.
    Single(Prefix),
    /// In the bytes of an old mouse report, of which so many are missing.
    MouseBytes(u8),
    /// In an answer that ends with BEL or ESC \.
    ReplyString,
    /// After ESC in an answer.
    ReplyStringEscape,
    Paste,
}

impl InputDecoder {
    /// Processes bytes and returns the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<InputEvent> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            if self.state == DecoderState::Paste {
                rest = self.push_pasted(rest, &mut events);
            } else {
                rest = after;
                self.push_byte(*byte, &mut events);
            }
        }
        events
    }

    /// Returns true if the bytes so far may be a key, which [`flush`](Self::flush) decides.
    pub(crate) fn needs_flush(&self) -> bool {
        match self.state {
            DecoderState::Escape
            | DecoderState::SecondEscape
            | DecoderState::StringIntroducer(_)
            | DecoderState::ReplyStringEscape => true,
            DecoderState::Control(_) | DecoderState::Single(_) => self.sequence.is_empty(),
            DecoderState::Ground
            | DecoderState::LinuxFunction(_)
            | DecoderState::MouseBytes(_)
            | DecoderState::ReplyString
            | DecoderState::Paste => false,
        }
    }

    /// Returns the keys that the bytes so far are, if nothing follows them. The caller calls it about 25 ms after
    /// the last input. Longer sequences, pastes and characters continue to wait for their end.
    pub(crate) fn flush(&mut self) -> Vec<InputEvent> {
        if !self.needs_flush() {
            return Vec::new();
        }
        let escape = Key::plain(KeyCode::Escape);
        let introduced = |prefix, character| match prefix {
            Prefix::None => vec![Key::alt(character)],
            Prefix::Escape => vec![escape, Key::alt(character)],
        };
        let keys = match std::mem::take(&mut self.state) {
            DecoderState::Escape | DecoderState::ReplyStringEscape => vec![escape],
            DecoderState::SecondEscape => vec![escape, escape],
            DecoderState::StringIntroducer(byte) => vec![Key::alt(char::from(byte))],
            DecoderState::Control(prefix) => introduced(prefix, '['),
            DecoderState::Single(prefix) => introduced(prefix, 'O'),
            DecoderState::Ground
            | DecoderState::LinuxFunction(_)
            | DecoderState::MouseBytes(_)
            | DecoderState::ReplyString
            | DecoderState::Paste => Vec::new(),
        };
        self.sequence.clear();
        keys.into_iter().map(InputEvent::Key).collect()
    }

    /// Delivers pastes in parts of so many bytes, so that tests need not paste megabytes.
    #[cfg(test)]
    pub(crate) fn with_longest_paste(bytes: usize) -> Self {
        Self { longest_paste: Some(bytes), ..Self::default() }
    }

    fn push_byte(&mut self, byte: u8, events: &mut Vec<InputEvent>) {
        match self.state {
            DecoderState::Ground => self.push_ground(byte, Prefix::None, events),
            DecoderState::Escape => self.push_after_escape(byte, events),
            DecoderState::SecondEscape => self.push_after_second_escape(byte, events),
            DecoderState::StringIntroducer(kind) => self.push_introduced(kind, byte, events),
            DecoderState::Control(prefix) => self.push_control(byte, prefix, events),
            DecoderState::LinuxFunction(prefix) => {
                self.state = DecoderState::Ground;
                match byte {
                    b'A'..=b'E' => {
                        let key = Key::plain(KeyCode::Function(byte - b'A' + 1));
                        events.push(InputEvent::Key(prefix.apply(key)));
                    }
                    _ => self.give_up(byte, events),
                }
            }
            DecoderState::Single(prefix) => self.push_single(byte, prefix, events),
            DecoderState::MouseBytes(missing) => {
                self.state = match missing {
                    0 | 1 => DecoderState::Ground,
                    _ => DecoderState::MouseBytes(missing - 1),
                };
            }
            DecoderState::ReplyString => self.push_reply(byte, events),
            DecoderState::ReplyStringEscape if byte == b'\\' => {
                self.sequence.extend_from_slice(b"\x1b\\");
                self.finish_reply(events);
            }
            DecoderState::ReplyStringEscape => {
                self.sequence.clear();
                events.push(InputEvent::Unknown);
                self.state = DecoderState::Escape;
                self.push_byte(byte, events);
            }
            // Bytes of a paste are taken in blocks by `push`.
            DecoderState::Paste => self.sequence.push(byte),
        }
    }

    fn push_ground(&mut self, byte: u8, prefix: Prefix, events: &mut Vec<InputEvent>) {
        self.state = DecoderState::Ground;
        if byte >= 0x80 || !self.character.is_empty() {
            self.push_part(byte, prefix, events);
        } else if byte == ESCAPE {
            self.state = DecoderState::Escape;
        } else {
            let key = prefix.apply(key_sequences::key_of_byte(byte));
            events.push(InputEvent::Key(key));
        }
    }

    /// Adds a byte to the incomplete character.
    fn push_part(&mut self, byte: u8, prefix: Prefix, events: &mut Vec<InputEvent>) {
        if self.character.is_empty() {
            self.character_prefix = prefix;
        }
        self.character.push(byte);
        let (character, is_byte_left) = match std::str::from_utf8(&self.character) {
            Ok(text) => (text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER), false),
            Err(error) => match error.error_len() {
                None => return,
                Some(length) => (char::REPLACEMENT_CHARACTER, length < self.character.len()),
            },
        };
        self.character.clear();
        events.push(InputEvent::Key(self.character_prefix.apply(Key::char(character))));
        if is_byte_left {
            self.push_byte(byte, events);
        }
    }

    fn push_after_escape(&mut self, byte: u8, events: &mut Vec<InputEvent>) {
        match byte {
            ESCAPE => self.state = DecoderState::SecondEscape,
            b'[' => self.state = DecoderState::Control(Prefix::None),
            b'O' => self.state = DecoderState::Single(Prefix::None),
            b']' | b'P' | b'_' => self.state = DecoderState::StringIntroducer(byte),
            _ => self.push_ground(byte, Prefix::Escape, events),
        }
    }

    /// After two escapes, only a sequence belongs to them: rxvt sends it with alt. Otherwise the first one was the
    /// escape key.
    fn push_after_second_escape(&mut self, byte: u8, events: &mut Vec<InputEvent>) {
        match byte {
            b'[' => self.state = DecoderState::Control(Prefix::Escape),
            b'O' => self.state = DecoderState::Single(Prefix::Escape),
            _ => {
                events.push(InputEvent::Key(Key::plain(KeyCode::Escape)));
                self.state = DecoderState::Escape;
                self.push_byte(byte, events);
            }
        }
    }

    fn push_introduced(&mut self, kind: u8, byte: u8, events: &mut Vec<InputEvent>) {
        if key_sequences::begins_reply(kind, byte) {
            self.sequence.extend_from_slice(&[ESCAPE, kind, byte]);
            self.state = DecoderState::ReplyString;
        } else {
            events.push(InputEvent::Key(Key::alt(char::from(kind))));
            self.state = DecoderState::Ground;
            self.push_byte(byte, events);
        }
    }

    fn push_control(&mut self, byte: u8, prefix: Prefix, events: &mut Vec<InputEvent>) {
        match byte {
            b'[' if self.sequence.is_empty() => self.state = DecoderState::LinuxFunction(prefix),
            b'M' if self.sequence.is_empty() => self.state = DecoderState::MouseBytes(3),
            b'$' if key_sequences::is_number(&self.sequence) => {
                self.finish_control(byte, prefix, events);
            }
            0x20..=0x3f => self.push_parameter(byte),
            0x40..=0x7e => self.finish_control(byte, prefix, events),
            0x00..=0x1f | 0x7f..=0xff => self.give_up(byte, events),
        }
    }

    fn push_single(&mut self, byte: u8, prefix: Prefix, events: &mut Vec<InputEvent>) {
        match byte {
            b'0'..=b'9' | b';' => self.push_parameter(byte),
            0x20..=0x7e => {
                let meaning = key_sequences::single_shift(&self.sequence, byte);
                self.finish(meaning, prefix, events);
            }
            0x00..=0x1f | 0x7f..=0xff => self.give_up(byte, events),
        }
    }

    /// Adds a byte to a sequence. One byte more than the maximum is kept, as a sign that it is too long.
    fn push_parameter(&mut self, byte: u8) {
        if self.sequence.len() <= LONGEST_SEQUENCE {
            self.sequence.push(byte);
        }
    }

    fn finish_control(&mut self, last: u8, prefix: Prefix, events: &mut Vec<InputEvent>) {
        let meaning = if self.sequence.len() > LONGEST_SEQUENCE {
            SequenceMeaning::Unknown
        } else {
            key_sequences::control_sequence(&self.sequence, last)
        };
        if meaning == SequenceMeaning::Reply {
            let mut bytes = b"\x1b[".to_vec();
            bytes.append(&mut self.sequence);
            bytes.push(last);
            events.push(InputEvent::Reply(bytes));
            self.state = DecoderState::Ground;
        } else {
            self.finish(meaning, prefix, events);
        }
    }

    fn finish(&mut self, meaning: SequenceMeaning, prefix: Prefix, events: &mut Vec<InputEvent>) {
        self.sequence.clear();
        self.state = DecoderState::Ground;
        match meaning {
            SequenceMeaning::Key(key) => events.push(InputEvent::Key(prefix.apply(key))),
            SequenceMeaning::Text(text) => {
                events.extend(text.chars().map(|character| InputEvent::Key(Key::char(character))));
            }
            SequenceMeaning::PasteBegins => self.state = DecoderState::Paste,
            SequenceMeaning::FocusGained => events.push(InputEvent::FocusGained),
            SequenceMeaning::FocusLost => events.push(InputEvent::FocusLost),
            SequenceMeaning::Ignored => {}
            SequenceMeaning::Reply | SequenceMeaning::Unknown => events.push(InputEvent::Unknown),
        }
    }

    /// Drops the current sequence at a byte that cannot be part of it and has a meaning of its own.
    fn give_up(&mut self, byte: u8, events: &mut Vec<InputEvent>) {
        self.sequence.clear();
        events.push(InputEvent::Unknown);
        self.state = DecoderState::Ground;
        self.push_byte(byte, events);
    }

    fn push_reply(&mut self, byte: u8, events: &mut Vec<InputEvent>) {
        match byte {
            BELL => {
                self.sequence.push(byte);
                self.finish_reply(events);
            }
            ESCAPE => self.state = DecoderState::ReplyStringEscape,
            // An answer has no control characters: its end was lost.
            0x00..=0x1f => self.give_up(byte, events),
            0x20..=0xff if self.sequence.len() < LONGEST_REPLY => self.sequence.push(byte),
            0x20..=0xff => {}
        }
    }

    fn finish_reply(&mut self, events: &mut Vec<InputEvent>) {
        events.push(InputEvent::Reply(std::mem::take(&mut self.sequence)));
        self.state = DecoderState::Ground;
    }

    /// Takes bytes of a paste up to a byte that may end it, and returns the rest.
    fn push_pasted<'a>(&mut self, bytes: &'a [u8], events: &mut Vec<InputEvent>) -> &'a [u8] {
        let longest = self.longest_paste.unwrap_or(LONGEST_PASTE);
        let room = longest + PASTE_ENDS.len() - self.sequence.len();
        let last = PASTE_ENDS[PASTE_ENDS.len() - 1];
        let until_mark =
            bytes.iter().position(|byte| *byte == last).map_or(bytes.len(), |at| at + 1);
        let (taken, rest) = bytes.split_at(until_mark.min(room));
        self.sequence.extend_from_slice(taken);
        if self.sequence.ends_with(PASTE_ENDS) {
            let mut paste = std::mem::take(&mut self.sequence);
            paste.truncate(paste.len() - PASTE_ENDS.len());
            events.push(paste_event(&paste));
            self.state = DecoderState::Ground;
        } else if self.sequence.len() >= longest + PASTE_ENDS.len() {
            // The mark is not in the first `longest` bytes, but may begin in those that are kept.
            let part = start_of_character(&self.sequence, longest);
            let kept = self.sequence.split_off(part);
            events.push(paste_event(&std::mem::replace(&mut self.sequence, kept)));
        }
        rest
    }
}

fn paste_event(bytes: &[u8]) -> InputEvent {
    InputEvent::Paste(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the start of the UTF-8 character that contains the byte at `position`, or `position` if the bytes before
/// are no UTF-8.
fn start_of_character(bytes: &[u8], position: usize) -> usize {
    let is_continuation = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let start = (position.saturating_sub(3)..=position).rev().find(|at| !is_continuation(at));
    start.filter(|start| *start > 0).unwrap_or(position)
}
