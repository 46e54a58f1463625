use super::key_names::{editor_at, marked, press, type_text};
use crate::editor::{EditingStyle, EditorEffect, PromptEditor};

/// Returns an editor in normal mode, with the cursor on the unit behind `|`.
fn editor(text: &str) -> PromptEditor {
    let mut editor = editor_at(text);
    editor.set_style(EditingStyle::Vi);
    press(&mut editor, "<escape>");
    let (before, after) = text.split_once('|').unwrap();
    if !before.is_empty()
        && !before.ends_with('\n')
        && !after.is_empty()
        && !after.starts_with('\n')
    {
        press(&mut editor, "l");
    }
    editor
}

fn check(table: &[(&str, &str, &str)]) {
    for (before, keys, after) in table {
        let mut editor = editor(before);
        press(&mut editor, keys);
        assert_eq!(marked(&editor), *after, "{before:?} {keys}");
    }
}

#[test]
fn motions_stay_in_their_line_and_on_characters() {
    check(&[
        ("ab|c", "h", "a|bc"),
        ("|abc", "h", "|abc"),
        ("abc|", "l", "ab|c"),
        ("a\n|b", "h", "a\n|b"),
        ("|abc", "2 l", "ab|c"),
        ("|abc", "9 l", "ab|c"),
        ("|abc", "$", "ab|c"),
        ("  ab|c", "0", "|  abc"),
        ("  ab|c", "^", "  |abc"),
        ("a|bc\nde\nf", "j", "abc\nd|e\nf"),
        ("a\nb\n|c", "k k", "|a\nb\nc"),
        ("a\nb\n|c", "g g", "|a\nb\nc"),
        ("|a\nb\n  c", "G", "a\nb\n  |c"),
        ("|a\nb\n  c", "2 G", "a\n|b\n  c"),
        ("a\nb\n|c", "2 g g", "a\n|b\nc"),
    ]);
}

#[test]
fn words_are_letters_or_punctuation_and_big_ones_anything() {
    check(&[
        ("|one, two_x", "w", "one|, two_x"),
        ("|one, two_x", "w w", "one, |two_x"),
        ("|one, two_x", "W", "one, |two_x"),
        ("|one two three", "2 w", "one two |three"),
        ("|one\n\ntwo", "w", "one\n|\ntwo"),
        ("|one\n\ntwo", "w w", "one\n\n|two"),
        ("one, two_|x", "b", "one, |two_x"),
        ("one, |two_x", "b", "one|, two_x"),
        ("one, |two_x", "B", "|one, two_x"),
        ("one\n\n|two", "b", "one\n|\ntwo"),
        ("|one, two", "e", "on|e, two"),
        ("|one, two", "e e", "one|, two"),
        ("|one, two", "E", "one|, two"),
        ("|one, two", "2 E", "one, tw|o"),
    ]);
}

#[test]
fn characters_are_found_in_the_line() {
    check(&[
        ("|a-b-c\n-", "f -", "a|-b-c\n-"),
        ("|a-b-c\n-", "2 f -", "a-b|-c\n-"),
        ("|a-b-c\n-", "3 f -", "|a-b-c\n-"),
        ("|ab-c", "t -", "a|b-c"),
        ("a-b|c", "F -", "a|-bc"),
        ("a-b|c", "T -", "a-|bc"),
        ("|a-b-c-", "f - ;", "a-b|-c-"),
        ("|a-b-c-", "f - ; ,", "a|-b-c-"),
        ("|a-b-c-", "t - ; ;", "a-b-|c-"),
        ("|a-b-c-", "d t -", "|-b-c-"),
        ("|a-b-c-", "d f -", "|b-c-"),
        ("a-b|c", "d F -", "a|c"),
    ]);
}

#[test]
fn operators_work_with_motions_lines_and_objects() {
    check(&[
        ("|one two", "d w", "|two"),
        ("one |two\nx", "d w", "one| \nx"),
        ("|one two three", "d 2 w", "|three"),
        ("|one two three", "2 d w", "|three"),
        ("one |two", "d b", "|two"),
        ("|one two", "d e", "| two"),
        ("one t|wo", "D", "one |t"),
        ("one t|wo", "d 0", "|wo"),
        ("one\nt|wo\nthree", "d d", "one\n|three"),
        ("one\nt|wo", "d d", "|one"),
        ("o|ne", "d d", "|"),
        ("o|ne\ntwo\nthree", "2 d d", "|three"),
        ("o|ne\ntwo\nthree", "d j", "|three"),
        ("one\ntwo\n|three", "d g g", "|"),
        ("one\nt|wo\nthree", "d G", "|one"),
        ("|one", "d j", "|one"),
        ("a|bc", "x", "a|c"),
        ("ab|c", "x", "a|b"),
        ("a|bcd", "2 x", "a|d"),
        ("a|bc", "X", "|bc"),
        ("one t|wo three", "d i w", "one | three"),
        ("one t|wo three", "d a w", "one |three"),
        ("one tw|o", "d a w", "on|e"),
        ("a \"b| c\" d", "d i \"", "a \"|\" d"),
        ("a \"b| c\" d", "d a \"", "a |d"),
        ("|a \"b c\"", "d i \"", "a \"|\""),
        ("|a b", "d i \"", "|a b"),
        ("a|bc", "d <escape> x", "a|c"),
        ("a|bc", "d q x", "a|c"),
        ("a|bc", "g x x", "a|c"),
    ]);
}

