use std::fmt::Write as _;

use super::key_names::{editor_at, press};
use crate::{
    editor::{EditorView, PromptEditor},
    styled_text::{StyledLine, TextRole},
};

/// Returns the lines with `|` at the cursor.
fn shown(view: &EditorView) -> Vec<String> {
    let mark = |(row, line): (usize, &StyledLine)| {
        let mut text = line.text();
        if row == view.cursor.0 {
            let mut column = 0;
            let mut at = text.len();
            for (start, character) in text.char_indices() {
                if column == view.cursor.1 {
                    at = start;
                    break;
                }
                column += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
            }
            text.insert(at, '|');
        }
        text
    };
    view.lines.iter().enumerate().map(mark).collect()
}

fn check(width: usize, rows: usize, table: &[(&str, &[&str])]) {
    for (text, expected) in table {
        let view = editor_at(text).view(width, rows, "> ");
        assert_eq!(shown(&view), *expected, "{text:?}");
    }
}

#[test]
fn rows_are_broken_at_words_and_indented_under_the_text() {
    check(
        13,
        9,
        &[
            ("|", &["> |"]),
            ("one two|", &["> one two|"]),
            ("one two\n|three", &["> one two", "  |three"]),
            ("one two three|", &["> one two ", "  three|"]),
            ("one two |three", &["> one two ", "  |three"]),
            ("abcdefghijklm|", &["> abcdefghij", "  klm|"]),
            ("abcdefghij|", &["> abcdefghij|"]),
            ("abcdefghij|k", &["> abcdefghij", "  |k"]),
            ("abcdefghi |k", &["> abcdefghi ", "  |k"]),
            ("abcdefghij |k", &["> abcdefghij ", "  |k"]),
            ("abcdefghij |", &["> abcdefghij ", "  |"]),
            ("abcdefghij|  k", &["> abcdefghij| ", "   k"]),
            ("a\n|\nb", &["> a", "  |", "  b"]),
            ("a\n|", &["> a", "  |"]),
        ],
    );
}

#[test]
fn wide_characters_are_never_split() {
    check(
        8,
        9,
        &[
            ("漢字漢|", &["> 漢字", "  漢|"]),
            ("ab 漢字|", &["> ab 漢", "  字|"]),
            ("a👨\u{200d}👩\u{200d}👧b|", &["> a👨\u{200d}👩\u{200d}👧b|"]),
        ],
    );
    check(4, 9, &[("漢字|", &["> …", "  …|"])]);
}

#[test]
fn characters_that_are_not_seen_are_shown() {
    check(
        60,
        9,
        &[
            ("a\u{1b}[2J\u{7f}|", &["> a␛[2J␡|"]),
            ("a\u{202e}b\u{200b}c|", &["> a<U+202E>b<U+200B>c|"]),
            ("a\u{2028}b\u{2029}|", &["> a<U+2028>b<U+2029>|"]),
            ("a\tb|", &["> a    b|"]),
            ("a\u{200d}|", &["> a<U+200D>|"]),
            ("\u{301}x|", &["> <U+0301>x|"]),
            ("a\u{9b}b|", &["> a<U+009B>b|"]),
        ],
    );
}

#[test]
fn marks_and_joiners_within_a_cluster_are_left() {
    for text in ["e\u{301}", "👨\u{200d}👩\u{200d}👧", "❤\u{fe0f}", "नि"] {
        let mut editor = PromptEditor::default();
        editor.set_text(text);
        assert_eq!(editor.view(60, 9, "> ").lines[0].text(), format!("> {text}"));
    }
}

