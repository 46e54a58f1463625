//! Fits text of others into columns.
//!
//! Terminals differ in the width of some clusters, such as emoji that are joined or have a selector. A cluster counts
//! with the larger of the usual results, so that a row is never wider than its columns.

use crow_console::{Glyphs, wrap};
use crow_text::one_line;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::styled_text::{StyledLine, TextLook, TextRole};

/// Maximum number of characters of a title, a name or a reason that are kept.
const MOST_CHARACTERS: usize = 300;

/// Returns text of others as one harmless line of bounded length.
pub(super) fn bounded_line(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        None => one_line(text),
        Some((end, _)) => one_line(&format!("{}…", &text[..end])),
    }
}

/// Returns the number of columns that a text takes at most.
pub(super) fn columns_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(cluster_columns).sum() }
}

fn cluster_columns(cluster: &str) -> usize {
    cluster.width().max(wrap::width(cluster))
}

/// Returns the start of a text that fits, with a mark if something is left out.
fn fit_end(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let mark = mark(columns, glyphs);
    let (start, _) = split_at_columns(text, columns - columns_of(mark));
    format!("{start}{mark}")
}

/// Returns the start and the end of a text that fit together, with a mark for the middle if something is left out.
pub(super) fn fit_middle(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let mark = mark(columns, glyphs);
    let room = columns - columns_of(mark);
    let (start, rest) = split_at_columns(text, room - room / 2);
    let mut end = rest.len();
    let mut used = 0;
    for (at, cluster) in rest.grapheme_indices(true).rev() {
        used += cluster_columns(cluster);
        if used > room / 2 {
            break;
        }
        end = at;
    }
    format!("{start}{mark}{}", &rest[end..])
}

/// Returns the mark for text that is left out, in at most this number of columns.
fn mark(columns: usize, glyphs: Glyphs) -> &'static str {
    match (columns, glyphs) {
        (0, _) => "",
        (_, Glyphs::Unicode) => "…",
        (1..3, Glyphs::Ascii) => ".",
        (_, Glyphs::Ascii) => "...",
    }
}

/// Splits a text after the clusters that fit these columns.
fn split_at_columns(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.grapheme_indices(true).find_map(|(at, cluster)| {
        used += cluster_columns(cluster);
        (used > columns).then_some(at)
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// Builds a row from left to right. Text for which there is no room is left out.
#[derive(Debug)]
pub(super) struct RowBuilder {
    line: StyledLine,
    room: usize,
    glyphs: Glyphs,
}

impl RowBuilder {
    /// Begins a row of at most this number of columns.
    pub(super) fn new(columns: usize, glyphs: Glyphs) -> Self {
        Self { line: StyledLine::default(), room: columns, glyphs }
    }

    /// Returns the number of columns that are left.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Appends the start of a text that fits the room.
    pub(super) fn push(&mut self, text: &str, look: impl Into<TextLook>) {
        self.append(&fit_end(text, self.room, self.glyphs), look);
    }

    /// Appends a text whose middle is left out if it takes more than `columns`.
    pub(super) fn push_middle(&mut self, text: &str, columns: usize, look: impl Into<TextLook>) {
        self.append(&fit_middle(text, columns.min(self.room), self.glyphs), look);
    }

    /// Appends a text at the right end of the row, if it fits after a gap.
    pub(super) fn push_right(&mut self, text: &str, role: TextRole) {
        let columns = columns_of(text);
        if self.room >= columns + 2 {
            let gap = " ".repeat(self.room - columns);
            self.append(&gap, TextRole::Plain);
            self.append(text, role);
        }
    }

    fn append(&mut self, text: &str, look: impl Into<TextLook>) {
        self.room -= columns_of(text);
        self.line.push(text, look);
    }

    /// Returns the row.
    pub(super) fn finish(self) -> StyledLine {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_or_the_middle_is_left_out() {
        let table = [
            ("cargo test", 10, "cargo test", "cargo test"),
            ("cargo test", 9, "cargo te…", "carg…test"),
            ("cargo test", 1, "…", "…"),
            ("cargo test", 0, "", ""),
            ("漢字漢字", 5, "漢字…", "漢…字"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…", "e\u{301}…"),
        ];
        for (text, columns, end, middle) in table {
            assert_eq!(fit_end(text, columns, Glyphs::Unicode), end, "{text} {columns}");
            assert_eq!(fit_middle(text, columns, Glyphs::Unicode), middle, "{text} {columns}");
        }
        assert_eq!(fit_end("cargo test", 6, Glyphs::Ascii), "car...");
        assert_eq!(fit_end("cargo test", 2, Glyphs::Ascii), "c.");
    }

    #[test]
    fn a_long_title_is_cut_before_it_is_made_harmless() {
        let line = bounded_line(&"x\n\u{1b}".repeat(10_000));
        assert!(line.chars().count() <= MOST_CHARACTERS + 1, "{line}");
        assert!(line.ends_with('…') && !line.contains(char::is_control));
    }

    proptest! {
        #[test]
        fn a_fitted_text_is_never_wider(text in "[a漢é\u{301}\u{fe0f}\u{200d}❤👩🇩]{0,20}", columns in 0_usize..20) {
            for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
                for fitted in [fit_end(&text, columns, glyphs), fit_middle(&text, columns, glyphs)] {
                    prop_assert!(columns_of(&fitted) <= columns, "{fitted:?}");
                    prop_assert!(fitted.width() <= columns, "{fitted:?}");
                }
            }
        }
    }
}
