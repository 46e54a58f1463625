//! Meanings of the escape sequences that terminals send.
//!
//! One function per kind of sequence, and tables for the numbers in them. The numbers of a control sequence are
//! separated by `;`, and parts of a number by `:`. The second number holds the modifiers plus one, and its second part
//! whether the key was pressed, repeated or released (kitty).

use crate::keys::{Key, KeyCode, KeyModifiers};

/// Meaning of an escape sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SequenceMeaning {
    Key(Key),
    /// Text that an input method entered without a key.
    Text(String),
    PasteBegins,
    FocusGained,
    FocusLost,
    /// An answer to a query.
    Reply,
    /// A mouse report or the release of a key.
    Ignored,
    Unknown,
}

impl From<Option<Key>> for SequenceMeaning {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Unknown, Self::Key)
    }
}

/// Returns the key of an ASCII byte outside sequences.
pub(crate) fn key_of_byte(byte: u8) -> Key {
    match byte {
        b'\r' => Key::plain(KeyCode::Enter),
        b'\t' => Key::plain(KeyCode::Tab),
        0x1b => Key::plain(KeyCode::Escape),
        0x7f => Key::plain(KeyCode::Backspace),
        0x00 => Key::ctrl(' '),
        0x01..=0x1a => Key::ctrl(char::from(byte - 1 + b'a')),
        0x1c..=0x1f => Key::ctrl(char::from(byte + b'@')),
        0x20..=0x7e | 0x80..=0xff => Key::char(char::from(byte)),
    }
}

/// Returns true if ESC, `kind` and `byte` begin an answer and not a key with alt.
pub(crate) fn begins_reply(kind: u8, byte: u8) -> bool {
    match kind {
        b']' => byte.is_ascii_digit() || matches!(byte, b'l' | b'L'),
        b'P' => byte.is_ascii_digit() || matches!(byte, b'>' | b'=' | b'!' | b'+' | b'$' | b'|'),
        b'_' => byte == b'G',
        _ => false,
    }
}

/// Returns true if the bytes are one number.
pub(crate) fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// Returns the meaning of ESC O, `parameters` and `last`.
pub(crate) fn single_shift(parameters: &[u8], last: u8) -> SequenceMeaning {
    let numbers = Numbers::parse(parameters);
    let keypad = |character| Some(Key::char(character));
    let key = match last {
        b'a'..=b'd' => {
            arrow(last - b'a' + b'A').map(|code| Key { code, modifiers: KeyModifiers::CTRL })
        }
        b'j'..=b'y' => keypad(char::from(last - b'j' + b'*')),
        b'X' => keypad('='),
        b' ' => keypad(' '),
        b'M' => Some(Key::plain(KeyCode::Enter)),
        b'I' => Some(Key::plain(KeyCode::Tab)),
        _ => letter(last).and_then(|code| numbers.key(code)),
    };
    key.into()
}

