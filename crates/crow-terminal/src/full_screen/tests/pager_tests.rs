use std::cell::Cell;

use super::screen::{SIZES, press, roles, rows, screen, size, type_text};
use crate::{
    full_screen::{FullScreenView as _, Pager, PagerSection, ViewEffect},
    keys::Key,
    styled_text::StyledLine,
};

fn numbered(count: usize) -> String {
    let lines: Vec<String> = (1..=count).map(|number| format!("line {number}\n")).collect();
    lines.concat()
}

fn pager(count: usize) -> Pager {
    Pager::new("Log", vec![PagerSection::text(numbered(count))])
}

fn transcript() -> Pager {
    let output = "   Compiling crow v0.1.0\n\u{1b}[31merror\u{1b}[0m: it does not\tcompile, because a line is so long that it has to be wrapped on every terminal that a person would use\n".repeat(4);
    Pager::new(
        "Transcript",
        vec![
            PagerSection::markdown("# Plan\n\nFirst *read* the code, then `cargo test`.\n\n| a | b |\n|---|---|\n| 1 | 2 |").with_title("turn 1"),
            PagerSection::text(output).with_title("turn 2"),
            PagerSection::markdown("Done:\n\n- one\n- two").with_title("turn 3"),
        ],
    )
}

/// The first visible line number and the status row after keys, in a pager of 100 lines with 9 of them visible.
fn top_after(keys: &str) -> String {
    let mut pager = pager(100);
    pager.frame(size(40, 10));
    press(&mut pager, keys);
    rows(&mut pager, 40, 10)[0].clone()
}

#[test]
fn a_pager_fits_screens_of_usual_sizes() {
    for (columns, rows) in SIZES {
        let name = format!("pager_{columns}x{rows}");
        insta::assert_snapshot!(name, screen(&mut transcript(), columns, rows));
    }
}

#[test]
fn keys_scroll_within_the_text() {
    let table = [
        ("", "line 1"),
        ("down", "line 2"),
        ("j j enter ctrl-n", "line 5"),
        ("j j up", "line 2"),
        ("j j k ctrl-p", "line 1"),
        ("space", "line 9"),
        ("page-down ctrl-f", "line 17"),
        ("space space page-up", "line 9"),
        ("space b", "line 1"),
        ("ctrl-d", "line 5"),
        ("ctrl-d ctrl-d ctrl-u", "line 5"),
        ("G", "line 92"),
        ("end down space", "line 92"),
        ("G k", "line 91"),
        ("G g", "line 1"),
        ("G home up", "line 1"),
    ];
    for (keys, expected) in table {
        assert_eq!(top_after(keys), expected, "{keys}");
    }
}

#[test]
fn keys_close_a_pager() {
    for name in ["q", "esc", "ctrl-c"] {
        assert_eq!(press(&mut pager(1), name), ViewEffect::Close, "{name}");
    }
    assert_eq!(press(&mut pager(1), "x"), ViewEffect::None);
}

#[test]
fn the_status_row_has_lines_and_percent() {
    let mut log = pager(100);
    assert_eq!(rows(&mut log, 40, 10)[9], "Log   q close · / search     1–9/100  9%");
    press(&mut log, "G");
    assert_eq!(rows(&mut log, 40, 10)[9], "Log   q close           92–100/100  100%");
    assert_eq!(rows(&mut log, 10, 3)[2], "92–93/100…");
    assert_eq!(rows(&mut pager(2), 40, 10)[9], "Log   q close · / search     1–2/2  100%");
}

#[test]
fn brackets_jump_between_sections() {
    let table = [
        ("]", "turn 2"),
        ("] ]", "turn 3"),
        ("] ] ]", "turn 3"),
        ("] ] [", "turn 2"),
        ("] down [", "turn 2"),
        ("[", "turn 1"),
    ];
    for (keys, expected) in table {
        let mut transcript = transcript();
        transcript.frame(size(60, 10));
        press(&mut transcript, keys);
        let status = rows(&mut transcript, 60, 10)[9].clone();
        assert!(status.starts_with(&format!("Transcript · {expected} ")), "{keys}: {status}");
    }
}

#[test]
fn a_search_goes_around_the_ends_of_the_text() {
    let table: [(&str, &str, &str); 8] = [
        ("line 50", "", "line 47"),
        ("line 5", "n", "line 47"),
        ("LINE 100", "", "line 1"),
        ("nothing", "", "line 1"),
        ("line 9", "", "line 1"),
        ("line 9", "N", "line 92"),
        ("line 100", "n", "line 92"),
        ("9", "n n", "line 26"),
    ];
    for (text, keys, expected) in table {
        let mut pager = pager(100);
        pager.frame(size(40, 10));
        press(&mut pager, "/");
        type_text(&mut pager, text);
        press(&mut pager, "enter");
        press(&mut pager, keys);
        assert_eq!(rows(&mut pager, 40, 10)[0], expected, "{text} {keys}");
    }
}

