//! The live region: the rows at the bottom of the terminal that change, below lines that never do.
//!
//! Finished lines are printed once, each ended by a line break, and then belong to the terminal: it scrolls them into its own
//! history, where they can be selected and copied. Below them the region is drawn anew whenever it changes. Nothing else of the
//! screen is ever touched: no scrolling region, no alternate screen, no absolute positions. All positions are relative to the
//! cursor, which stands within the region, so that the region may begin anywhere on the screen.
//!
//! A terminal changes its size at any time, and the program learns of it later: tmux waits up to a quarter of a second. Most
//! terminals then wrap the rows of the region anew, so that nobody knows how many rows are above a cursor in the middle. This
//! keeps the region whole all the same:
//!
//! - Between frames the cursor is hidden at the beginning of the region ([`RegionCursor::Hidden`]) if a row above the prompt
//!   could wrap. It stays at the beginning of that row, however wide the terminal is.
//! - Rows of the region are drawn without automatic wrapping, so that each is one row on a narrower terminal too.
//! - Downwards the cursor moves by line feeds, which scroll at the end of the screen where a movement would stop.
//! - New rows are made empty, and filled from the last one to the first: if the size changes within a frame, there is nothing
//!   above the cursor that could wrap.
//!
//! With a cursor that is shown within the prompt, [`ResizeBehavior`] says what the terminal does with longer rows, and thereby
//! how many rows are above the cursor. The caller draws only when the size has been the same for a moment.

use std::fmt::Write as _;

use crate::{painted_line::PaintedLine, terminal_control::Multiplexer};

/// Asks the terminal to show nothing before [`END`], and hides the cursor.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?2026l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const WRAP_OFF: &str = "\u{1b}[?7l";
const WRAP_ON: &str = "\u{1b}[?7h";
/// Clears from the beginning of the row of the cursor to the end of the screen. If the clearing began in the first column of
/// the first row, tmux would take what is on the screen to its history.
const CLEAR: &str = "\r\u{1b}[K\u{1b}[C\u{1b}[J\r";
const CLEAR_TO_END_OF_LINE: &str = "\u{1b}[K";
const NEXT_ROW: &str = "\r\n";

/// Behavior of a terminal for rows that are longer than its new width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResizeBehavior {
    /// It wraps them.
    Wrap,
    /// It cuts them off.
    Truncate,
}

impl ResizeBehavior {
    /// Returns the behavior of a terminal with this value of `TERM`.
    pub(crate) fn of_terminal(term: &str, multiplexer: Multiplexer) -> Self {
        // tmux is often used with a value that begins with `screen`.
        match multiplexer {
            Multiplexer::Screen => Self::Truncate,
            _ if term == "linux" => Self::Truncate,
            Multiplexer::None | Multiplexer::Tmux | Multiplexer::Zellij => Self::Wrap,
        }
    }
}

/// The cursor of the terminal between two frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RegionCursor {
    /// It is shown in a row and a column of the region.
    Shown { row: usize, column: usize },
    /// It is hidden at the beginning of the region.
    #[default]
    Hidden,
}

/// The rows of the region, and where the cursor is within them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RegionContent {
    /// The rows, each shorter than the terminal is wide.
    pub(crate) rows: Vec<PaintedLine>,
    pub(crate) cursor: RegionCursor,
}

/// The live region of a terminal. It makes what is to be written, and writes nothing itself.
#[derive(Debug)]
pub(crate) struct LiveRegion {
    columns: usize,
    resize: ResizeBehavior,
    drawn: RegionContent,
    /// Row of the region that the cursor of the terminal is in.
    row: usize,
    /// True once anything was drawn that has to be erased or moved over.
    is_drawn: bool,
}

impl LiveRegion {
    /// Creates an empty region at the row of the cursor, which is at its beginning.
    pub(crate) fn new(columns: usize, resize: ResizeBehavior) -> Self {
        let columns = columns.max(1);
        Self { columns, resize, drawn: RegionContent::default(), row: 0, is_drawn: false }
    }

    /// Sets the width of the terminal, which it has already.
    pub(crate) fn set_columns(&mut self, columns: usize) {
        let columns = columns.max(1);
        if columns == self.columns {
            return;
        }
        self.columns = columns;
        if let (RegionCursor::Shown { row, column }, ResizeBehavior::Wrap) =
            (self.drawn.cursor, self.resize)
        {
            // Rows above the cursor may be several now, and so may that of the cursor.
            let rows_of = |width: usize| width.saturating_sub(1) / columns;
            let above: usize =
                self.drawn.rows.iter().take(row).map(|line| rows_of(line.width)).sum();
            self.row += above + column / columns;
        }
        self.forget_rows();
    }

    /// Returns true if the cursor is shown within what is drawn: then the number of rows above it depends on the width.
    pub(crate) fn shows_cursor(&self) -> bool {
        self.is_drawn && matches!(self.drawn.cursor, RegionCursor::Shown { .. })
    }

