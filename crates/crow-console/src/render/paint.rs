//! Colours and text attributes.

use super::ConsoleStyle;

/// Look of a piece of text. Besides the status line of the screen, only this type writes escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
    /// Changed word in a deleted line.
    RedWord,
    /// Changed word in an added line.
    GreenWord,
}

impl Paint {
    fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
            Self::Red => "\u{1b}[31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Cyan => "\u{1b}[36m",
            Self::RedWord => "\u{1b}[7;31m",
            Self::GreenWord => "\u{1b}[7;32m",
        }
    }

    /// Returns the escape sequence before the text; empty without colours.
    pub fn open(self, style: &ConsoleStyle) -> &'static str {
        if style.colour { self.sgr() } else { "" }
    }

    /// Returns the escape sequence after the text; empty without colours and for [`Plain`](Self::Plain).
    pub fn close(self, style: &ConsoleStyle) -> &'static str {
        if style.colour && self != Self::Plain { "\u{1b}[0m" } else { "" }
    }

    /// Appends `text` in this look.
    pub fn write(self, style: &ConsoleStyle, text: &str, out: &mut String) {
        if !text.is_empty() {
            out.push_str(self.open(style));
            out.push_str(text);
            out.push_str(self.close(style));
        }
    }
}
