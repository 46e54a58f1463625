//! The part of a text that one call shows. A file that is too large to be loaded is read once from the start, a buffer at a
//! time.

use std::{
    fmt::Write as _,
    io::{self, BufRead},
};

use tokio_util::sync::CancellationToken;

use crate::file::{DecodedText, TextEncoding};

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

/// The first lines of a file, as `read_file` shows them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// The numbered lines, the last one without an end.
    pub(crate) text: String,
    /// Number of lines that are shown entirely.
    pub(crate) shown: u64,
    /// Number of all lines.
    pub(crate) total: u64,
}

impl FileHead {
    /// Returns the first lines within both limits. Ends before a line that is too long or not valid in its encoding.
    pub(crate) fn of_text(text: &DecodedText<'_>, lines: u64, bytes: usize) -> Self {
        let mut page = LinePage::new(LineRange { first: 1, count: lines }).with_limit(bytes);
        let is_whole = |line: &&str| {
            line.len() <= bytes
                && line.chars().nth(MAX_LINE_CHARS).is_none()
                && !(text.encoding == TextEncoding::BrokenUtf8 && line.contains('\u{fffd}'))
        };
        for line in text.lines().take_while(is_whole) {
            page.push(line, 0);
            if page.is_full() {
                break;
            }
        }
        let shown = page.lines().map_or(0, |(_, last)| last);
        let total = text.lines().count() as u64;
        Self { text: page.into_text().trim_end_matches('\n').to_owned(), shown, total }
    }
}

/// Most bytes before the first line of a page. Further on, a command is the better way.
const MAX_SCAN: u64 = 1024 * 1024 * 1024;
/// Most bytes of a line that are stored: enough for the characters that are shown.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4;

/// A reason for which there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("the file has only {lines} lines")]
    Short { lines: u64 },
    #[error("the call was cancelled")]
    Cancelled,
    #[error("the first {} MiB have only {lines} lines", MAX_SCAN >> 20)]
    Far { lines: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Fills a page from its first line on. Returns true if the page ends with the file.
pub(super) fn fill(
    reader: &mut impl BufRead,
    first: u64,
    page: &mut LinePage,
    cancellation: &CancellationToken,
) -> Result<bool, StreamError> {
    let mut line = PartialLine::default();
    let (mut number, mut scanned) = (1, 0);
    while !page.is_full() {
        if cancellation.is_cancelled() {
            return Err(StreamError::Cancelled);
        }
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            let lines = if line.is_begun { number } else { number - 1 };
            if line.is_begun && number >= first {
                line.end(page);
            }
            return if lines < first { Err(StreamError::Short { lines }) } else { Ok(true) };
        }
        if scanned > MAX_SCAN && number < first {
            return Err(StreamError::Far { lines: number });
        }
        // Take the part of the buffer that belongs to the current line.
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |end| end + 1);
        line.push(&buffer[..end.unwrap_or(taken)], number >= first);
        if end.is_some() {
            if number >= first {
                line.end(page);
            }
            line = PartialLine::default();
            number += 1;
        }
        reader.consume(taken);
        scanned += taken as u64;
    }
    Ok(reader.fill_buf()?.is_empty())
}

/// The current line: the bytes that are stored, and the number of characters that are not.
#[derive(Debug, Default)]
struct PartialLine {
    kept: Vec<u8>,
    dropped: u64,
    is_begun: bool,
}

impl PartialLine {
    fn push(&mut self, bytes: &[u8], is_wanted: bool) {
        self.is_begun = true;
        if !is_wanted {
            return;
        }
        let (kept, dropped) =
            bytes.split_at_checked(MAX_LINE_BYTES - self.kept.len()).unwrap_or((bytes, &[]));
        self.kept.extend_from_slice(kept);
        // Continuation bytes of a character do not count.
        self.dropped += dropped.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
    }

    fn end(&mut self, page: &mut LinePage) {
        let text = String::from_utf8_lossy(&self.kept);
        page.push(text.strip_suffix('\r').unwrap_or(&text), self.dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

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

    fn read(text: &str, first: u64, count: u64) -> Result<(String, bool), StreamError> {
        let mut page = LinePage::new(LineRange { first, count });
        let mut reader = BufReader::with_capacity(7, text.as_bytes());
        let at_end = fill(&mut reader, first, &mut page, &CancellationToken::new())?;
        Ok((page.into_text(), at_end))
    }

    #[test]
    fn a_page_from_the_middle_is_read_across_buffers() {
        let lines: Vec<String> = (1..=30).map(|line| format!("line {line}\r\n")).collect();
        let text = lines.concat();
        assert_eq!(read(&text, 10, 2).unwrap(), ("10\tline 10\n11\tline 11\n".into(), false));
        assert_eq!(read(&text, 30, 9).unwrap(), ("30\tline 30\n".into(), true));
        assert_eq!(read("a\nb", 2, 1).unwrap(), ("2\tb\n".into(), true));
    }

    #[test]
    fn a_page_behind_the_end_says_how_many_lines_there_are() {
        for (text, lines) in [("a\nb\n", 2), ("a\nb", 2), ("", 0)] {
            assert!(matches!(read(text, 9, 1), Err(StreamError::Short { lines: n }) if n == lines));
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept_in_memory() {
        let text = "é".repeat(1_000_000);
        let (shown, at_end) = read(&text, 1, 1).unwrap();
        assert!(shown.len() < 3 * MAX_LINE_BYTES && at_end, "{}", shown.len());
        assert!(shown.ends_with("[998000 more characters]\n"));
    }

    #[test]
    fn a_cancelled_read_stops() {
        let (token, mut page) =
            (CancellationToken::new(), LinePage::new(LineRange { first: 1, count: 1 }));
        token.cancel();
        let result = fill(&mut BufReader::new(io::repeat(b'x')), 1, &mut page, &token);
        assert!(matches!(result, Err(StreamError::Cancelled)));
    }
}
