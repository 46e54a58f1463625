//! Lines of text with a look, which say what a text means and not its colour: a theme decides that.

use std::sync::Arc;

use unicode_width::UnicodeWidthStr as _;

/// The meaning of a text, which a theme gives a colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum TextRole {
    #[default]
    Plain,
    /// Less important than the text around it.
    Dim,
    /// Emphasized text: prompts, selected entries, names.
    Accent,
    Heading,
    /// Code within a line, and code whose language is not known.
    Code,
    Link,
    Quote,
    /// Bullets, numbers of lists, rules, and borders of tables.
    Marker,
    Keyword,
    /// Text in quotes within code.
    StringLiteral,
    Number,
    Comment,
    Function,
    Type,
    Added,
    Removed,
    /// The changed words of a line that was added.
    AddedWord,
    RemovedWord,
    Success,
    Warning,
    Error,
}

/// A set of bold, italic, underlined, struck through and reversed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Emphasis(u8);

impl Emphasis {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const BOLD: Self = Self(1);
    pub(crate) const ITALIC: Self = Self(2);
    pub(crate) const UNDERLINE: Self = Self(4);
    pub(crate) const STRIKETHROUGH: Self = Self(8);
    pub(crate) const REVERSE: Self = Self(16);

    /// Returns both together.
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of `other` is in this one.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The look of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct TextLook {
    pub(crate) role: TextRole,
    pub(crate) emphasis: Emphasis,
    /// The address that a click leads to.
    pub(crate) link: Option<Arc<str>>,
}

impl From<TextRole> for TextLook {
    fn from(role: TextRole) -> Self {
        Self { role, ..Self::default() }
    }
}

/// A text with one look. It has no line breaks, tabs or control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StyledSpan {
    pub(crate) text: String,
    pub(crate) look: TextLook,
}

/// A line of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StyledLine {
    spans: Vec<StyledSpan>,
}

impl StyledLine {
    /// Appends text. Text of the same look as the end of the line becomes part of its last span.
    pub(crate) fn push(&mut self, text: impl AsRef<str>, look: impl Into<TextLook>) {
        let (text, look) = (text.as_ref(), look.into());
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.look == look => last.text.push_str(text),
            _ => self.spans.push(StyledSpan { text: text.to_owned(), look }),
        }
    }

    /// Returns the spans.
    pub(crate) fn spans(&self) -> &[StyledSpan] {
        &self.spans
    }

    /// Returns the number of columns.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    /// Returns the text without its look.
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Appends the text of another line.
    pub(crate) fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push(&span.text, span.look.clone());
        }
    }

    /// Returns the line without the spaces at its end.
    #[must_use]
    pub(crate) fn without_trailing_spaces(mut self) -> Self {
        while let Some(last) = self.spans.last_mut() {
            let length = last.text.trim_end_matches(' ').len();
            last.text.truncate(length);
            if length > 0 {
                break;
            }
            self.spans.pop();
        }
        self
    }
}
