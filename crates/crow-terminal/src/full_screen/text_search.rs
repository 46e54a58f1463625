//! A text that is searched for in a long text, and the marks on what was found.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

use crate::line_layout::emphasized;
use crate::styled_text::{Emphasis, StyledLine};

/// A text that is searched for. Case matters if it has a letter in upper case.
#[derive(Debug, Clone)]
pub(super) struct SearchPattern {
    regex: Regex,
}

impl SearchPattern {
    /// Creates a pattern of a text of at most a few hundred characters, which is not empty.
    pub(super) fn new(text: &str) -> Self {
        debug_assert!(!text.is_empty(), "an empty text is everywhere");
        let regex = RegexBuilder::new(&regex::escape(text))
            .case_insensitive(!text.chars().any(char::is_uppercase))
            .build()
            .expect("invariant: a short text without operators is a valid expression");
        Self { regex }
    }

    /// Returns where the text is, in bytes and ascending order.
    pub(super) fn ranges<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.regex.find_iter(text).map(|found| found.range())
    }
}

/// The marks on what was found in one entry of a source.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchMarks<'a> {
    pattern: Option<&'a SearchPattern>,
    /// The match that was jumped to, if it is in this entry: the number of the text in it, and the range there.
    current: Option<(usize, Range<usize>)>,
}

impl<'a> SearchMarks<'a> {
    pub(super) fn new(
        pattern: Option<&'a SearchPattern>,
        current: Option<(usize, Range<usize>)>,
    ) -> Self {
        Self { pattern, current }
    }

    /// Returns a line with marks. Its text is the one of this number in the entry.
    pub(super) fn marked(&self, line: StyledLine, number: usize) -> StyledLine {
        let Some(pattern) = self.pattern else { return line };
        let emphasis = |range: &Range<usize>| match &self.current {
            Some((other, current)) if *other == number && current == range => current_emphasis(),
            _ => Emphasis::REVERSE,
        };
        let ranges: Vec<_> =
            pattern.ranges(&line.text()).map(|range| (range.clone(), emphasis(&range))).collect();
        if ranges.is_empty() { line } else { emphasized(&line, &ranges) }
    }

    /// Returns the number of the row with what was jumped to.
    pub(super) fn current_row(rows: &[StyledLine]) -> Option<usize> {
        let has_current = |row: &StyledLine| {
            row.spans().iter().any(|span| span.look.emphasis.contains(current_emphasis()))
        };
        rows.iter().position(has_current)
    }
}

/// Returns the emphasis on what was jumped to. No text has it otherwise.
fn current_emphasis() -> Emphasis {
    Emphasis::REVERSE.with(Emphasis::BOLD).with(Emphasis::UNDERLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_only_for_a_text_with_upper_case() {
        let table: [(&str, &str, &[&str]); 6] = [
            ("foo", "Foo FOO foo", &["Foo", "FOO", "foo"]),
            ("Foo", "Foo FOO foo", &["Foo"]),
            ("straße", "STRASSE Straße", &["Straße"]),
            ("a.b", "axb a.b", &["a.b"]),
            ("ä", "Ä", &["Ä"]),
            ("x", "", &[]),
        ];
        for (pattern, text, expected) in table {
            let pattern = SearchPattern::new(pattern);
            let found: Vec<_> = pattern.ranges(text).map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{pattern:?} in {text}");
        }
    }

    #[test]
    fn a_long_text_of_any_characters_is_a_valid_pattern() {
        for character in ["\\", "ſ", "漢", "\u{1f468}", "(", "K", "\u{301}"] {
            let text = character.repeat(200);
            assert_eq!(SearchPattern::new(&text).ranges(&text).count(), 1);
        }
    }
}
