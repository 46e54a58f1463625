//! The part of a text that one call shows.

use std::fmt::Write as _;

/// Lines that are shown if the call has no limit.
pub(super) const DEFAULT_LINES: u64 = 2000;
/// Most characters of a line that are shown.
pub(super) const MAX_LINE_CHARS: usize = 2000;
/// Most bytes that are shown, whatever the number of lines.
pub(crate) const MAX_BYTES: usize = 50 * 1024;

/// The lines that the call requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineRange {
    /// The first line, from 1.
    pub(super) first: u64,
    /// Number of lines.
    pub(super) count: u64,
}

/// Collects the lines of a range until it is full.
#[derive(Debug)]
pub(super) struct LinePage {
    range: LineRange,
    /// Most bytes that are shown.
    limit: usize,
    text: String,
    shown: u64,
    full: bool,
}

impl LinePage {
    pub(super) fn new(range: LineRange) -> Self {
        Self { range, limit: MAX_BYTES, text: String::new(), shown: 0, full: false }
    }

    /// Lowers the number of bytes that are shown.
    pub(super) fn with_limit(self, bytes: usize) -> Self {
        Self { limit: self.limit.min(bytes), ..self }
    }

    /// Adds the next line. `hidden` is the number of its characters that were cut from `line` before.
    pub(super) fn push(&mut self, line: &str, hidden: u64) {
        if self.is_full() {
            return;
        }
        let cut = line.char_indices().nth(MAX_LINE_CHARS).map_or(line.len(), |(at, _)| at);
        let (start, rest) = line.split_at(cut);
        let hidden = hidden + rest.chars().count() as u64;
        let before = self.text.len();
        let _ = write!(self.text, "{}\t{start}", self.next_line());
        if hidden > 0 {
            let _ = write!(self.text, "… [{hidden} more characters]");
        }
        self.text.push('\n');
        if self.text.len() > self.limit && self.shown > 0 {
            self.text.truncate(before);
            self.full = true;
        } else {
            self.shown += 1;
        }
    }

    /// Returns true if no further line fits.
    pub(super) fn is_full(&self) -> bool {
        self.full || self.shown >= self.range.count
    }

    /// Returns the first and last line shown, if any is.
    pub(super) fn lines(&self) -> Option<(u64, u64)> {
        (self.shown > 0).then(|| (self.range.first, self.next_line() - 1))
    }

    /// Returns the line after the last one shown.
    pub(super) fn next_line(&self) -> u64 {
        self.range.first.saturating_add(self.shown)
    }

    /// Returns the numbered lines.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters_and_the_rest_counted() {
        let mut page = LinePage::new(LineRange { first: 7, count: 1 });
        page.push(&"ä".repeat(2005), 3);
        let text = page.into_text();
        assert_eq!(text, format!("7\t{}… [8 more characters]\n", "ä".repeat(2000)));
    }

    #[test]
    fn the_byte_limit_ends_a_page_before_the_line_that_breaks_it() {
        let mut page = LinePage::new(LineRange { first: 1, count: 1000 });
        for _ in 0..1000 {
            page.push(&"x".repeat(1020), 0);
        }
        assert_eq!(page.lines(), Some((1, 50)));
        assert!(page.is_full() && page.into_text().len() <= MAX_BYTES);
    }
}
