//! Lines and their tolerated differences: blanks at the ends, indentation, quotes and dashes, inner blank runs.

use std::borrow::Cow;

/// The ignored differences between two lines, from strict to loose; each includes those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tolerance {
    TrailingBlanks,
    Punctuation,
    Indentation,
    InnerBlanks,
}

impl Tolerance {
    /// Returns the canonical form of a line: equal for two lines that differ only tolerably.
    pub(crate) fn key(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::TrailingBlanks => Cow::Borrowed(line.trim_end()),
            Self::Punctuation => fold(line.trim_end()),
            Self::Indentation => fold(line.trim()),
            Self::InnerBlanks => collapse(line.trim()),
        }
    }

    /// Returns true if two lines differ only tolerably.
    pub(crate) fn accepts(self, one: &str, other: &str) -> bool {
        self.key(one) == self.key(other)
    }
}

/// The position of an end of a text: at a line break or within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextEdge {
    Line,
    Inside,
}

/// A line (or the part of one that a text covers) in three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineParts<'a> {
    pub(crate) indent: &'a str,
    pub(crate) body: &'a str,
    pub(crate) tail: &'a str,
    /// True if a line break follows in the text.
    pub(crate) terminated: bool,
}

impl<'a> LineParts<'a> {
    fn new(text: &'a str, terminated: bool, start: TextEdge, end: TextEdge) -> Self {
        // At an end inside a line there is no indentation or trailing blank.
        let lead = if start == TextEdge::Line { text.len() - text.trim_start().len() } else { 0 };
        let (indent, rest) = text.split_at(lead);
        let kept = if end == TextEdge::Line { rest.trim_end().len() } else { rest.len() };
        let (body, tail) = rest.split_at(kept);
        // A blank line has only a tail.
        if body.is_empty() {
            Self { indent: "", body, tail: text, terminated }
        } else {
            Self { indent, body, tail, terminated }
        }
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns true if `next`, the line below, must be indented deeper than this one.
    pub(crate) fn opens(&self, next: &LineParts<'_>) -> bool {
        self.body.ends_with([':', '{', '(', '[']) && !next.body.starts_with(['}', ')', ']'])
    }
}

/// Splits text into rows; `start` and `end` are the positions of its ends in their lines.
pub(crate) fn rows(text: &str, start: TextEdge, end: TextEdge) -> Vec<LineParts<'_>> {
    let mut rows = Vec::new();
    let mut edge = start;
    for piece in text.split_inclusive('\n') {
        let row = match piece.strip_suffix('\n') {
            Some(line) => LineParts::new(line, true, edge, TextEdge::Line),
            None => LineParts::new(piece, false, edge, end),
        };
        rows.push(row);
        edge = TextEdge::Line;
    }
    rows
}

/// Returns the lines of a text without their ends; a final newline adds no line.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect()
}

/// Replaces typographic quotes, dashes and spaces by ASCII, character by character.
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(fold_char).collect())
    }
}

const fn fold_char(char: char) -> char {
    match char {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' | '\u{ff07}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' | '\u{ff02}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => '-',
        '\u{00a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Folds, and replaces every run of blanks by one space.
fn collapse(text: &str) -> Cow<'_, str> {
    let folded = fold(text);
    let plain = |text: &str| {
        !text.contains("  ") && !text.contains(|char: char| char != ' ' && char.is_whitespace())
    };
    if plain(&folded) {
        return folded;
    }
    let mut collapsed = String::with_capacity(folded.len());
    for char in folded.chars() {
        if !char.is_whitespace() {
            collapsed.push(char);
        } else if !collapsed.ends_with(' ') {
            collapsed.push(' ');
        }
    }
    Cow::Owned(collapsed)
}

/// Returns true if the text has at least one letter or digit.
pub(crate) fn has_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}