    /// Forgets what the rows show: it is not known how the terminal shows them after a resize. All are drawn anew.
    fn forget_rows(&mut self) {
        self.drawn = RegionContent { rows: Vec::new(), cursor: self.drawn.cursor };
    }

    /// Returns what prints finished lines above the region, and draws the region with this content below them.
    pub(crate) fn draw(&mut self, finished: &[PaintedLine], content: RegionContent) -> String {
        if finished.is_empty() && self.is_drawn && content == self.drawn {
            return String::new();
        }
        let mut output = BEGIN.to_owned();
        self.move_to(0, &mut output);
        if !finished.is_empty() || self.drawn.rows.is_empty() {
            output.push_str(CLEAR);
            // Lines that are final scroll away by themselves.
            for line in finished {
                output.push_str(&line.text);
                output.push_str(NEXT_ROW);
            }
            output.push_str(WRAP_OFF);
            self.draw_all(&content.rows, &mut output);
        } else {
            output.push_str(WRAP_OFF);
            self.draw_changes(&content.rows, &mut output);
        }
        output.push_str(WRAP_ON);
        let last = content.rows.len().saturating_sub(1);
        match content.cursor {
            RegionCursor::Hidden => self.move_to(0, &mut output),
            RegionCursor::Shown { row, column } => {
                self.move_to(row.min(last), &mut output);
                if column > 0 {
                    // Writing to a string cannot fail.
                    let _ = write!(output, "\u{1b}[{column}C");
                }
                output.push_str(SHOW_CURSOR);
            }
        }
        output.push_str(END);
        self.drawn = content;
        self.is_drawn = true;
        output
    }

    /// Draws all rows on a cleared screen: they are made empty, and filled from the last one to the first.
    fn draw_all(&mut self, rows: &[PaintedLine], output: &mut String) {
        self.move_to(rows.len().saturating_sub(1), output);
        for (number, row) in rows.iter().enumerate().rev() {
            self.move_to(number, output);
            if number + 1 < rows.len() {
                // On a screen with fewer rows than the region the cursor did not move.
                output.push_str(CLEAR_TO_END_OF_LINE);
            }
            output.push_str(&row.text);
            output.push('\r');
        }
    }

    /// Draws the rows that are not as they were.
    fn draw_changes(&mut self, rows: &[PaintedLine], output: &mut String) {
        let drawn = std::mem::take(&mut self.drawn.rows);
        for (number, row) in rows.iter().enumerate() {
            let before = drawn.get(number);
            if before == Some(row) {
                continue;
            }
            self.move_to(number, output);
            output.push_str(&row.text);
            if before.is_some_and(|before| before.width > row.width) {
                output.push_str(CLEAR_TO_END_OF_LINE);
            }
            output.push('\r');
        }
        if rows.len() < drawn.len() {
            self.move_to(rows.len(), output);
            output.push_str(CLEAR);
        }
    }

    /// Returns what removes the region, with the cursor at the beginning of the row where it began.
    pub(crate) fn clear(&mut self) -> String {
        if !self.is_drawn {
            return String::new();
        }
        let mut output = String::new();
        self.move_to(0, &mut output);
        output.push_str(CLEAR);
        output.push_str(SHOW_CURSOR);
        self.forget();
        output
    }

    /// Forgets what was drawn: the screen was cleared, and the cursor is at the beginning of a row.
    pub(crate) fn forget(&mut self) {
        self.drawn = RegionContent::default();
        self.row = 0;
        self.is_drawn = false;
    }

