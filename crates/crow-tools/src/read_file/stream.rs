//! Pages of files that are too large to be loaded: read once from the start, a buffer at a time.

use std::io::{self, BufRead};

use tokio_util::sync::CancellationToken;

use super::page::{LinePage, MAX_LINE_CHARS};

/// Most bytes before the first line of a page. Further on, a command is the better way.
pub(super) const MAX_SCAN: u64 = 1024 * 1024 * 1024;
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

    use super::{
        super::page::{LinePage, LineRange},
        *,
    };

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
