//! Plain text as lines that are found in it when they are shown.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

use crate::line_layout::visible_text;

/// Maximum length of an entry in bytes. A longer line is several entries.
const LONGEST: usize = 16 * 1024;
/// Number of characters before the end of an entry among which there is one with a width, or the entry ends anywhere.
const CLUSTER: usize = 32;

/// A text, and where its lines begin. Lines of more than 16 KiB are divided.
#[derive(Debug)]
pub(super) struct PlainLines {
    text: String,
    /// The beginnings of the entries in the text.
    starts: Vec<usize>,
    /// The entries that go on with the line before them.
    continuations: Vec<usize>,
}

impl PlainLines {
    pub(super) fn new(text: String) -> Self {
        let (mut starts, mut continuations) = (Vec::new(), Vec::new());
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            starts.push(start);
            let end = start + line.len();
            while end - start > LONGEST {
                start = division(&text, start, start + LONGEST);
                continuations.push(starts.len());
                starts.push(start);
            }
            start = end;
        }
        Self { text, starts, continuations }
    }

    /// Returns the number of entries.
    pub(super) fn entry_count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the visible text of an entry.
    pub(super) fn entry(&self, entry: usize) -> Cow<'_, str> {
        let end = self.starts.get(entry + 1).copied().unwrap_or(self.text.len());
        let text = &self.text[self.starts[entry]..end];
        let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        visible_text(line.unwrap_or(text))
    }

    /// Returns the number of entries before this one that go on with a line.
    pub(super) fn continuations_until(&self, entry: usize) -> usize {
        self.continuations.partition_point(|continuation| *continuation <= entry)
    }
}

/// Returns where a long line is divided: at `end` or a little before, so that no combining mark is torn off.
fn division(text: &str, start: usize, end: usize) -> usize {
    let end = text.floor_char_boundary(end);
    let starts_cluster =
        |at: usize| text[at..].chars().next().is_none_or(|next| next.width().unwrap_or(0) > 0);
    let mut at = end;
    for _ in 0..CLUSTER {
        if at <= start || starts_cluster(at) {
            break;
        }
        at = text.floor_char_boundary(at - 1);
    }
    if at > start && starts_cluster(at) { at } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<String> {
        let lines = PlainLines::new(text.to_owned());
        (0..lines.entry_count()).map(|entry| lines.entry(entry).into_owned()).collect()
    }

    #[test]
    fn line_feeds_end_lines() {
        let table: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("a", &["a"]),
            ("a\n", &["a"]),
            ("a\r\nb\rc\n", &["a", "b␍c"]),
            ("\n\nb", &["", "", "b"]),
            ("a\r", &["a␍"]),
        ];
        for (text, expected) in table {
            assert_eq!(entries(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_line_is_divided_before_a_character_with_a_width() {
        let marks = format!("{}e\u{301}{}\nb\n", "x".repeat(LONGEST - 1), "y".repeat(10));
        let lines = PlainLines::new(marks);
        assert_eq!(lines.entry_count(), 3);
        assert_eq!(lines.entry(1), format!("e\u{301}{}", "y".repeat(10)));
        let numbers: Vec<_> =
            (0..3).map(|entry| entry + 1 - lines.continuations_until(entry)).collect();
        assert_eq!(numbers, [1, 1, 2]);
        let only_marks = "\u{301}".repeat(LONGEST);
        assert_eq!(PlainLines::new(only_marks).entry_count(), 2);
    }
}
