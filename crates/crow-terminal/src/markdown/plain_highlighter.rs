//! Highlighter for builds without grammars: all code has one role.

use crate::styled_text::TextRole;

/// Gives all code the same role.
#[derive(Debug, Clone)]
pub(super) struct PlainHighlighter;

impl PlainHighlighter {
    pub(super) fn new(_language: &str) -> Self {
        Self
    }

    /// Returns the line as one part.
    #[expect(clippy::unused_self, reason = "the same as with grammars")]
    pub(super) fn parts<'a>(&mut self, line: &'a str) -> Vec<(&'a str, TextRole)> {
        vec![(line, TextRole::Code)]
    }
}
