//! Colours.

use super::ConsoleStyle;

/// How a piece of text looks. The only place that writes escape sequences besides the line that tells what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
    /// A changed word in a deleted line.
    RedWord,
    /// A changed word in an added line.
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

    /// Returns what stands before the text.
    pub(super) fn open(self, style: &ConsoleStyle) -> &'static str {
        if style.colour { self.sgr() } else { "" }
    }

    /// Returns what stands after the text.
    pub(super) fn close(self, style: &ConsoleStyle) -> &'static str {
        if style.colour && self != Self::Plain { "\u{1b}[0m" } else { "" }
    }

    /// Appends `text` in this look.
    pub(super) fn write(self, style: &ConsoleStyle, text: &str, out: &mut String) {
        if !text.is_empty() {
            out.push_str(self.open(style));
            out.push_str(text);
            out.push_str(self.close(style));
        }
    }
}