#[test]
fn rows_that_do_not_fit_are_hinted_at() {
    let text = "1\n2\n3\n4\n5\n6\n7\n8|";
    check(20, 4, &[(text, &["  … 5 more lines", "  6", "  7", "  8|"])]);
    check(20, 8, &[(text, &["> 1", "  2", "  3", "  4", "  5", "  6", "  7", "  8|"])]);
    check(20, 2, &[(text, &["  7", "  8|"])]);
    check(20, 1, &[(text, &["  8|"])]);
    check(20, 4, &[("1|\n2\n3\n4\n5", &["> 1|", "  2", "  3", "  … 2 more lines"])]);
    check(
        20,
        5,
        &[
            ("1\n2\n3\n4|\n5\n6\n7", &["> 1", "  2", "  3", "  4|", "  … 3 more lines"]),
            (
                "1\n2\n3\n4\n5|\n6\n7",
                &["  … 2 more lines", "  3", "  4", "  5|", "  … 2 more lines"],
            ),
            ("1\n2\n3\n4\n5\n6|\n7", &["  … 3 more lines", "  4", "  5", "  6|", "  7"]),
        ],
    );
}

#[test]
fn the_view_scrolls_only_as_far_as_the_cursor_needs() {
    let mut editor = editor_at("1\n2\n3\n4\n5\n6\n7\n8|");
    let steps: [(&str, &[&str]); 5] = [
        ("C-f", &["  … 5 more lines", "  6", "  7", "  8|"]),
        ("<up>", &["  … 5 more lines", "  6", "  7|", "  8"]),
        ("<up> <up>", &["  … 4 more lines", "  5|", "  6", "  … 2 more lines"]),
        ("<down>", &["  … 4 more lines", "  5", "  6|", "  … 2 more lines"]),
        ("<C-home>", &["> |1", "  2", "  3", "  … 5 more lines"]),
    ];
    for (keys, expected) in steps {
        press(&mut editor, keys);
        assert_eq!(shown(&editor.view(20, 4, "> ")), expected, "{keys}");
    }
}

#[test]
fn up_and_down_follow_the_rows_of_the_view() {
    let mut editor = editor_at("one two three four five|");
    editor.view(13, 9, "> ");
    let steps: [(&str, &[&str]); 4] = [
        ("<up>", &["> one two ", "  thre|e four ", "  five"]),
        ("<up>", &["> one |two ", "  three four ", "  five"]),
        ("<down> <down>", &["> one two ", "  three four ", "  five|"]),
        ("C-a", &["> |one two ", "  three four ", "  five"]),
    ];
    for (keys, expected) in steps {
        press(&mut editor, keys);
        assert_eq!(shown(&editor.view(13, 9, "> ")), expected, "{keys}");
    }
}

#[test]
fn chips_stand_out() {
    let mut editor = PromptEditor::default();
    editor.set_text("see ");
    editor.paste(&"x\n".repeat(30));
    let view = editor.view(40, 3, "> ");
    let spans: Vec<_> =
        view.lines[0].spans().iter().map(|span| (&*span.text, span.look.role)).collect();
    let expected = [
        ("> ", TextRole::Accent),
        ("see ", TextRole::Plain),
        ("[30 lines pasted]", TextRole::Accent),
    ];
    assert_eq!(spans, expected);
    let lines: Vec<_> = editor.view(12, 3, "> ").lines.iter().map(StyledLine::text).collect();
    assert_eq!(lines, ["> see ", "  [30 line…"]);
}

#[test]
fn a_chip_of_wide_characters_is_cut_to_its_columns() {
    let mut editor = PromptEditor::default();
    editor.insert_image("漢字漢字漢字");
    for width in 3..30 {
        let view = editor.view(width, 3, "");
        assert_eq!(view.cursor.1, view.lines[0].width(), "{width}");
    }
}

#[test]
fn a_long_line_is_shown_around_the_cursor() {
    let mut editor = PromptEditor::default();
    editor.set_text(&"word ".repeat(100_000));
    let view = editor.view(40, 5, "> ");
    assert_eq!(view.lines.len(), 5);
    assert!(view.lines[0].text().ends_with("+ more lines"), "{}", view.lines[0].text());
    press(&mut editor, "C-a");
    assert_eq!(editor.view(40, 5, "> ").cursor, (0, 2));
}

#[test]
fn rows_far_away_are_counted_at_least() {
    let mut text = String::new();
    for number in 0..10_000 {
        writeln!(text, "line {number}").unwrap();
    }
    let mut editor = PromptEditor::default();
    editor.set_text(&text);
    assert_eq!(editor.view(40, 5, "> ").lines[0].text(), "  … 9997+ more lines");
}
