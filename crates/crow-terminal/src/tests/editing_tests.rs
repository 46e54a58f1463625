use super::key_names::{editor_at, key, marked, press, type_text};
use crate::editor::{EditorEffect, PromptEditor};

fn check(table: &[(&str, &str, &str)]) {
    for (before, keys, after) in table {
        let mut editor = editor_at(before);
        press(&mut editor, keys);
        assert_eq!(marked(&editor), *after, "{before:?} {keys}");
    }
}

#[test]
fn the_cursor_moves_over_clusters_words_and_lines() {
    check(&[
        ("ab|c", "C-b", "a|bc"),
        ("ab|c", "C-f", "abc|"),
        ("|", "C-b C-f", "|"),
        ("e\u{301}|x", "<left>", "|e\u{301}x"),
        ("|👨\u{200d}👩\u{200d}👧x", "<right>", "👨\u{200d}👩\u{200d}👧|x"),
        ("🇩🇪🇫🇷|", "<left>", "🇩🇪|🇫🇷"),
        ("ab\n|cd", "<left>", "ab|\ncd"),
        ("one\ntwo th|ree\nx", "C-a", "one\n|two three\nx"),
        ("one\ntwo th|ree\nx", "C-e", "one\ntwo three|\nx"),
        ("one\ntw|o", "<home>", "one\n|two"),
        ("one\ntw|o\n", "<end>", "one\ntwo|\n"),
        ("one\ntw|o", "<C-home>", "|one\ntwo"),
        ("o|ne\ntwo", "<C-end>", "one\ntwo|"),
        ("one  two-thr|", "A-b", "one  two-|thr"),
        ("one  two-thr|", "A-b A-b", "one  |two-thr"),
        ("one  two-thr|", "<C-left> <C-left> <C-left>", "|one  two-thr"),
        ("|one  two-thr", "A-f", "one|  two-thr"),
        ("one|  two_thr", "A-f", "one  two|_thr"),
        ("one|  \ntwo", "<C-right>", "one  \ntwo|"),
        ("漢字 かな|", "A-b", "漢字 |かな"),
        ("abc\nde|", "<up>", "ab|c\nde"),
        ("abc|\nd\nefg", "<down> <down>", "abc\nd\nefg|"),
        ("abc|\nd\nefg", "C-n C-n C-p C-p", "abc|\nd\nefg"),
        ("漢字\nab|c", "<up>", "漢|字\nabc"),
        ("漢字\na|bc", "<up>", "|漢字\nabc"),
    ]);
}

#[test]
fn text_is_deleted_by_clusters_words_and_lines() {
    check(&[
        ("ab|c", "<backspace>", "a|c"),
        ("ab|c", "C-h C-h C-h", "|c"),
        ("a|bc", "<delete>", "a|c"),
        ("a|bc", "C-d C-d C-d", "a|"),
        ("xe\u{301}|", "<backspace>", "x|"),
        ("ab\n|cd", "<backspace>", "ab|cd"),
        ("one two|", "C-w", "one |"),
        ("one a/b-c  |x", "C-w", "one |x"),
        ("one a/b-c|", "<A-backspace>", "one a/b-|"),
        ("one |two three", "A-d", "one | three"),
        ("one\ntwo |three", "C-u", "one\n|three"),
        ("one\n|three", "C-u", "one|three"),
        ("one\nt|wo\nthree", "C-k", "one\nt|\nthree"),
        ("one\nt|wo\nthree", "C-k C-k", "one\nt|three"),
        ("o|ne", "C-k C-k C-k", "o|"),
    ]);
}

#[test]
fn killed_text_is_yanked() {
    check(&[
        ("one two|", "C-w C-y C-y", "one twotwo|"),
        ("one two three|", "C-w C-w C-y", "one two three|"),
        ("|one two", "A-d A-d C-y", "one two|"),
        ("one |two", "C-w C-k C-y", "one two|"),
        ("one two|", "C-w <left> C-w C-y", "one| "),
        ("a b|", "C-w C-b C-f C-w C-y A-y", "b|"),
        ("a b|", "C-w C-b C-f C-w C-y A-y A-y", "a |"),
        ("a b|", "C-w C-b C-f C-w C-y C-b A-y", "a| "),
        ("|", "C-y A-y", "|"),
        ("a\nb|", "C-w C-w C-w C-y", "a\nb|"),
    ]);
}

