//! Keys and other events of a terminal's input, independent of the terminal's encoding.
//!
//! A key has one form only, whatever protocol it arrived by. Shift is part of a character (`A`, not `a` with shift)
//! unless ctrl is held, where the character is in lower case and shift is a modifier. Shift and tab are
//! [`KeyCode::BackTab`].

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum KeyCode {
    Char(char),
    Enter,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Insert,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Escape,
    /// F1 has the number 1.
    Function(u8),
}

/// The keys that are held while another one is pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyModifiers {
    pub(crate) ctrl: bool,
    pub(crate) alt: bool,
    pub(crate) shift: bool,
}

impl KeyModifiers {
    pub(crate) const NONE: Self = Self { ctrl: false, alt: false, shift: false };
    pub(crate) const CTRL: Self = Self { ctrl: true, alt: false, shift: false };
    pub(crate) const ALT: Self = Self { ctrl: false, alt: true, shift: false };
    pub(crate) const SHIFT: Self = Self { ctrl: false, alt: false, shift: true };
}

/// A key as it was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) code: KeyCode,
    pub(crate) modifiers: KeyModifiers,
}

impl Key {
    /// Creates a key without modifiers.
    pub(crate) const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: KeyModifiers::NONE }
    }

    /// Creates the key of a character without modifiers.
    pub(crate) const fn char(character: char) -> Self {
        Self::plain(KeyCode::Char(character))
    }

    /// Creates the key of a character with ctrl.
    pub(crate) const fn ctrl(character: char) -> Self {
        Self { code: KeyCode::Char(character), modifiers: KeyModifiers::CTRL }
    }

    /// Creates the key of a character with alt.
    pub(crate) const fn alt(character: char) -> Self {
        Self { code: KeyCode::Char(character), modifiers: KeyModifiers::ALT }
    }

    /// Returns the key with alt.
    #[must_use]
    pub(crate) const fn with_alt(mut self) -> Self {
        self.modifiers.alt = true;
        self
    }
}

/// Input from a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputEvent {
    Key(Key),
    /// Text of a bracketed paste, with its line ends and control characters as they were sent. A paste of more than
    /// 16 MiB arrives in parts.
    Paste(String),
    FocusGained,
    FocusLost,
    /// The bytes of an answer to a query: device attributes, cursor position, colours, modes.
    Reply(Vec<u8>),
    /// A sequence without a known meaning, or a key with modifiers that are not known here.
    Unknown,
}
