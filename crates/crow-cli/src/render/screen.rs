//! The two sinks of the screen, written in order and in few pieces.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::wrap::char_width;

/// Bytes after which what is pending is written even if nobody asks for it.
const MOST_PENDING: usize = 64 * 1024;
/// Goes to the start of the line and clears it: the one thing that is done to a terminal besides colours.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// Columns between two tab stops.
const TAB: usize = 8;

/// One of the two sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenStream {
    /// Stdout: the answer.
    Out,
    /// Stderr: everything for people.
    Err,
}

/// The two sinks. On a terminal they are the same screen, so what is pending for one is written before the other gets
/// anything.
#[derive(Debug)]
pub(super) struct OutputScreen<O, E> {
    out: O,
    err: E,
    pending: String,
    sink: ScreenStream,
    mid_line: bool,
    status: Status,
    /// Columns of the terminal, and the column behind the text of an open line. None where it is not sure.
    columns: usize,
    column: Option<usize>,
}

/// What stands on the screen besides text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    None,
    /// A line of its own behind whole lines.
    Line,
    /// The line below an open one whose text ends in that column.
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

    /// Writes whole lines for people.
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
        self.turn_to(sink)?;
        self.pending.push_str(text);
        self.mid_line = !text.ends_with('\n');
        self.column = column_after(self.column, text, self.columns);
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
            self.turn_to(ScreenStream::Err)?;
            self.pending.push_str(status);
            self.status = Status::Line;
        }
        Ok(())
    }

    /// Returns whether a line of text is open.
    pub(super) fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Shows `status` below the open line until something else is written, if it is sure where that line ends.
    pub(super) fn set_below(&mut self, status: &str) -> io::Result<()> {
        self.clear_status()?;
        // Behind a full line the cursor could not be put back as it was.
        let sure = self.column.filter(|column| *column < self.columns);
        if let (Some(column), false) = (sure, status.is_empty()) {
            self.turn_to(ScreenStream::Err)?;
            self.pending.push_str("\n\r");
            self.pending.push_str(status);
            self.status = Status::Below(column);
        }
        Ok(())
    }

    /// Learns how wide the terminal is. How lines that stand there already are broken now is not known.
    pub(super) fn set_columns(&mut self, columns: usize) {
        if self.columns != columns {
            self.columns = columns;
            self.column = Some(0).filter(|_| !self.mid_line);
        }
    }

    /// Writes what is pending.
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
            self.turn_to(ScreenStream::Err)?;
            self.pending.push_str(CLEAR_LINE);
        }
        if let Status::Below(column) = status {
            self.pending.push_str("\u{1b}[A");
            if column > 0 {
                // Writing to a string cannot fail.
                let _ = write!(self.pending, "\u{1b}[{column}C");
            }
        }
        Ok(())
    }

    fn turn_to(&mut self, sink: ScreenStream) -> io::Result<()> {
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

/// Returns the column behind `text` that begins in `column` of a terminal that breaks lines after `columns`.
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
        let wide = match character {
            '\t' => TAB - column % TAB,
            _ => char_width(character),
        };
        column = match column + wide {
            end if end <= columns => end,
            _ if character == '\t' => columns.saturating_sub(1),
            _ => wide,
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
    fn below_an_open_line_a_status_goes_and_the_text_goes_on_where_it_was() {
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
    fn where_the_end_of_the_text_is_not_sure_nothing_goes_below_it() {
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
    fn the_column_follows_the_text_as_a_terminal_breaks_it() {
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
    fn what_is_pending_is_bounded() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = OutputScreen::new(&mut out, &mut err);
        for _ in 0..100_000 {
            screen.write(ScreenStream::Out, "0123456789").unwrap();
            assert!(screen.pending.len() <= MOST_PENDING);
        }
    }
}