/// Returns the meaning of `ESC [`, `parameters` and `last`.
pub(crate) fn control_sequence(parameters: &[u8], last: u8) -> SequenceMeaning {
    match (parameters, last) {
        ([b'<', ..], b'M' | b'm') => return SequenceMeaning::Ignored,
        ([b'?' | b'>' | b'=', ..], _) => return SequenceMeaning::Reply,
        ([b'<', ..], _) => return SequenceMeaning::Unknown,
        ([], b'I') => return SequenceMeaning::FocusGained,
        ([], b'O') => return SequenceMeaning::FocusLost,
        (b"200", b'~') => return SequenceMeaning::PasteBegins,
        (b"201", b'~') | (_, b'M' | b'T') => return SequenceMeaning::Ignored,
        // F3 with modifiers looks like a position of the cursor. It has no meaning to the editor, so it is given up.
        ([_, ..], b'R' | b'c' | b'n' | b't' | b'x' | b'y') => return SequenceMeaning::Reply,
        _ => {}
    }
    if parameters.iter().any(|byte| (0x20..=0x2f).contains(byte)) {
        return SequenceMeaning::Unknown;
    }
    let numbers = Numbers::parse(parameters);
    if numbers.part(1, 1) == Some(3) {
        return SequenceMeaning::Ignored;
    }
    let with = |code, modifiers| Some(Key { code, modifiers });
    let ctrl_shift = KeyModifiers { ctrl: true, alt: false, shift: true };
    let code = || numbered(numbers.part(0, 0)?);
    match last {
        b'u' => numbers.unicode_key(),
        b'~' if numbers.part(0, 0) == Some(27) && numbers.part(2, 0).is_some() => {
            numbers.modified_key().into()
        }
        b'~' => code().and_then(|code| numbers.key(code)).into(),
        b'^' => code().and_then(|code| with(code, KeyModifiers::CTRL)).into(),
        b'@' => code().and_then(|code| with(code, ctrl_shift)).into(),
        b'$' => code().and_then(|code| with(code, KeyModifiers::SHIFT)).into(),
        b'a'..=b'd' => {
            arrow(last - b'a' + b'A').and_then(|code| with(code, KeyModifiers::SHIFT)).into()
        }
        b'Z' => numbers.key(KeyCode::BackTab).map(normalised).into(),
        _ => letter(last).and_then(|code| numbers.key(code)).into(),
    }
}

/// The numbers of a control sequence. A number that is missing is `None`.
#[derive(Debug)]
struct Numbers(Vec<Vec<Option<u32>>>);

impl Numbers {
    fn parse(parameters: &[u8]) -> Self {
        let parts = |number: &[u8]| number.split(|byte| *byte == b':').map(parse_number).collect();
        Self(parameters.split(|byte| *byte == b';').map(parts).collect())
    }

    fn part(&self, number: usize, part: usize) -> Option<u32> {
        *self.0.get(number)?.get(part)?
    }

    /// Returns the modifiers, or `None` if one is held that is not known here. Old terminals send them as the only
    /// number of an arrow key.
    fn modifiers(&self, code: KeyCode) -> Option<KeyModifiers> {
        let is_arrow = matches!(code, KeyCode::Up | KeyCode::Down | KeyCode::Left | KeyCode::Right);
        let number = if is_arrow { self.0.len().min(2) - 1 } else { 1 };
        modifiers(self.part(number, 0).unwrap_or(1))
    }

    fn key(&self, code: KeyCode) -> Option<Key> {
        Some(Key { code, modifiers: self.modifiers(code)? })
    }

    /// Returns the key of `CSI 27 ; modifiers ; character ~`.
    fn modified_key(&self) -> Option<Key> {
        let code = code_of_character(self.part(2, 0)?)?;
        Some(normalised(Key { code, modifiers: modifiers(self.part(1, 0)?)? }))
    }

    /// Returns the meaning of `CSI character : shifted : base ; modifiers : event ; text u`.
    fn unicode_key(&self) -> SequenceMeaning {
        let Some(modifiers) = modifiers(self.part(1, 0).unwrap_or(1)) else {
            return SequenceMeaning::Unknown;
        };
        let has_command = modifiers.ctrl || modifiers.alt;
        let text: String = self.0.get(2).map_or_else(String::new, |parts| {
            parts.iter().flatten().filter_map(|part| char::from_u32(*part)).collect()
        });
        if !has_command && !text.is_empty() && !text.contains(char::is_control) {
            return SequenceMeaning::Text(text);
        }
        let number = self.part(0, 0).unwrap_or(0);
        let shifted = self.part(0, 1).filter(|_| modifiers.shift && !modifiers.ctrl);
        // Shortcuts of keyboards without Latin letters are found by the key's place on the standard keyboard.
        let base = self.part(0, 2).filter(|_| has_command && number > 0x7f && number < 57_344);
        let code = code_of_character(base.or(shifted).unwrap_or(number));
        code.map(|code| normalised(Key { code, modifiers })).into()
    }
}

