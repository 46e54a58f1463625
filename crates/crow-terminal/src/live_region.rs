//! The live region: the rows at the bottom of the terminal that change, below lines that never do.
//!
//! Finished lines are printed once, each ended by a line break, and then belong to the terminal: it scrolls them into its own
//! history, where they can be selected and copied. Below them the region is drawn anew whenever it changes. Nothing else of the
//! screen is ever touched: no scrolling region, no alternate screen, no absolute positions. All positions are relative to the
//! cursor, which stands within the region, so that the region may begin anywhere on the screen.
//!
//! The one thing that cannot be known is what a terminal does with the rows of the region when its width changes. Most wrap them
//! anew and keep the cursor on its character; a few cut them off. [`ResizeBehavior`] says which, and thereby how many rows are
//! above the cursor afterwards.

use std::fmt::Write as _;

/// Hides the cursor, and asks the terminal to show nothing before [`END`].
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?25h\u{1b}[?2026l";
const CLEAR_TO_END_OF_SCREEN: &str = "\u{1b}[J";
const CLEAR_TO_END_OF_LINE: &str = "\u{1b}[K";

/// A line as it is written to the terminal: text and sequences for its look, without a line break.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaintedLine {
    pub text: String,
    /// Number of columns.
    pub width: usize,
}

/// Behavior of a terminal for rows that are longer than its new width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeBehavior {
    /// It wraps them.
    Wrap,
    /// It cuts them off.
    Truncate,
}

/// The rows of the region, and where the cursor is within them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionContent {
    /// The rows, each shorter than the terminal is wide.
    pub rows: Vec<PaintedLine>,
    /// Row and column of the cursor.
    pub cursor: (usize, usize),
}

/// The live region of a terminal. It makes what is to be written, and writes nothing itself.
#[derive(Debug)]
pub struct LiveRegion {
    columns: usize,
    resize: ResizeBehavior,
    drawn: RegionContent,
    /// True once anything was drawn that has to be erased or moved over.
    is_drawn: bool,
}

impl LiveRegion {
    /// Creates an empty region at the row of the cursor, which is at its beginning.
    pub fn new(columns: usize, resize: ResizeBehavior) -> Self {
        Self { columns: columns.max(1), resize, drawn: RegionContent::default(), is_drawn: false }
    }

    /// Sets the width of the terminal, which it has already.
    pub fn set_columns(&mut self, columns: usize) {
        let columns = columns.max(1);
        if columns == self.columns {
            return;
        }
        if self.resize == ResizeBehavior::Wrap {
            // Rows above the cursor may be several now, and so may that of the cursor.
            let rows_of = |width: usize| width.saturating_sub(1) / columns;
            let (row, column) = self.drawn.cursor;
            let above: usize =
                self.drawn.rows.iter().take(row).map(|line| rows_of(line.width)).sum();
            self.drawn.cursor.0 = row + above + column / columns;
        }
        self.columns = columns;
        // It is not known how the terminal shows the rows after the resize.
        self.drawn.rows.clear();
    }

    /// Returns what prints finished lines above the region, and draws the region with this content below them.
    pub fn draw(&mut self, finished: &[PaintedLine], content: RegionContent) -> String {
        if finished.is_empty() && self.is_drawn && content == self.drawn {
            return String::new();
        }
        let mut output = BEGIN.to_owned();
        self.move_to_top(&mut output);
        // 1) Lines that are final scroll away by themselves.
        if !finished.is_empty() || self.drawn.rows.is_empty() {
            output.push_str(CLEAR_TO_END_OF_SCREEN);
            self.drawn.rows.clear();
        }
        for line in finished {
            output.push_str(&line.text);
            output.push_str("\r\n");
        }
        // 2) The region. Rows that are as they were stay.
        for (number, row) in content.rows.iter().enumerate() {
            if number > 0 {
                output.push_str("\r\n");
            }
            if self.drawn.rows.get(number) != Some(row) {
                output.push_str(&row.text);
                if self.drawn.rows.get(number).is_some_and(|before| before.width > row.width) {
                    output.push_str(CLEAR_TO_END_OF_LINE);
                }
            }
        }
        if content.rows.len() < self.drawn.rows.len() {
            // The next row and all below it were of the region.
            output.push_str("\r\n");
            output.push_str(CLEAR_TO_END_OF_SCREEN);
            output.push_str("\u{1b}[A");
        }
        // 3) The cursor.
        let last = content.rows.len().saturating_sub(1);
        let (row, column) = content.cursor;
        move_up(last - row.min(last), &mut output);
        output.push('\r');
        if column > 0 {
            // Writing to a string cannot fail.
            let _ = write!(output, "\u{1b}[{column}C");
        }
        output.push_str(END);
        self.drawn = content;
        self.drawn.cursor.0 = row.min(last);
        self.is_drawn = true;
        output
    }

    /// Returns what removes the region, with the cursor at the beginning of the row where it began.
    pub fn clear(&mut self) -> String {
        if !self.is_drawn {
            return String::new();
        }
        let mut output = String::new();
        self.move_to_top(&mut output);
        output.push_str(CLEAR_TO_END_OF_SCREEN);
        self.drawn = RegionContent::default();
        self.is_drawn = false;
        output
    }

    /// Forgets what was drawn: the screen was cleared, and the cursor is at the beginning of a row.
    pub fn forget(&mut self) {
        self.drawn = RegionContent::default();
        self.is_drawn = false;
    }

    fn move_to_top(&self, output: &mut String) {
        move_up(self.drawn.cursor.0, output);
        output.push('\r');
    }
}

fn move_up(rows: usize, output: &mut String) {
    if rows > 0 {
        // Writing to a string cannot fail.
        let _ = write!(output, "\u{1b}[{rows}A");
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
        assert!(region.clear().starts_with("\u{1b}[4A\r"));
        let mut region = LiveRegion::new(40, ResizeBehavior::Truncate);
        region.draw(&[], content(&[&wide, &wide, "> "], (2, 2)));
        region.set_columns(20);
        assert!(region.clear().starts_with("\u{1b}[2A\r"));
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
                let row = frame.cursor.min(rows.len() - 1);
                let content = RegionContent { cursor: (row, rows[row].width), rows };
                parser.process(region.draw(&lines, content).as_bytes());
            }
            parser.process(region.clear().as_bytes());
            prop_assert_eq!(all_rows(&mut parser), expected);
        }
    }
}
