//! The live region on a terminal that wraps its rows anew when its size changes, which the program learns of later.

use std::num::NonZeroU16;

use alacritty_terminal::{
    Term,
    event::VoidListener,
    grid::Dimensions as _,
    index::{Column, Line},
    term::{Config, cell::Flags, test::TermSize},
    vte::ansi::Processor,
};
use crow_console::ConsoleStyle;
use proptest::prelude::*;

use crate::{
    inline_screen::{InlineScreen, InputView},
    live_region::{LiveRegion, RegionContent, RegionCursor, ResizeBehavior},
    painted_line::PaintedLine,
    screen_size::ScreenSize,
    styled_text::{StyledLine, TextRole},
    theme::Theme,
};

/// A terminal that wraps lines anew, with all that it keeps.
struct WrappingTerminal {
    term: Term<VoidListener>,
    parser: Processor,
}

impl WrappingTerminal {
    fn new(columns: usize, rows: usize) -> Self {
        let config = Config { scrolling_history: 10_000, ..Config::default() };
        let term = Term::new(config, &TermSize::new(columns, rows), VoidListener);
        Self { term, parser: Processor::new() }
    }

    fn show(&mut self, output: &str) {
        self.parser.advance(&mut self.term, output.as_bytes());
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        self.term.resize(TermSize::new(columns, rows));
    }

    /// Returns the lines with text, with rows that the terminal wrapped joined.
    fn lines(&self) -> Vec<String> {
        let grid = self.term.grid();
        let last = Column(grid.columns() - 1);
        let (mut lines, mut line) = (Vec::new(), String::new());
        for row in grid.topmost_line().0..=grid.bottommost_line().0 {
            let row = &grid[Line(row)];
            let text = (0..grid.columns()).map(|column| row[Column(column)].c);
            line.extend(text);
            if !row[last].flags.contains(Flags::WRAPLINE) {
                let text = std::mem::take(&mut line);
                lines.extend(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()));
            }
        }
        lines
    }
}

fn line(text: &str) -> PaintedLine {
    PaintedLine { text: text.to_owned(), width: text.len() }
}

fn region_rows(count: usize, width: usize) -> Vec<PaintedLine> {
    (0..count).map(|number| line(&format!("{}", number % 10).repeat(width))).collect()
}

/// A frame of a program that does not know the size of the terminal yet.
fn hidden(rows: Vec<PaintedLine>) -> RegionContent {
    RegionContent { rows, cursor: RegionCursor::Hidden }
}

#[test]
fn a_frame_for_the_old_width_leaves_no_row_behind() {
    for columns in [25, 40, 79, 200] {
        let mut terminal = WrappingTerminal::new(80, 24);
        let mut region = LiveRegion::new(80, ResizeBehavior::Wrap);
        let finished: Vec<_> = (0..40).map(|number| line(&format!("line {number}"))).collect();
        terminal.show(&region.draw(&finished, hidden(region_rows(4, 70))));
        terminal.resize(columns, 24);
        terminal.show(&region.draw(&[line("line 40")], hidden(region_rows(5, 72))));
        terminal.show(&region.draw(&[], hidden(region_rows(5, 60))));
        region.set_columns(columns);
        terminal.show(&region.draw(&[], hidden(region_rows(4, 20))));
        terminal.show(&region.clear());
        let expected: Vec<_> = (0..=40).map(|number| format!("line {number}")).collect();
        assert_eq!(terminal.lines(), expected, "{columns}");
    }
}

#[test]
fn a_region_at_the_top_of_the_screen_is_not_taken_to_the_history() {
    let mut terminal = WrappingTerminal::new(80, 24);
    let mut region = LiveRegion::new(80, ResizeBehavior::Wrap);
    for content in [hidden(region_rows(3, 9)), hidden(region_rows(1, 5)), hidden(Vec::new())] {
        let output = region.draw(&[], content) + &region.draw(&[line("end")], hidden(Vec::new()));
        // In its first column, tmux takes the screen to its history before it clears it.
        assert!(!output.contains("\r\u{1b}[J"), "{output:?}");
        terminal.show(&output);
    }
    assert_eq!(terminal.lines(), ["end", "end", "end"]);
}

