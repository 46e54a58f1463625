//! The two sinks of the screen, written in order and in few pieces.

use std::io::{self, Write};

/// Bytes after which what is pending is written even if nobody asks for it.
const MOST_PENDING: usize = 64 * 1024;
/// Goes to the start of the line and clears it: the one thing that is done to a terminal besides colours.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// One of the two sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// Stdout: the answer.
    Out,
    /// Stderr: everything for people.
    Err,
}

/// The two sinks. On a terminal they are the same screen, so what is pending for one is written before the other gets
/// anything.
#[derive(Debug)]
pub(super) struct Screen<O, E> {
    out: O,
    err: E,
    pending: String,
    sink: Sink,
    mid_line: bool,
    status: bool,
}

impl<O: Write, E: Write> Screen<O, E> {
    pub(super) fn new(out: O, err: E) -> Self {
        Self { out, err, pending: String::new(), sink: Sink::Err, mid_line: false, status: false }
    }

    /// Writes whole lines for people.
    pub(super) fn lines(&mut self, lines: &str) -> io::Result<()> {
        self.end_line()?;
        self.write(Sink::Err, lines)
    }

    /// Writes text that may end in the middle of a line.
    pub(super) fn write(&mut self, sink: Sink, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        self.turn_to(sink)?;
        self.pending.push_str(text);
        self.mid_line = !text.ends_with('\n');
        if self.pending.len() >= MOST_PENDING { self.drain() } else { Ok(()) }
    }

    /// Ends the line if one is open.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line { self.write(self.sink, "\n") } else { Ok(()) }
    }

    /// Shows `status` on the last line until something else is written, unless text stands there.
    pub(super) fn set_status(&mut self, status: &str) -> io::Result<()> {
        if self.mid_line {
            return Ok(());
        }
        self.clear_status()?;
        if !status.is_empty() {
            self.turn_to(Sink::Err)?;
            self.pending.push_str(status);
            self.status = true;
        }
        Ok(())
    }

    /// Writes what is pending.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        match self.sink {
            Sink::Out => self.out.flush(),
            Sink::Err => self.err.flush(),
        }
    }

    pub(super) fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.status) {
            self.turn_to(Sink::Err)?;
            self.pending.push_str(CLEAR_LINE);
        }
        Ok(())
    }

    fn turn_to(&mut self, sink: Sink) -> io::Result<()> {
        if self.sink != sink {
            self.flush()?;
            self.sink = sink;
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        let result = match self.sink {
            Sink::Out => self.out.write_all(self.pending.as_bytes()),
            Sink::Err => self.err.write_all(self.pending.as_bytes()),
        };
        self.pending.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(act: impl FnOnce(&mut Screen<&mut Vec<u8>, &mut Vec<u8>>)) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = Screen::new(&mut out, &mut err);
        act(&mut screen);
        screen.flush().unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn an_open_line_ends_before_lines_for_people() {
        let (out, err) = both(|screen| {
            screen.write(Sink::Out, "answer").unwrap();
            screen.lines("tool\n").unwrap();
        });
        assert_eq!((out.as_str(), err.as_str()), ("answer\n", "tool\n"));
    }

    #[test]
    fn a_status_is_cleared_before_anything_else_is_written() {
        let (out, err) = both(|screen| {
            screen.set_status("waiting 1 s").unwrap();
            screen.set_status("waiting 2 s").unwrap();
            screen.write(Sink::Out, "x\n").unwrap();
        });
        let clear = CLEAR_LINE;
        assert_eq!((out, err), ("x\n".to_owned(), format!("waiting 1 s{clear}waiting 2 s{clear}")));
    }

    #[test]
    fn a_status_does_not_touch_a_line_of_text() {
        let (_, err) = both(|screen| {
            screen.write(Sink::Out, "half a li").unwrap();
            screen.set_status("waiting").unwrap();
        });
        assert_eq!(err, "");
    }

    #[test]
    fn what_is_pending_is_bounded() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = Screen::new(&mut out, &mut err);
        for _ in 0..100_000 {
            screen.write(Sink::Out, "0123456789").unwrap();
            assert!(screen.pending.len() <= MOST_PENDING);
        }
    }
}