#[test]
fn matches_are_marked_and_the_status_row_says_what_a_search_did() {
    let mut pager = pager(12);
    pager.frame(size(60, 5));
    press(&mut pager, "/");
    type_text(&mut pager, "line 1");
    assert_eq!(rows(&mut pager, 60, 5)[4], "/line 1");
    assert_eq!(pager.frame(size(60, 5)).cursor, Some((4, 7)));
    press(&mut pager, "enter");
    let frame = pager.frame(size(60, 5));
    assert_eq!(roles(&frame.rows[0]), "{Plain* line 1}");
    press(&mut pager, "n n n n");
    assert!(rows(&mut pager, 60, 5)[4].starts_with("continued from the top "));
    press(&mut pager, "N");
    assert!(rows(&mut pager, 60, 5)[4].starts_with("continued from the end "));
    press(&mut pager, "/");
    type_text(&mut pager, "zz\u{1b}");
    pager.on_paste("\nz");
    press(&mut pager, "enter");
    assert!(rows(&mut pager, 60, 5)[4].starts_with("not found: zz z "));
    press(&mut pager, "/ enter n");
    assert!(rows(&mut pager, 60, 5)[4].starts_with("no search yet: / searches "));
}

#[test]
fn a_match_that_is_visible_does_not_scroll() {
    let mut pager = pager(100);
    pager.frame(size(40, 10));
    press(&mut pager, "j /");
    type_text(&mut pager, "line 8");
    press(&mut pager, "enter");
    assert_eq!(rows(&mut pager, 40, 10)[0], "line 2");
}

#[test]
fn escape_ends_the_input_of_a_search_and_not_the_pager() {
    let mut pager = pager(3);
    assert_eq!(press(&mut pager, "/ q esc"), ViewEffect::Redraw);
    assert_eq!(press(&mut pager, "/ backspace"), ViewEffect::Redraw);
    assert_eq!(press(&mut pager, "q"), ViewEffect::Close);
}

#[test]
fn a_match_in_a_long_line_is_scrolled_to_its_row() {
    let text = format!("{}needle{}\nend", "x".repeat(1000), "y".repeat(1000));
    let mut pager = Pager::new("", vec![PagerSection::text(text)]);
    pager.frame(size(20, 7));
    press(&mut pager, "/");
    type_text(&mut pager, "needle");
    press(&mut pager, "enter");
    let shown = rows(&mut pager, 20, 7);
    assert_eq!(shown[2], format!("needle{}", "y".repeat(14)));
    press(&mut pager, "j");
    assert_eq!(rows(&mut pager, 20, 7)[1], shown[2]);
}

#[test]
fn a_new_width_keeps_the_place_in_the_text() {
    let mut log = pager(100);
    log.frame(size(40, 10));
    press(&mut log, "space space");
    assert_eq!(rows(&mut log, 4, 10)[0], "line");
    assert_eq!(rows(&mut log, 40, 20)[0], "line 17");
    // A taller screen shows no rows below the text.
    press(&mut log, "G");
    assert_eq!(rows(&mut log, 40, 30)[28], "line 100");
}

#[test]
fn markdown_is_laid_out_for_each_width() {
    let text = "one two three four five six";
    let mut pager = Pager::new("", vec![PagerSection::markdown(text)]);
    assert_eq!(rows(&mut pager, 40, 3)[0], text);
    assert_eq!(rows(&mut pager, 14, 4)[..2], ["one two three", "four five six"]);
    assert_eq!(rows(&mut pager, 40, 3)[0], text);
}

#[test]
fn a_text_without_lines_says_so() {
    for sections in [Vec::new(), vec![PagerSection::text("")], vec![PagerSection::markdown("")]] {
        let mut pager = Pager::new("Log", sections);
        assert_eq!(rows(&mut pager, 40, 3)[0], "The text is empty");
        for name in ["j", "k", "G", "g", "]", "[", "space", "b", "n"] {
            assert_eq!(press(&mut pager, name), ViewEffect::Redraw, "{name}");
        }
    }
}

#[test]
fn two_hundred_thousand_lines_open_and_are_searched() {
    let mut pager = pager(200_000);
    let last = "G / l i n e space 1 9 9 9 9 9 enter";
    assert_eq!(rows(&mut pager, 40, 10)[0], "line 1");
    press(&mut pager, last);
    assert_eq!(rows(&mut pager, 40, 10)[7], "line 199999");
    press(&mut pager, "g n");
    assert_eq!(rows(&mut pager, 40, 10)[7], "line 199999");
}

#[test]
fn only_visible_entries_are_laid_out() {
    use std::borrow::Cow;

    use crate::full_screen::{
        scroll_view::{ScrollSource, ScrollView},
        text_search::SearchMarks,
    };

    #[derive(Debug, Default)]
    struct CountedSource {
        calls: Cell<usize>,
    }

    impl ScrollSource for CountedSource {
        fn lay_out(&mut self, _columns: usize, entry: usize) -> usize {
            entry
        }
        fn entry_count(&self) -> usize {
            1_000_000
        }
        fn rows(&self, _: usize, _: usize, _: &SearchMarks<'_>) -> Vec<StyledLine> {
            self.calls.set(self.calls.get() + 1);
            vec![StyledLine::default()]
        }
        fn texts(&self, _: usize) -> Vec<Cow<'_, str>> {
            Vec::new()
        }
        fn line_number(&self, entry: usize) -> usize {
            entry + 1
        }
        fn section_starts(&self) -> &[usize] {
            &[]
        }
        fn section_title(&self, _: usize) -> Cow<'_, str> {
            Cow::Borrowed("")
        }
        fn empty_text(&self) -> &'static str {
            ""
        }
    }

    let mut view = ScrollView::new("", CountedSource::default());
    for key in ['j', ' ', 'G', 'k', 'b', 'g'] {
        view.on_key(Key::char(key));
        view.frame(size(80, 50), &[]);
    }
    assert!(view.source_mut().calls.get() < 6 * 4 * 50, "{:?}", view.source_mut());
}
