//! Writes to stdout and stderr in order and in few pieces, and maintains the status line of a terminal.
//!
//! On a terminal both streams are the same screen. One buffer, `pending`, collects the output for the current stream;
//! it is flushed before the other stream is written to, so that the order is kept. The status is a line of its own after
//! complete lines, and is always erased before other output.

use std::io::{self, Write};

/// Number of buffered bytes at which the buffer is written without a flush.
const MOST_PENDING: usize = 64 * 1024;
/// Returns to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

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
    /// True while the status line is shown.
    has_status: bool,
}

impl<O: Write, E: Write> OutputScreen<O, E> {
    pub(super) fn new(out: O, err: E) -> Self {
        Self {
            out,
            err,
            pending: String::new(),
            sink: ScreenStream::Err,
            mid_line: false,
            has_status: false,
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
        if self.pending.len() >= MOST_PENDING { self.drain() } else { Ok(()) }
    }

    /// Ends the current line, if one is open.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line { self.write(self.sink, "\n") } else { Ok(()) }
    }

    /// Records that the terminal itself has ended the current line.
    pub(super) fn record_line_end(&mut self) {
        self.mid_line = false;
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
            self.has_status = true;
        }
        Ok(())
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
        if std::mem::take(&mut self.has_status) {
            self.switch_to(ScreenStream::Err)?;
            self.pending.push_str(CLEAR_LINE);
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
    fn the_buffer_is_bounded() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = OutputScreen::new(&mut out, &mut err);
        for _ in 0..100_000 {
            screen.write(ScreenStream::Out, "0123456789").unwrap();
            assert!(screen.pending.len() <= MOST_PENDING);
        }
    }
}
