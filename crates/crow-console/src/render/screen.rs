//! Writes to stdout and stderr in order and in few pieces, and maintains the status line of a terminal.
//!
//! On a terminal both streams are the same screen. One buffer, `pending`, collects the output for the current stream;
//! it is flushed before the other stream is written to, so that the order is kept. The status is always erased before
//! other output. It is either a line of its own after complete lines, or the line below an open line of text; the
//! second needs the column at which that text ends, to return there, so `column` follows the text as the terminal wraps
//! it and is `None` if unsure.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::wrap::char_width;

/// Number of buffered bytes at which the buffer is written without a flush.
const MOST_PENDING: usize = 64 * 1024;
/// Returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Columns between two tab stops.
const TAB: usize = 8;

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenStream {
    /// Stdout, for the answer.
    Out,
    /// Stderr, for everything else.
    Err,
}

/// The two output streams with their common buffer and the status line.
#[derive(Debug)]
pub(super) struct OutputScreen<O, E> {
    out: O,
    err: E,
    pending: String,
    sink: ScreenStream,
    mid_line: bool,
    status: Status,
    /// Columns of the terminal; 0 if unknown.
    columns: usize,
    /// Column after the text of the current line; `None` if it is uncertain.
    column: Option<usize>,
}

/// State of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    None,
    /// A line of its own after complete lines.
    Line,
    /// The line below an open line whose text ends at this column.
    Below(usize),
}

impl<O: Write, E: Write> OutputScreen<O, E> {
    pub(super) fn new(out: O, err: E) -> Self {
        Self {
            out,
            err,
            pending: String::new(),
            sink: ScreenStream::Err,
            mid_line: false,
            status: Status::None,
            columns: 0,
            column: Some(0),
        }
    }

    /// Writes complete lines to stderr.
    pub(super) fn lines(&mut self, lines: &str) -> io::Result<()> {
        self.end_line()?;
        self.write(ScreenStream::Err, lines)
    }

    /// Writes text that may end in the middle of a line.
    pub(super) fn write(&mut self, sink: ScreenStream, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        self.switch_to(sink)?;
        self.pending.push_str(text);
        self.mid_line = !text.ends_with('\n');
        self.column = column_after(self.column, text, self.columns);
        if self.pending.len() >= MOST_PENDING { self.drain() } else { Ok(()) }
    }

    /// Ends the current line, if one is open.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line { self.write(self.sink, "\n") } else { Ok(()) }
    }

    /// Records that the terminal itself has ended the current line.
    pub(super) fn record_line_end(&mut self) {
        (self.mid_line, self.column) = (false, Some(0));
    }

    /// Shows `status` on the last line until something else is written; does nothing in the middle of a line of text.
    pub(super) fn set_status(&mut self, status: &str) -> io::Result<()> {
        if self.mid_line {
            return Ok(());
        }
        self.clear_status()?;
        if !status.is_empty() {
            self.switch_to(ScreenStream::Err)?;
            self.pending.push_str(status);
            self.status = Status::Line;
        }
        Ok(())
    }

    /// Returns true in the middle of a line of text.
    pub(super) fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Shows `status` below the open line until something else is written; does nothing if the end of that line is
    /// uncertain.
    pub(super) fn set_below(&mut self, status: &str) -> io::Result<()> {
        self.clear_status()?;
        // After a line that fills the screen, the cursor cannot be restored.
        let known = self.column.filter(|column| *column < self.columns);
        if let (Some(column), false) = (known, status.is_empty()) {
            self.switch_to(ScreenStream::Err)?;
            self.pending.push_str("\n\r");
            self.pending.push_str(status);
            self.status = Status::Below(column);
        }
        Ok(())
    }

    /// Sets the width of the terminal. It is unknown how the terminal now wraps an open line, so its column becomes
    /// uncertain.
    pub(super) fn set_columns(&mut self, columns: usize) {
        if self.columns != columns {
            self.columns = columns;
            self.column = Some(0).filter(|_| !self.mid_line);
        }
    }

    /// Writes the buffer and flushes the current stream.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        match self.sink {
            ScreenStream::Out => self.out.flush(),
            ScreenStream::Err => self.err.flush(),
        }
    }

    pub(super) fn clear_status(&mut self) -> io::Result<()> {
        let status = std::mem::replace(&mut self.status, Status::None);
        if status != Status::None {
            self.switch_to(ScreenStream::Err)?;
            self.pending.push_str(CLEAR_LINE);
        }
        // Back up to the end of the open line.
        if let Status::Below(column) = status {
            self.pending.push_str("\u{1b}[A");
            if column > 0 {
                // Writing to a string cannot fail.
                let _ = write!(self.pending, "\u{1b}[{column}C");
            }
        }
        Ok(())
    }

    fn switch_to(&mut self, sink: ScreenStream) -> io::Result<()> {
        if self.sink != sink {
            self.flush()?;
            self.sink = sink;
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        let result = match self.sink {
            ScreenStream::Out => self.out.write_all(self.pending.as_bytes()),
            ScreenStream::Err => self.err.write_all(self.pending.as_bytes()),
        };
        self.pending.clear();
        result
    }
}