fn parse_number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the modifiers of a number, which has one bit each above 1. Super, hyper and meta are not known; the locks
/// do not matter.
fn modifiers(number: u32) -> Option<KeyModifiers> {
    let bits = number.saturating_sub(1);
    let has = |bit| bits & bit != 0;
    (!has(8 | 16 | 32)).then(|| KeyModifiers { shift: has(1), alt: has(2), ctrl: has(4) })
}

/// Gives a key its only form: shift is part of a character, and of back-tab.
fn normalised(key: Key) -> Key {
    let Key { mut code, mut modifiers } = key;
    if let KeyCode::Char(character) = code {
        if modifiers.ctrl {
            code = KeyCode::Char(single(character.to_lowercase(), character));
        } else if modifiers.shift {
            code = KeyCode::Char(single(character.to_uppercase(), character));
            modifiers.shift = false;
        }
    } else if code == KeyCode::BackTab || (code == KeyCode::Tab && modifiers.shift) {
        code = KeyCode::BackTab;
        modifiers.shift = false;
    }
    Key { code, modifiers }
}

/// Returns the only character of `converted`, or `otherwise` if there are several.
fn single(mut converted: impl Iterator<Item = char>, otherwise: char) -> char {
    match (converted.next(), converted.next()) {
        (Some(character), None) => character,
        (None | Some(_), _) => otherwise,
    }
}

fn arrow(last: u8) -> Option<KeyCode> {
    match last {
        b'A' => Some(KeyCode::Up),
        b'B' => Some(KeyCode::Down),
        b'C' => Some(KeyCode::Right),
        b'D' => Some(KeyCode::Left),
        _ => None,
    }
}

fn letter(last: u8) -> Option<KeyCode> {
    match last {
        b'F' => Some(KeyCode::End),
        b'H' => Some(KeyCode::Home),
        b'P'..=b'S' => Some(KeyCode::Function(last - b'P' + 1)),
        _ => arrow(last),
    }
}

/// Returns the key of the number before `~`.
fn numbered(number: u32) -> Option<KeyCode> {
    let code = match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => function(number - 10)?,
        17..=21 => function(number - 11)?,
        23..=26 => function(number - 12)?,
        28 | 29 => function(number - 13)?,
        31..=34 => function(number - 14)?,
        _ => return None,
    };
    Some(code)
}

fn function(number: u32) -> Option<KeyCode> {
    u8::try_from(number).ok().map(KeyCode::Function)
}

/// Returns the key of a number of the kitty protocol or of modifyOtherKeys.
fn code_of_character(number: u32) -> Option<KeyCode> {
    let code = match number {
        9 => KeyCode::Tab,
        13 | 57_414 => KeyCode::Enter,
        27 => KeyCode::Escape,
        8 | 127 => KeyCode::Backspace,
        57_376..=57_398 => function(number - 57_363)?,
        57_399..=57_408 => KeyCode::Char(char::from_digit(number - 57_399, 10)?),
        57_409 => KeyCode::Char('.'),
        57_410 => KeyCode::Char('/'),
        57_411 => KeyCode::Char('*'),
        57_412 => KeyCode::Char('-'),
        57_413 => KeyCode::Char('+'),
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        57_417 => KeyCode::Left,
        57_418 => KeyCode::Right,
        57_419 => KeyCode::Up,
        57_420 => KeyCode::Down,
        57_421 => KeyCode::PageUp,
        57_422 => KeyCode::PageDown,
        57_423 => KeyCode::Home,
        57_424 => KeyCode::End,
        57_425 => KeyCode::Insert,
        57_426 => KeyCode::Delete,
        // Locks, media keys and modifiers on their own, and control characters.
        0..=31 | 57_344..=63_743 => return None,
        _ => KeyCode::Char(char::from_u32(number)?),
    };
    Some(code)
}