#[test]
fn a_hidden_cursor_is_shown_when_the_region_is_removed() {
    let mut region = LiveRegion::new(80, ResizeBehavior::Wrap);
    let frame = region.draw(&[], hidden(region_rows(2, 9)));
    assert!(frame.contains("\u{1b}[?25l") && !frame.contains("\u{1b}[?25h"), "{frame:?}");
    assert_eq!(region.restore_cursor(), "\u{1b}[?25l");
    assert!(region.clear().ends_with("\u{1b}[?25h"));
    assert_eq!(region.restore_cursor(), "");
}

fn input(above: &[&str], text: &str) -> InputView {
    let styled = |text: &str| {
        let mut line = StyledLine::default();
        line.push(text, TextRole::Plain);
        line
    };
    InputView {
        above: above.iter().map(|text| styled(text)).collect(),
        rows: vec![styled(text)],
        cursor: (0, text.len()),
        below: Vec::new(),
    }
}

fn inline_screen(output: &mut Vec<u8>) -> InlineScreen<&mut Vec<u8>> {
    let style = ConsoleStyle::plain(80);
    InlineScreen::new(output, SIZE, Theme::Monochrome, ResizeBehavior::Wrap, style)
}

const SIZE: ScreenSize = ScreenSize { columns: 80, rows: 24 };

#[test]
fn a_prompt_below_other_rows_has_a_drawn_cursor() {
    for (above, text, is_drawn) in [(&[][..], "> a", false), (&["a question"], "> a", true)] {
        let mut output = Vec::new();
        inline_screen(&mut output).set_input(input(above, text), Some(SIZE)).unwrap();
        let mut parser =
            vt100::Parser::new(NonZeroU16::new(24).unwrap(), NonZeroU16::new(80).unwrap(), 0);
        parser.process(&output);
        let screen = parser.screen();
        let row = screen.rows(0, 80).position(|row| row.starts_with(text)).unwrap();
        let cell = screen.cell(u16::try_from(row).unwrap(), 3).unwrap();
        assert_eq!((cell.inverse(), screen.hide_cursor()), (is_drawn, is_drawn), "{above:?}");
    }
}

#[test]
fn a_prompt_with_a_shown_cursor_is_not_drawn_while_the_size_changes() {
    let mut output = Vec::new();
    let mut screen = inline_screen(&mut output);
    screen.set_input(input(&[], "> one"), Some(SIZE)).unwrap();
    let narrower = ScreenSize { columns: 40, ..SIZE };
    screen.set_input(input(&[], "> two"), Some(narrower)).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("one") && !text.contains("two"), "{text:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Frame {
        finished: usize,
        rows: usize,
        width: usize,
    },
    /// The terminal changes its size.
    Resize {
        columns: usize,
        rows: usize,
    },
    /// The program learns of the size.
    Notice,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let frame = (0..6_usize, 1..6_usize, 0..60_usize)
        .prop_map(|(finished, rows, width)| Step::Frame { finished, rows, width });
    let resize =
        (20..80_usize, 16..40_usize).prop_map(|(columns, rows)| Step::Resize { columns, rows });
    prop::collection::vec(prop_oneof![4 => frame, 2 => resize, 1 => Just(Step::Notice)], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_line_is_lost_doubled_or_torn_however_late_the_program_learns_of_sizes(steps in steps()) {
        let mut terminal = WrappingTerminal::new(60, 24);
        let mut region = LiveRegion::new(60, ResizeBehavior::Wrap);
        let (mut actual, mut known) = (60, 60);
        let mut expected: Vec<_> = (0..60).map(|number| format!("line {number}")).collect();
        let lines: Vec<_> = expected.iter().map(|text| line(text)).collect();
        terminal.show(&region.draw(&lines, hidden(region_rows(1, 4))));
        for step in steps {
            match step {
                Step::Frame { finished, rows, width } => {
                    let texts: Vec<_> = (0..finished)
                        .map(|number| format!("line {} of some words, and more", expected.len() + number))
                        .collect();
                    let lines: Vec<_> = texts.iter().map(|text| line(text)).collect();
                    expected.extend(texts);
                    let content = hidden(region_rows(rows, width.min(known - 1)));
                    terminal.show(&region.draw(&lines, content));
                }
                Step::Resize { columns, rows } => {
                    terminal.resize(columns, rows);
                    actual = columns;
                }
                Step::Notice => {
                    known = actual;
                    region.set_columns(known);
                }
            }
        }
        terminal.show(&region.clear());
        prop_assert_eq!(terminal.lines(), expected);
    }
}
