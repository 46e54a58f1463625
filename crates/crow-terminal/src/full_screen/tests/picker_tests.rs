use super::screen::{SIZES, press, roles, rows, screen, size, type_text};
use crate::full_screen::{FullScreenView as _, ListItem, ListPicker, ViewEffect};

fn picker() -> ListPicker {
    let titles = [
        ("Fix the failing parser tests", "main · 2 min ago"),
        ("Explain the scheduler", "main · 3 h ago"),
        (
            "Rename Widget to Gadget across the workspace, and its documentation with it",
            "rename · 5 h ago",
        ),
        ("漢字 in file names", "main · yesterday"),
        ("Release 1.2", "release-1.2-with-a-very-long-branch-name · 2 days ago"),
    ];
    let item = |(title, detail): (&str, &str)| ListItem::new(title).with_detail(detail);
    ListPicker::new("Resume a session", "sessions", titles.into_iter().map(item).collect())
}

/// The index of the selected item after keys, of ten items.
fn selected_after(keys: &str) -> Option<usize> {
    let items = (0..10).map(|number| ListItem::new(&format!("item {number}"))).collect();
    let mut picker = ListPicker::new("t", "items", items).with_selected(5);
    // Three rows of the list.
    picker.frame(size(40, 6));
    press(&mut picker, keys);
    picker.selected()
}

#[test]
fn a_picker_fits_screens_of_usual_sizes() {
    for (columns, rows) in SIZES {
        let name = format!("picker_{columns}x{rows}");
        insta::assert_snapshot!(name, screen(&mut picker(), columns, rows));
    }
}

#[test]
fn a_filter_shows_the_best_matches_first() {
    let mut picker = picker();
    type_text(&mut picker, "rele");
    insta::assert_snapshot!("picker_filter", screen(&mut picker, 80, 24));
}

#[test]
fn keys_move_the_selection_within_the_list() {
    let table = [
        ("up", 4),
        ("ctrl-p ctrl-p", 3),
        ("down", 6),
        ("ctrl-n ctrl-n", 7),
        ("home", 0),
        ("end", 9),
        ("page-up", 2),
        ("page-up page-up", 0),
        ("page-down", 8),
        ("page-down page-down", 9),
        ("home up", 0),
        ("end down", 9),
    ];
    for (keys, expected) in table {
        assert_eq!(selected_after(keys), Some(expected), "{keys}");
    }
}

#[test]
fn enter_chooses_by_the_index_in_the_given_items() {
    let mut picker = picker();
    assert_eq!(press(&mut picker, "down enter"), ViewEffect::Chosen(1));
    type_text(&mut picker, "1.2");
    assert_eq!(press(&mut picker, "enter"), ViewEffect::Chosen(4));
    type_text(&mut picker, "zzz");
    assert_eq!(press(&mut picker, "enter"), ViewEffect::None);
}

#[test]
fn escape_clears_the_filter_first_and_keeps_the_selection() {
    let mut picker = picker();
    type_text(&mut picker, "release");
    assert_eq!(press(&mut picker, "esc"), ViewEffect::Redraw);
    assert_eq!(picker.selected(), Some(4));
    assert_eq!(press(&mut picker, "esc"), ViewEffect::Close);
    type_text(&mut picker, "x");
    assert_eq!(press(&mut picker, "ctrl-c"), ViewEffect::Close);
}

#[test]
fn an_empty_list_says_so_in_words() {
    let mut empty = ListPicker::new("Resume", "sessions", Vec::new());
    assert_eq!(rows(&mut empty, 40, 10)[3], "  No sessions");
    let mut picker = picker();
    type_text(&mut picker, "zzz x");
    assert_eq!(rows(&mut picker, 40, 10)[3], "  No sessions match “zzz x”");
    assert_eq!(rows(&mut picker, 26, 10)[3], "  No sessions match “zzz…”");
    assert_eq!(rows(&mut picker, 8, 10)[3], "  No se…");
}

#[test]
fn a_paste_is_part_of_the_filter() {
    let mut picker = picker();
    picker.on_paste("expl\nain\u{1b}[2J");
    assert_eq!(rows(&mut picker, 40, 10)[1], "> expl ain[2J");
}

#[test]
fn what_matches_is_underlined() {
    let mut picker =
        ListPicker::new("t", "items", vec![ListItem::new("Makefile").with_detail("root")]);
    type_text(&mut picker, "file ot");
    let frame = picker.frame(size(30, 4));
    assert_eq!(
        roles(&frame.rows[2]),
        "{Accent › Make}{Accent* file}                {Dim ro}{Accent* ot}"
    );
}

#[test]
fn texts_of_others_are_harmless() {
    let hostile = "a\u{1b}[2J\u{202e}b\tc\nd漢e\u{301}\u{301}";
    let item = ListItem::new(hostile).with_detail(hostile);
    let mut picker = ListPicker::new(hostile, "items", vec![item]);
    let shown = rows(&mut picker, 100, 8).concat();
    assert!(shown.contains("a␛[2J\\u{202e}b c d漢e\u{301}\u{301}"), "{shown}");
    assert!(!shown.chars().any(char::is_control));
}

#[test]
fn ten_thousand_items_are_filtered_and_only_visible_ones_are_shown() {
    let item = |number| ListItem::new(&format!("src/module_{number}/file_{number}.rs"));
    let mut picker = ListPicker::new("Files", "files", (0..10_000).map(item).collect());
    type_text(&mut picker, "9876");
    let shown = rows(&mut picker, 80, 24);
    assert!(shown[0].ends_with(" 12/10000"), "{}", shown[0]);
    assert_eq!(shown[3], "› src/module_9876/file_9876.rs");
    assert_eq!(press(&mut picker, "enter"), ViewEffect::Chosen(9876));
}