/// Returns the column after `text` that begins at `column`, on a terminal that wraps lines after `columns`. Returns
/// `None` if the start is uncertain or the text contains emoji.
fn column_after(column: Option<usize>, text: &str, columns: usize) -> Option<usize> {
    let (mut column, text) = match text.rsplit_once('\n') {
        Some((_, last)) => (0, last),
        None => (column?, text),
    };
    for character in text.chars() {
        if matches!(character, '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f000}'..) {
            // Terminals differ in the width of emoji.
            return None;
        }
        let columns_taken = match character {
            '\t' => TAB - column % TAB,
            _ => char_width(character),
        };
        // A character that does not fit begins the next line; a tab stops in the last column.
        column = match column + columns_taken {
            end if end <= columns => end,
            _ if character == '\t' => columns.saturating_sub(1),
            _ => columns_taken,
        };
    }
    Some(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(act: impl FnOnce(&mut OutputScreen<&mut Vec<u8>, &mut Vec<u8>>)) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = OutputScreen::new(&mut out, &mut err);
        act(&mut screen);
        screen.flush().unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn an_open_line_ends_before_lines_for_people() {
        let (out, err) = both(|screen| {
            screen.write(ScreenStream::Out, "answer").unwrap();
            screen.lines("tool\n").unwrap();
        });
        assert_eq!((out.as_str(), err.as_str()), ("answer\n", "tool\n"));
    }

    #[test]
    fn a_status_is_cleared_before_anything_else_is_written() {
        let (out, err) = both(|screen| {
            screen.set_status("waiting 1 s").unwrap();
            screen.set_status("waiting 2 s").unwrap();
            screen.write(ScreenStream::Out, "x\n").unwrap();
        });
        let clear = CLEAR_LINE;
        assert_eq!((out, err), ("x\n".to_owned(), format!("waiting 1 s{clear}waiting 2 s{clear}")));
    }

    #[test]
    fn a_status_does_not_touch_a_line_of_text() {
        let (_, err) = both(|screen| {
            screen.write(ScreenStream::Out, "half a li").unwrap();
            screen.set_status("waiting").unwrap();
        });
        assert_eq!(err, "");
    }

    #[test]
    fn text_continues_where_it_was_after_a_status_below_an_open_line() {
        let (out, err) = both(|screen| {
            screen.set_columns(10);
            screen.write(ScreenStream::Out, "one\ntwo").unwrap();
            screen.set_below("> typed").unwrap();
            screen.write(ScreenStream::Out, " three\n").unwrap();
        });
        let restored = format!("\n\r> typed{CLEAR_LINE}\u{1b}[A\u{1b}[3C");
        assert_eq!((out.as_str(), err), ("one\ntwo three\n", restored));
    }

    #[test]
    fn no_status_is_shown_below_a_line_whose_end_is_uncertain() {
        for text in ["0123456789", "👩\u{200d}💻 x", "漢字漢字漢"] {
            let (_, err) = both(|screen| {
                screen.set_columns(10);
                screen.write(ScreenStream::Out, text).unwrap();
                screen.set_below("> typed").unwrap();
            });
            assert_eq!(err, "", "{text}");
        }
    }

    #[test]
    fn the_column_follows_the_text_as_a_terminal_wraps_it() {
        let table = [
            ("abc", Some(3)),
            ("0123456789a", Some(1)),
            ("012345678漢", Some(2)),
            ("a\tb", Some(9)),
            ("a\t\t", Some(9)),
            ("👍\nabc", Some(3)),
            ("👍", None),
        ];
        for (text, expected) in table {
            assert_eq!(column_after(Some(0), text, 10), expected, "{text:?}");
        }
    }

    #[test]
    fn the_buffer_is_bounded() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = OutputScreen::new(&mut out, &mut err);
        for _ in 0..100_000 {
            screen.write(ScreenStream::Out, "0123456789").unwrap();
            assert!(screen.pending.len() <= MOST_PENDING);
        }
    }
}