#[test]
fn characters_and_words_are_exchanged_and_change_their_case() {
    check(&[
        ("ab|", "C-t", "ba|"),
        ("a|bc", "C-t", "ba|c"),
        ("|ab", "C-t", "|ab"),
        ("a\n|b", "C-t", "a\n|b"),
        ("a|", "C-t", "a|"),
        ("xe\u{301}|", "C-t", "e\u{301}x|"),
        ("one| two", "A-t", "two one|"),
        ("one, two|", "A-t", "two, one|"),
        ("one t|wo", "A-t", "two one|"),
        ("one|", "A-t", "one|"),
        ("|one two", "A-u", "ONE| two"),
        ("|ONE two", "A-l", "one| two"),
        ("|  oNE two", "A-c", "  One| two"),
        ("|straße", "A-u", "STRASSE|"),
    ]);
}

#[test]
fn enter_submits_or_begins_a_line() {
    check(&[
        ("a|b", "<A-enter>", "a\n|b"),
        ("a|b", "<S-enter>", "a\n|b"),
        ("a|b", "C-j", "a\n|b"),
        ("a\\|", "<enter>", "a\n|"),
        ("a\\|b", "<enter>", "a\n|b"),
    ]);
    let mut editor = editor_at("a\\b|");
    assert_eq!(press(&mut editor, "<enter>"), EditorEffect::Submit);
    assert_eq!(editor.take_submission().text, "a\\b");
    assert!(editor.text().is_empty());
}

#[test]
fn keys_for_the_owner_are_reported() {
    let table = [
        ("|", "C-d", EditorEffect::EndOfInput),
        ("a|", "C-d", EditorEffect::Redraw),
        ("a|", "C-c", EditorEffect::Interrupt),
        ("a|", "C-z", EditorEffect::Suspend),
        ("a|", "C-x C-e", EditorEffect::ExternalEditor),
        ("a|", "C-x e", EditorEffect::None),
        ("a|", "<tab>", EditorEffect::Complete),
        ("a|", "<escape>", EditorEffect::Escape),
        ("a|", "C-l", EditorEffect::ClearScreen),
        ("a|", "C-o", EditorEffect::ToggleTranscript),
        ("a|", "C-q", EditorEffect::None),
        ("a|", "C-A-a", EditorEffect::None),
        ("a|", "<up>", EditorEffect::None),
    ];
    for (text, keys, effect) in table {
        let mut editor = editor_at(text);
        assert_eq!(press(&mut editor, keys), effect, "{text:?} {keys}");
        assert_eq!(marked(&editor), text, "{keys}");
    }
}

#[test]
fn changes_are_undone_by_words_kills_and_pastes() {
    let mut editor = PromptEditor::default();
    type_text(&mut editor, "one two");
    press(&mut editor, "C-w");
    editor.paste("pasted");
    press(&mut editor, "<backspace> <backspace>");
    let states = ["one past|", "one pasted|", "one |", "one two|", "one |", "|", "|"];
    for state in states {
        assert_eq!(marked(&editor), state);
        press(&mut editor, "C-_");
    }
    for state in states.iter().rev().skip(1) {
        assert_eq!(marked(&editor), *state);
        press(&mut editor, "A-_");
    }
}

#[test]
fn a_motion_ends_an_undo_group() {
    check(&[
        ("|", "a b C-b c C-_", "a|b"),
        ("|", "a b C-b C-f c C-_ C-_", "|"),
        ("|", "a C-_ b A-_", "b|"),
        ("ab|", "<backspace> C-x C-u", "ab|"),
    ]);
}

#[test]
fn a_combining_mark_joins_the_character_before_the_cursor() {
    let mut editor = editor_at("e|x");
    editor.on_key(key("\u{301}"));
    assert_eq!(marked(&editor), "e\u{301}|x");
    press(&mut editor, "C-_");
    assert_eq!(marked(&editor), "e|x");
}

#[test]
fn a_replaced_range_and_a_set_text_can_be_undone() {
    let mut editor = editor_at("see @ma| now");
    let context = editor.completion_context().unwrap();
    editor.replace(context.range, "@src/main.rs");
    assert_eq!(marked(&editor), "see @src/main.rs| now");
    editor.set_text("other\r\nline\r");
    assert_eq!(marked(&editor), "other\nline\n|");
    press(&mut editor, "C-_ C-_");
    assert_eq!(marked(&editor), "see @ma| now");
}

#[test]
fn a_range_that_cuts_a_character_is_moved() {
    let mut editor = editor_at("é漢|");
    editor.replace(1..3, "x");
    assert_eq!(marked(&editor), "éx|");
    editor.replace(50..90, "y");
    assert_eq!(marked(&editor), "éxy|");
}