    /// Returns what hides the cursor again after something else showed it.
    pub(crate) fn restore_cursor(&self) -> &'static str {
        if self.is_drawn && !self.shows_cursor() { HIDE_CURSOR } else { "" }
    }

    /// Moves the cursor to the beginning of a row of the region.
    fn move_to(&mut self, row: usize, output: &mut String) {
        output.push('\r');
        if row < self.row {
            // Writing to a string cannot fail.
            let _ = write!(output, "\u{1b}[{}A", self.row - row);
        }
        for _ in self.row..row {
            output.push_str(NEXT_ROW);
        }
        self.row = row;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> PaintedLine {
        PaintedLine { text: text.to_owned(), width: text.len() }
    }

    fn content(rows: &[&str], cursor: (usize, usize)) -> RegionContent {
        let cursor = RegionCursor::Shown { row: cursor.0, column: cursor.1 };
        RegionContent { rows: rows.iter().map(|row| line(row)).collect(), cursor }
    }

    const COLUMNS: u16 = 20;

    fn terminal(rows: u16) -> vt100::Parser {
        let size = |count| NonZeroU16::new(count).unwrap();
        vt100::Parser::new(size(rows), size(COLUMNS), 10_000)
    }

    /// Everything on the screen and in the history above it.
    fn all_rows(parser: &mut vt100::Parser) -> Vec<String> {
        let (height, _) = parser.screen().size();
        parser.screen_mut().set_scrollback(usize::MAX);
        let mut above = parser.screen().scrollback();
        let mut rows = Vec::new();
        while above > 0 {
            parser.screen_mut().set_scrollback(above);
            let visible: Vec<String> = parser.screen().rows(0, COLUMNS).collect();
            let take = above.min(usize::from(height.get()));
            rows.extend(visible.into_iter().take(take));
            above -= take;
        }
        parser.screen_mut().set_scrollback(0);
        rows.extend(parser.screen().rows(0, COLUMNS));
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    #[test]
    fn finished_lines_stand_above_the_region_and_the_cursor_is_in_it() {
        let mut parser = terminal(6);
        let mut region = LiveRegion::new(20, ResizeBehavior::Wrap);
        parser.process(region.draw(&[], content(&["> ", "status"], (0, 2))).as_bytes());
        assert_eq!(parser.screen().cursor_position(), (0, 2));
        let finished: Vec<_> = (0..8).map(|number| line(&format!("line {number}"))).collect();
        parser.process(region.draw(&finished, content(&["> word", "status"], (0, 6))).as_bytes());
        let rows = all_rows(&mut parser);
        let expected: Vec<String> = (0..8)
            .map(|number| format!("line {number}"))
            .chain(["> word".to_owned(), "status".to_owned()])
            .collect();
        assert_eq!(rows, expected);
        assert_eq!(parser.screen().cursor_position(), (4, 6));
    }

    #[test]
    fn the_same_content_writes_nothing() {
        let mut region = LiveRegion::new(20, ResizeBehavior::Wrap);
        region.draw(&[], content(&["> "], (0, 2)));
        assert_eq!(region.draw(&[], content(&["> "], (0, 2))), "");
    }

    #[test]
    fn a_removed_region_leaves_only_finished_lines() {
        let mut parser = terminal(6);
        let mut region = LiveRegion::new(20, ResizeBehavior::Wrap);
        parser.process(region.draw(&[line("a")], content(&["x", "y", "z"], (1, 0))).as_bytes());
        parser.process(region.clear().as_bytes());
        assert_eq!(all_rows(&mut parser), ["a"]);
        assert_eq!(parser.screen().cursor_position(), (1, 0));
    }

    #[test]
    fn rows_that_were_wrapped_by_a_narrower_terminal_are_moved_over() {
        let mut region = LiveRegion::new(40, ResizeBehavior::Wrap);
        let wide = "x".repeat(30);
        region.draw(&[], content(&[&wide, &wide, "> "], (2, 2)));
        region.set_columns(20);
        // Each of the two rows above the cursor is two rows now.
        assert!(region.clear().starts_with("\r\u{1b}[4A"));
        let mut region = LiveRegion::new(40, ResizeBehavior::Truncate);
        region.draw(&[], content(&[&wide, &wide, "> "], (2, 2)));
        region.set_columns(20);
        assert!(region.clear().starts_with("\r\u{1b}[2A"));
    }

    #[test]
    fn screen_and_the_console_of_linux_cut_rows_off_and_all_others_wrap_them() {
        let table = [
            ("xterm-256color", Multiplexer::None, ResizeBehavior::Wrap),
            ("tmux-256color", Multiplexer::Tmux, ResizeBehavior::Wrap),
            ("screen-256color", Multiplexer::Tmux, ResizeBehavior::Wrap),
            ("screen", Multiplexer::Screen, ResizeBehavior::Truncate),
            ("linux", Multiplexer::None, ResizeBehavior::Truncate),
            ("xterm-256color", Multiplexer::Zellij, ResizeBehavior::Wrap),
        ];
        for (term, multiplexer, expected) in table {
            assert_eq!(ResizeBehavior::of_terminal(term, multiplexer), expected, "{term}");
        }
    }

    #[derive(Debug, Clone)]
    struct Frame {
        finished: usize,
        rows: Vec<usize>,
        cursor: usize,
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let rows = prop::collection::vec(0..18_usize, 1..5);
        let frame = (0..12_usize, rows, 0..5_usize).prop_map(|(finished, rows, cursor)| Frame {
            finished,
            rows,
            cursor,
        });
        prop::collection::vec(frame, 1..30)
    }

    proptest! {
        #[test]
        fn no_finished_line_is_lost_doubled_or_torn(frames in frames()) {
            let mut parser = terminal(8);
            let mut region = LiveRegion::new(20, ResizeBehavior::Truncate);
            let mut expected = Vec::new();
            for frame in &frames {
                let finished: Vec<_> = (0..frame.finished)
                    .map(|number| format!("line {}", expected.len() + number))
                    .collect();
                let lines: Vec<_> = finished.iter().map(|text| line(text)).collect();
                expected.extend(finished);
                let rows: Vec<_> = frame.rows.iter().map(|width| line(&"~".repeat(*width))).collect();
                let cursor = match rows.get(frame.cursor) {
                    Some(row) => RegionCursor::Shown { row: frame.cursor, column: row.width },
                    None => RegionCursor::Hidden,
                };
                let content = RegionContent { rows, cursor };
                parser.process(region.draw(&lines, content).as_bytes());
            }
            parser.process(region.clear().as_bytes());
            prop_assert_eq!(all_rows(&mut parser), expected);
        }
    }
}
