//! The painter of views that take the whole screen.
//!
//! It uses the alternate screen, which has no history: the primary screen stays as it is and is back afterwards. Lines are
//! not wrapped by the terminal meanwhile, so that a row whose width the terminal judges otherwise than this crate cannot
//! move the rows below it. Each row is placed absolutely, and erased before it is written.

use std::fmt::Write as _;

use super::view::FullScreenFrame;
use crate::{
    line_layout::clipped_line, painted_line::PaintedLine, screen_size::ScreenSize, theme::Theme,
};

/// Switches to the alternate screen, and stops wrapping. The primary screen and its cursor are saved before that.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l";
/// Undoes [`ENTER`], with a visible cursor.
const LEAVE: &str = "\u{1b}[0m\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// Asks the terminal to show nothing before [`END`], and hides the cursor.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?2026l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const CLEAR_SCREEN: &str = "\u{1b}[2J";
const CLEAR_LINE: &str = "\u{1b}[2K";

/// A frame as it is on the screen.
#[derive(Debug, PartialEq, Eq)]
struct PaintedFrame {
    size: ScreenSize,
    /// One for each row of the screen.
    rows: Vec<PaintedLine>,
    cursor: Option<(usize, usize)>,
}

/// The content of the terminal's alternate screen.
#[derive(Debug, PartialEq, Eq)]
enum AlternateScreen {
    /// The terminal shows the primary screen.
    Inactive,
    /// The terminal shows the alternate screen with unknown content.
    Unknown,
    Painted(PaintedFrame),
}

/// Paints frames on the alternate screen. It returns what is to be written, and writes nothing itself.
///
/// Everything that is written to the terminal between the first frame and [`leave`](Self::leave) must come from here.
#[derive(Debug)]
pub(crate) struct FullScreenPainter {
    theme: Theme,
    screen: AlternateScreen,
}

impl FullScreenPainter {
    /// Creates a painter for a terminal that shows its primary screen.
    pub(crate) fn new(theme: Theme) -> Self {
        Self { theme, screen: AlternateScreen::Inactive }
    }

    /// Returns the bytes that show a frame on a screen of this size. The first frame switches to the alternate screen;
    /// later ones send only the rows that changed, unless the size did. The result is empty if nothing changed.
    pub(crate) fn paint(&mut self, frame: &FullScreenFrame, size: ScreenSize) -> String {
        let painted = self.painted(frame, size);
        let before = match &self.screen {
            AlternateScreen::Painted(before) if *before == painted => return String::new(),
            AlternateScreen::Painted(before) if before.size == painted.size => Some(before),
            AlternateScreen::Painted(_) | AlternateScreen::Unknown | AlternateScreen::Inactive => {
                None
            }
        };
        let mut output = BEGIN.to_owned();
        if self.screen == AlternateScreen::Inactive {
            output.push_str(ENTER);
        }
        if before.is_none() {
            output.push_str(CLEAR_SCREEN);
        }
        for (number, row) in painted.rows.iter().enumerate() {
            let shown = before.map(|before| &before.rows[number]);
            if shown.map_or(*row == PaintedLine::default(), |shown| shown == row) {
                continue;
            }
            move_to((number, 0), &mut output);
            if shown.is_some() {
                output.push_str(CLEAR_LINE);
            }
            output.push_str(&row.text);
        }
        if let Some(cursor) = painted.cursor {
            move_to(cursor, &mut output);
            output.push_str(SHOW_CURSOR);
        }
        output.push_str(END);
        self.screen = AlternateScreen::Painted(painted);
        output
    }

    /// Returns the bytes that bring the primary screen and its cursor back; nothing if it is shown already. The next
    /// frame switches to the alternate screen again.
    pub(crate) fn leave(&mut self) -> String {
        if self.screen == AlternateScreen::Inactive {
            return String::new();
        }
        self.screen = AlternateScreen::Inactive;
        LEAVE.to_owned()
    }

    /// Forgets what is on the alternate screen, so that the next frame is sent whole: something else wrote to it.
    pub(crate) fn forget(&mut self) {
        if self.screen != AlternateScreen::Inactive {
            self.screen = AlternateScreen::Unknown;
        }
    }

    /// Returns true from the first frame on until [`leave`](Self::leave).
    pub(crate) fn is_active(&self) -> bool {
        self.screen != AlternateScreen::Inactive
    }

    fn painted(&self, frame: &FullScreenFrame, size: ScreenSize) -> PaintedFrame {
        let size = ScreenSize { columns: size.columns.max(1), rows: size.rows.max(1) };
        let lines = frame.rows.iter().take(size.rows);
        let mut rows: Vec<PaintedLine> =
            lines.map(|line| self.theme.paint(&clipped_line(line, size.columns))).collect();
        rows.resize(size.rows, PaintedLine::default());
        let inside =
            |(row, column): (usize, usize)| (row.min(size.rows - 1), column.min(size.columns - 1));
        PaintedFrame { size, rows, cursor: frame.cursor.map(inside) }
    }
}

fn move_to((row, column): (usize, usize), output: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(output, "\u{1b}[{};{}H", row + 1, column + 1);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::styled_text::{StyledLine, TextRole};

    fn frame(rows: &[&str], cursor: Option<(usize, usize)>) -> FullScreenFrame {
        let line = |text: &&str| {
            let mut line = StyledLine::default();
            line.push(text, TextRole::Plain);
            line
        };
        FullScreenFrame { rows: rows.iter().map(line).collect(), cursor }
    }

    const SIZE: ScreenSize = ScreenSize { columns: 20, rows: 4 };

    fn terminal() -> vt100::Parser {
        let size = |count| NonZeroU16::new(count).unwrap();
        vt100::Parser::new(size(4), size(20), 100)
    }

    fn rows(parser: &vt100::Parser) -> Vec<String> {
        parser.screen().rows(0, 20).collect()
    }

    #[test]
    fn the_primary_screen_and_its_cursor_are_back_afterwards() {
        let mut parser = terminal();
        parser.process(b"\x1b[31mone\r\ntwo\r\n\x1b[1mthree");
        let before = parser.screen().clone();
        let mut painter = FullScreenPainter::new(Theme::Dark);
        parser.process(painter.paint(&frame(&["a", "b", "c", "d"], None), SIZE).as_bytes());
        assert!(parser.screen().alternate_screen());
        assert!(parser.screen().hide_cursor());
        parser.process(painter.paint(&frame(&["a", "x"], Some((1, 1))), SIZE).as_bytes());
        assert!(!parser.screen().hide_cursor());
        assert_eq!(parser.screen().cursor_position(), (1, 1));
        parser.process(painter.leave().as_bytes());
        assert!(!parser.screen().alternate_screen());
        assert!(!parser.screen().hide_cursor());
        assert_eq!(parser.screen().contents_formatted(), before.contents_formatted());
        assert_eq!(parser.screen().cursor_position(), before.cursor_position());
        assert_eq!(parser.screen().attributes_formatted(), before.attributes_formatted());
    }

    #[test]
    fn a_frame_is_one_synchronised_update_without_wrapping() {
        let mut painter = FullScreenPainter::new(Theme::Monochrome);
        assert_eq!(
            painter.paint(&frame(&["a"], None), SIZE),
            "\u{1b}[?2026h\u{1b}[?25l\u{1b}[?1049h\u{1b}[?7l\u{1b}[2J\u{1b}[1;1Ha\u{1b}[?2026l"
        );
        assert_eq!(painter.leave(), "\u{1b}[0m\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l");
        assert_eq!(painter.leave(), "");
    }

    #[test]
    fn only_rows_that_changed_are_sent() {
        let mut painter = FullScreenPainter::new(Theme::Monochrome);
        let cursor = Some((0, 1));
        painter.paint(&frame(&["one", "two", "three"], cursor), SIZE);
        assert_eq!(painter.paint(&frame(&["one", "two", "three"], cursor), SIZE), "");
        assert_eq!(
            painter.paint(&frame(&["one", "2"], cursor), SIZE),
            "\u{1b}[?2026h\u{1b}[?25l\u{1b}[2;1H\u{1b}[2K2\u{1b}[3;1H\u{1b}[2K\u{1b}[1;2H\u{1b}[?25h\u{1b}[?2026l"
        );
    }

    #[test]
    fn a_new_size_and_a_foreign_change_repaint_everything() {
        let mut parser = terminal();
        let mut painter = FullScreenPainter::new(Theme::Monochrome);
        let frame = frame(&["one", "two"], None);
        parser.process(painter.paint(&frame, SIZE).as_bytes());
        parser.process(b"\x1b[1;1Hnoise\x1b[3;1Hnoise");
        painter.forget();
        parser.process(painter.paint(&frame, SIZE).as_bytes());
        assert_eq!(rows(&parser), ["one", "two", "", ""]);
        let smaller = ScreenSize { columns: 2, rows: 1 };
        let output = painter.paint(&frame, smaller);
        assert!(output.contains("\u{1b}[2J\u{1b}[1;1Ho…"), "{output:?}");
        assert!(!output.contains("\u{1b}[2;1H"), "{output:?}");
    }

    #[test]
    fn a_row_of_the_full_width_does_not_move_the_next_one() {
        let mut parser = terminal();
        let mut painter = FullScreenPainter::new(Theme::Monochrome);
        let wide = "x".repeat(20);
        let full = [wide.as_str(), "漢漢漢漢漢漢漢漢漢漢", "c", &wide];
        parser.process(painter.paint(&frame(&full, None), SIZE).as_bytes());
        assert_eq!(rows(&parser), full);
    }

    #[test]
    fn a_cursor_and_rows_outside_of_the_screen_stay_inside() {
        let mut parser = terminal();
        let mut painter = FullScreenPainter::new(Theme::Monochrome);
        let rows = ["1", "2", "3", "4", "5"];
        parser.process(painter.paint(&frame(&rows, Some((9, 99))), SIZE).as_bytes());
        assert_eq!(parser.screen().cursor_position(), (3, 19));
        let nothing = ScreenSize { columns: 0, rows: 0 };
        assert!(painter.paint(&frame(&rows, Some((9, 99))), nothing).contains("\u{1b}[1;1H1"));
    }
}
