use super::key_names::{editor_at, marked, press, type_text};
use crate::{
    editor::{EditorEffect, PromptEditor},
    styled_text::StyledLine,
};

fn editor(entries: &[&str]) -> PromptEditor {
    let mut editor = PromptEditor::default();
    editor.set_history(entries.iter().map(|entry| (*entry).to_owned()).collect());
    editor
}

fn check(entries: &[&str], table: &[(&str, &str)]) {
    for (keys, expected) in table {
        let mut editor = editor(entries);
        press(&mut editor, keys);
        assert_eq!(marked(&editor), *expected, "{keys}");
    }
}

#[test]
fn up_and_down_walk_the_history_at_the_edges_of_the_text() {
    check(
        &["one", "two\nlines", "three"],
        &[
            ("<up>", "three|"),
            ("<up> <up>", "two\nlines|"),
            ("<up> <up> <up>", "two|\nlines"),
            ("<up> <up> <up> <up>", "one|"),
            ("<up> <up> <up> <up> <up>", "one|"),
            ("d r a f t <up> <up> <down> <down>", "draft|"),
            ("<up> <down>", "|"),
            ("<down>", "|"),
            ("d C-p C-n", "d|"),
        ],
    );
}

#[test]
fn a_changed_entry_is_kept_while_walking_and_forgotten_when_sent() {
    let mut editor = editor(&["one", "two"]);
    press(&mut editor, "<up> x <up> <down>");
    assert_eq!(marked(&editor), "twox|");
    assert_eq!(editor.take_submission().text, "twox");
    press(&mut editor, "<up>");
    assert_eq!(marked(&editor), "two|");
}

#[test]
fn an_entry_of_the_history_has_its_own_undo() {
    let mut editor = editor(&["one"]);
    press(&mut editor, "d <up> x C-_ C-_");
    assert_eq!(marked(&editor), "one|");
    press(&mut editor, "<down> C-_");
    assert_eq!(marked(&editor), "|");
}

#[test]
fn a_draft_keeps_its_chips_while_the_history_is_walked() {
    let mut editor = editor(&["one"]);
    editor.paste(&"x\n".repeat(30));
    press(&mut editor, "<up> <down>");
    assert_eq!(editor.take_submission().text, "x\n".repeat(30));
}

#[test]
fn a_search_finds_older_and_newer_entries() {
    check(
        &["git log", "cargo Test", "git show", "cargo test"],
        &[
            ("C-r g i t <enter>", "git| show"),
            ("C-r g i t C-r <enter>", "git| log"),
            ("C-r g i t C-r C-r <enter>", "git| log"),
            ("C-r g i t C-r C-s <enter>", "git| show"),
            ("C-r t e s t C-r <enter>", "cargo Test|"),
            ("C-r T e s t <enter>", "cargo Test|"),
            ("C-r l o x <backspace> <enter>", "git lo|g"),
            ("C-r q <enter>", "|"),
            ("d C-r l o g <escape>", "d|"),
            ("d C-r l o g C-g", "d|"),
            ("d C-r l o g <enter> <down> <down> <down> <down>", "d|"),
            ("C-r s h o w C-a x", "x|git show"),
            ("C-r s h o w <left>", "git sho|w"),
        ],
    );
}

#[test]
fn line_ends_of_entries_are_line_feeds() {
    check(&["a\r\nb\rc"], &[("<up>", "a\nb\nc|"), ("C-r b <enter>", "a\nb|\nc")]);
}

#[test]
fn a_search_skips_entries_with_the_same_text() {
    check(&["git one", "git two", "git two"], &[("C-r g i t C-r <enter>", "git| one")]);
}

#[test]
fn a_search_ignores_the_case_of_other_letters_too() {
    check(&["GRÜN İx"], &[("C-r g r ü n <enter>", "GRÜN| İx")]);
}

#[test]
fn a_search_that_is_interrupted_restores_the_draft() {
    let mut editor = editor(&["one"]);
    type_text(&mut editor, "draft");
    assert_eq!(press(&mut editor, "C-r o n C-c"), EditorEffect::Interrupt);
    assert_eq!(marked(&editor), "draft|");
    assert!(!editor.is_searching());
}

#[test]
fn a_key_that_ends_a_search_has_its_effect() {
    let table = [
        ("C-d", EditorEffect::Redraw),
        ("<tab>", EditorEffect::Complete),
        ("C-z", EditorEffect::Suspend),
        ("C-[", EditorEffect::Redraw),
        ("C-q", EditorEffect::Redraw),
    ];
    for (keys, effect) in table {
        let mut editor = editor(&["one"]);
        assert_eq!(press(&mut editor, &format!("C-r o {keys}")), effect, "{keys}");
        assert!(!editor.is_searching());
    }
}

#[test]
fn the_search_is_shown_below_its_match() {
    let mut editor = editor(&["one", "two"]);
    press(&mut editor, "C-r n");
    let view = editor.view(30, 5, "> ");
    let lines: Vec<_> = view.lines.iter().map(StyledLine::text).collect();
    assert_eq!(lines, ["> one", "search: n"]);
    assert_eq!(view.cursor, (1, 9));
    press(&mut editor, "q");
    let view = editor.view(50, 5, "> ");
    assert_eq!(view.lines[1].text(), "search, nothing found: nq");
    let view = editor.view(50, 1, "> ");
    assert_eq!(view.lines.len(), 1);
}

#[test]
fn a_new_history_keeps_the_text_as_the_draft() {
    let mut editor = editor_at("a|b");
    editor.set_history(vec!["one".to_owned()]);
    editor.push_history("two".to_owned());
    press(&mut editor, "<up>");
    assert_eq!(marked(&editor), "two|");
    press(&mut editor, "<down>");
    assert_eq!(marked(&editor), "ab|");
}