#[test]
fn a_change_begins_an_insertion() {
    check(&[
        ("|one two", "c w x", "x| two"),
        ("|one two", "c w x <escape>", "|x two"),
        ("on|e two", "c w x", "onx| two"),
        ("|one two three", "2 c w x", "x| three"),
        ("one t|wo\nx", "C y", "one ty|\nx"),
        ("one\nt|wo\nx", "c c y", "one\ny|\nx"),
        ("a \"b| c\" d", "c i \" x", "a \"x|\" d"),
        ("a|b", "i x", "ax|b"),
        ("a|b", "a x", "abx|"),
        (" a|b", "I x", " x|ab"),
        ("a|b\nc", "A x", "abx|\nc"),
        ("a|b\nc", "o x", "ab\nx|\nc"),
        ("a|b\nc", "O x", "x|\nab\nc"),
        ("a|bc", "r x", "a|xc"),
        ("a|bc", "2 r x", "ax|x"),
        ("a|bc", "3 r x", "a|bc"),
        ("a|bc", "r <enter>", "a\n|c"),
        ("a|bc", "s x", "ax|c"),
        ("a|b", "3 i x <escape>", "axx|xb"),
        ("a|b", "2 A x y <escape>", "abxyx|y"),
        ("a|b\nc", "2 o x <escape>", "ab\nx\n|x\nc"),
        ("|ab", "2 i x <escape> .", "xx|xxab"),
        ("|ab", "2 i x <escape> 3 .", "xxx|xxab"),
        ("|ab", "2 i x <escape> u", "|ab"),
        ("e\u{301}|x", "r y", "e\u{301}|y"),
    ]);
}

#[test]
fn killed_text_is_put_back() {
    check(&[
        ("|one two", "d w p", "tone| wo"),
        ("|one two", "d w P", "one| two"),
        ("|one\ntwo", "d d p", "two\n|one"),
        ("one\n|two", "d d P", "|two\none"),
        ("|one\ntwo", "y y p", "one\n|one\ntwo"),
        ("|one\ntwo", "Y 2 p", "one\n|one\none\ntwo"),
        ("|ab", "x p", "b|a"),
        ("one t|wo", "y i w P", "one tw|otwo"),
        ("|ab", "p", "|ab"),
    ]);
}

#[test]
fn a_command_and_its_insertion_are_undone_together() {
    check(&[
        ("|one two", "c w a <space> b <escape> u", "|one two"),
        ("|one two", "c w a <space> b <escape> u C-r", "a b| two"),
        ("a|b", "o x <escape> u", "a|b"),
        ("|abc", "x x u", "|bc"),
        ("|abc", "x x 2 u", "|abc"),
        ("|abc", "x x u u C-r C-r", "|c"),
    ]);
}

#[test]
fn a_change_is_repeated() {
    check(&[
        ("|abcd", "x .", "|cd"),
        ("|abcd", "x 2 .", "|d"),
        ("|abcdef", "2 x .", "|ef"),
        ("|abcdef", "2 x 3 .", "|f"),
        ("|one two three", "c w x <escape> w .", "x |x three"),
        ("|a\nb", "A ; <escape> j .", "a;\nb|;"),
        ("|a b c", "d w . u", "|b c"),
        ("|a\nb", "y y . x", "|\nb"),
        ("|abc", "r x l .", "x|xc"),
        ("|a", ".", "|a"),
    ]);
}

#[test]
fn a_paste_belongs_to_the_change_that_is_repeated() {
    let mut editor = editor("|a b");
    press(&mut editor, "c w");
    editor.paste("pasted");
    press(&mut editor, "<escape> w .");
    assert_eq!(marked(&editor), "pasted paste|d");
    editor.paste("!");
    assert_eq!(marked(&editor), "pasted paste!|d");
}

#[test]
fn a_chip_is_a_word() {
    let mut editor = editor("|ab");
    editor.paste(&"x\n".repeat(30));
    press(&mut editor, "0 d w");
    assert_eq!(editor.text(), "ab");
    press(&mut editor, "p 0 f [");
    assert_eq!(marked(&editor), "|a[30 lines pasted]b");
    press(&mut editor, "r x w d i w");
    assert_eq!(editor.text(), "xb");
}

#[test]
fn keys_for_the_owner_are_reported_in_normal_mode_too() {
    let table = [
        ("a|", "<enter>", EditorEffect::Submit),
        ("a|", "C-c", EditorEffect::Interrupt),
        ("a|", "C-d", EditorEffect::None),
        ("|", "C-d", EditorEffect::EndOfInput),
        ("a|", "<escape>", EditorEffect::Escape),
        ("a|", "d <escape>", EditorEffect::Redraw),
        ("a|", "<tab>", EditorEffect::Complete),
        ("a|", "C-x C-e", EditorEffect::ExternalEditor),
        ("a|", "q", EditorEffect::None),
        ("a|", "C-w", EditorEffect::None),
    ];
    for (text, keys, effect) in table {
        assert_eq!(press(&mut editor(text), keys), effect, "{text} {keys}");
    }
}

#[test]
fn a_new_prompt_begins_in_insert_mode() {
    let mut editor = editor("a|");
    assert!(editor.is_in_normal_mode());
    press(&mut editor, "<enter>");
    editor.take_submission();
    assert!(!editor.is_in_normal_mode());
    type_text(&mut editor, "hi");
    assert_eq!(marked(&editor), "hi|");
}

#[test]
fn the_history_is_walked_by_the_keys_of_motions() {
    let mut editor = editor("a|");
    editor.set_history(vec!["one".to_owned(), "two".to_owned()]);
    press(&mut editor, "k k");
    assert_eq!(marked(&editor), "on|e");
    press(&mut editor, "j j");
    assert_eq!(marked(&editor), "|a");
    press(&mut editor, "A x <up> <down> y <escape> u");
    assert_eq!(marked(&editor), "a|x");
}
