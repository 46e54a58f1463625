//! The keys that the help names are those that the editor has.

use super::key_names::{editor_at, marked, press, type_text};
use crate::{
    editor::{EditingStyle, EditorEffect, PromptEditor},
    shortcut_help::{KeyMode, ListColumn, Shortcut, ShortcutContext, hints_for},
};

/// Keys that the chat takes before the editor.
const CHAT_KEYS: [&str; 2] = ["shift-tab", "esc esc"];

fn names(column: ListColumn) -> Vec<&'static str> {
    column.shortcuts().iter().map(|Shortcut { keys, .. }| *keys).collect()
}

/// Asserts that a table is about exactly the keys of a list.
fn assert_complete<'a>(column: ListColumn, table: impl Iterator<Item = &'a str>) {
    let expected: Vec<&str> =
        names(column).into_iter().filter(|keys| !CHAT_KEYS.contains(keys)).collect();
    let mut found: Vec<&str> = table.collect();
    found.dedup();
    assert_eq!(found, expected, "{column:?}");
}

/// An editor in a mode with a text.
fn editor(mode: KeyMode, text: &str) -> PromptEditor {
    let mut editor = PromptEditor::new(match mode {
        KeyMode::Emacs => EditingStyle::Emacs,
        KeyMode::ViInsert | KeyMode::ViNormal => EditingStyle::Vi,
    });
    editor.set_history(vec!["older".to_owned(), "newer".to_owned()]);
    editor.set_text(text);
    if mode == KeyMode::ViNormal {
        press(&mut editor, "<escape>");
        assert!(editor.is_in_normal_mode());
    }
    editor
}

/// Keys of the list, keys to press, their effect, and the text after them.
type ChatRow = (&'static str, &'static str, EditorEffect, &'static str);

/// Rows that are the same in both styles. The text is empty before them.
const BEGINNING: [ChatRow; 11] = [
    ("enter", "a <enter>", EditorEffect::Submit, "a"),
    ("ctrl-j, \\ enter", "C-j", EditorEffect::Redraw, "\n"),
    ("ctrl-j, \\ enter", "\\ <enter>", EditorEffect::Redraw, "\n"),
    ("/", "/", EditorEffect::Redraw, "/"),
    ("@", "@", EditorEffect::Redraw, "@"),
    ("!", "!", EditorEffect::Redraw, "!"),
    ("tab", "<tab>", EditorEffect::Complete, ""),
    ("↑, ↓", "<up>", EditorEffect::Redraw, "newer"),
    ("↑, ↓", "<up> <up>", EditorEffect::Redraw, "older"),
    ("↑, ↓", "<up> <up> <down>", EditorEffect::Redraw, "newer"),
    ("ctrl-r", "C-r o l d <enter>", EditorEffect::Redraw, "older"),
];
const END: [ChatRow; 6] = [
    ("ctrl-c", "a C-c", EditorEffect::Interrupt, "a"),
    ("ctrl-d", "C-d", EditorEffect::EndOfInput, ""),
    ("ctrl-o", "C-o", EditorEffect::ToggleTranscript, ""),
    ("ctrl-x ctrl-e", "C-x C-e", EditorEffect::ExternalEditor, ""),
    ("ctrl-l", "C-l", EditorEffect::ClearScreen, ""),
    ("ctrl-z", "C-z", EditorEffect::Suspend, ""),
];

#[test]
fn the_keys_of_the_chat_have_their_effects() {
    let emacs: &[ChatRow] = &[("esc", "<escape>", EditorEffect::Escape, "")];
    let vi: &[ChatRow] = &[
        ("esc", "<escape>", EditorEffect::Redraw, ""),
        ("esc, normal mode", "<escape> <escape>", EditorEffect::Escape, ""),
    ];
    let styles = [
        (KeyMode::Emacs, ListColumn::EmacsChat, emacs),
        (KeyMode::ViInsert, ListColumn::ViChat, vi),
    ];
    for (mode, column, own) in styles {
        let table: Vec<&ChatRow> = BEGINNING.iter().chain(own).chain(&END).collect();
        for (keys, pressed, effect, text) in &table {
            let mut editor = editor(mode, "");
            assert_eq!(press(&mut editor, pressed), *effect, "{column:?} {keys}: {pressed}");
            assert_eq!(editor.text(), *text, "{column:?} {keys}: {pressed}");
        }
        assert_complete(column, table.iter().map(|(keys, ..)| *keys));
    }
}

#[test]
fn the_keys_that_edit_do_what_the_list_says() {
    let table = [
        ("ctrl-b, ctrl-f", "ab|c", "C-b", "a|bc"),
        ("ctrl-b, ctrl-f", "ab|c", "C-f", "abc|"),
        ("ctrl-p, ctrl-n", "a\nb|", "C-p", "a|\nb"),
        ("ctrl-p, ctrl-n", "a|\nb", "C-n", "a\nb|"),
        ("alt-b, alt-f", "one two|", "A-b", "one |two"),
        ("alt-b, alt-f", "|one two", "A-f", "one| two"),
        ("ctrl-a, ctrl-e", "x\nab|c", "C-a", "x\n|abc"),
        ("ctrl-a, ctrl-e", "a|bc\nx", "C-e", "abc|\nx"),
        ("alt-<, alt->", "x\nab|c", "A-<", "|x\nabc"),
        ("alt-<, alt->", "a|bc\nx", "A->", "abc\nx|"),
        ("ctrl-h, ctrl-d", "ab|c", "C-h", "a|c"),
        ("ctrl-h, ctrl-d", "a|bc", "C-d", "a|c"),
        ("ctrl-w, alt-d", "one two|", "C-w", "one |"),
        ("ctrl-w, alt-d", "one| two", "A-d", "one|"),
        ("ctrl-u, ctrl-k", "ab|c", "C-u", "|c"),
        ("ctrl-u, ctrl-k", "a|bc", "C-k", "a|"),
        ("ctrl-y", "a|bc", "C-k C-y", "abc|"),
        ("alt-y", "one two|", "C-w C-a C-k C-y A-y", "two|"),
        ("ctrl-_, alt-_", "a|", "b C-_", "a|"),
        ("ctrl-_, alt-_", "a|", "b C-_ A-_", "ab|"),
        ("ctrl-t, alt-t", "a|b", "C-t", "ba|"),
        ("ctrl-t, alt-t", "one two|", "A-t", "two one|"),
        ("alt-u, alt-l", "|ab", "A-u", "AB|"),
        ("alt-u, alt-l", "|AB", "A-l", "ab|"),
        ("alt-c", "|ab", "A-c", "Ab|"),
    ];
    for (keys, before, pressed, after) in table {
        let mut editor = editor_at(before);
        press(&mut editor, pressed);
        assert_eq!(marked(&editor), after, "{keys}: {before:?} {pressed}");
    }
    assert_complete(ListColumn::EmacsEditing, table.iter().map(|(keys, ..)| *keys));
}

#[test]
fn the_keys_of_the_normal_mode_of_vi_do_what_the_list_says() {
    // The cursor is on the first character of `one two\nthree` before, and on that of the text after.
    let table = [
        ("i a I A", "l i x", "ox|ne two\nthree"),
        ("i a I A", "a x", "ox|ne two\nthree"),
        ("i a I A", "w I x", "x|one two\nthree"),
        ("i a I A", "A x", "one twox|\nthree"),
        ("o O", "o x", "one two\nx|\nthree"),
        ("o O", "O x", "x|\none two\nthree"),
        ("h j k l", "l l h", "o|ne two\nthree"),
        ("h j k l", "j", "one two\n|three"),
        ("h j k l", "j k", "|one two\nthree"),
        ("w b e, W B E", "w", "one |two\nthree"),
        ("w b e, W B E", "w b", "|one two\nthree"),
        ("w b e, W B E", "e", "on|e two\nthree"),
        ("w b e, W B E", "W", "one |two\nthree"),
        ("w b e, W B E", "W B", "|one two\nthree"),
        ("w b e, W B E", "E", "on|e two\nthree"),
        ("0 ^ $", "w 0", "|one two\nthree"),
        ("0 ^ $", "w ^", "|one two\nthree"),
        ("0 ^ $", "$", "one tw|o\nthree"),
        ("gg G", "G", "one two\n|three"),
        ("gg G", "G g g", "|one two\nthree"),
        ("f F t T ; ,", "f o", "one tw|o\nthree"),
        ("f F t T ; ,", "$ F e", "on|e two\nthree"),
        ("f F t T ; ,", "t t", "one| two\nthree"),
        ("f F t T ; ,", "$ T n", "on|e two\nthree"),
        ("f F t T ; ,", "f e 0 ;", "on|e two\nthree"),
        ("f F t T ; ,", "f e $ ,", "on|e two\nthree"),
        ("d c y + motion", "d w", "|two\nthree"),
        ("d c y + motion", "c w x", "x| two\nthree"),
        ("d c y + motion", "y w P", "one| one two\nthree"),
        ("dd cc yy", "d d", "|three"),
        ("dd cc yy", "c c x", "x|\nthree"),
        ("dd cc yy", "y y p", "one two\n|one two\nthree"),
        ("D C", "w D", "one| \nthree"),
        ("D C", "w C x", "one x|\nthree"),
        ("diw, da\"", "w d i w", "one| \nthree"),
        ("diw, da\"", "A \" q \" <escape> d a \"", "one tw|o\nthree"),
        ("x X s", "x", "|ne two\nthree"),
        ("x X s", "l X", "|ne two\nthree"),
        ("x X s", "s x", "x|ne two\nthree"),
        ("r", "r x", "|xne two\nthree"),
        ("p P", "x p", "n|oe two\nthree"),
        ("p P", "x P", "|one two\nthree"),
        ("u, ctrl-r", "x u", "|one two\nthree"),
        ("u, ctrl-r", "x u C-r", "|ne two\nthree"),
        (".", "x .", "|e two\nthree"),
        ("3w, 2dd", "3 l", "one| two\nthree"),
        ("3w, 2dd", "2 d d", "|"),
    ];
    for (keys, pressed, after) in table {
        let mut editor = editor(KeyMode::ViNormal, "one two\nthree");
        press(&mut editor, "g g 0");
        press(&mut editor, pressed);
        assert_eq!(marked(&editor), after, "{keys}: {pressed}");
    }
    assert_complete(ListColumn::ViEditing, table.iter().map(|(keys, ..)| *keys));
}

#[test]
fn the_keys_of_hints_have_their_effects() {
    let stop_keys = ["esc", "ctrl-c"];
    let table = [
        ("enter", "<enter>", EditorEffect::Submit),
        ("ctrl-j", "C-j", EditorEffect::Redraw),
        ("ctrl-c", "C-c", EditorEffect::Interrupt),
        ("esc", "<escape>", EditorEffect::Escape),
        ("ctrl-x ctrl-e", "C-x C-e", EditorEffect::ExternalEditor),
        ("ctrl-o", "C-o", EditorEffect::ToggleTranscript),
        ("i", "i", EditorEffect::Redraw),
        ("k", "k", EditorEffect::Redraw),
        ("/", "/", EditorEffect::Redraw),
        ("@", "@", EditorEffect::Redraw),
        ("!", "!", EditorEffect::Redraw),
    ];
    let situations = [
        (ShortcutContext::EmptyPrompt, ""),
        (ShortcutContext::PromptWithText, "text"),
        (ShortcutContext::Working, ""),
    ];
    for (context, text) in situations {
        for mode in [KeyMode::Emacs, KeyMode::ViInsert, KeyMode::ViNormal] {
            for hint in hints_for(context, mode) {
                let Some((_, pressed, effect)) = table.iter().find(|row| row.0 == hint.keys) else {
                    assert!(CHAT_KEYS.contains(&hint.keys), "{hint:?}");
                    continue;
                };
                let mut editor = editor(mode, text);
                assert_eq!(press(&mut editor, pressed), *effect, "{context:?} {mode:?} {hint:?}");
                assert!(hint.action != "stop" || stop_keys.contains(&hint.keys));
                assert!(hint.action != "insert" || !editor.is_in_normal_mode());
            }
        }
    }
}

#[test]
fn the_keys_of_the_hints_for_a_search_have_their_effects() {
    // The keys, and the text after the key and enter.
    let table = [
        ("enter", "<enter>", "one b"),
        ("ctrl-r", "C-r <enter>", "one a"),
        ("ctrl-s", "C-r C-s <enter>", "one b"),
        ("esc", "<escape>", "draft"),
    ];
    let hints = hints_for(ShortcutContext::HistorySearch, KeyMode::Emacs);
    let keys: Vec<&str> = hints.iter().map(|hint| hint.keys).collect();
    assert_eq!(keys, table.map(|(keys, ..)| keys));
    for (keys, pressed, text) in table {
        let mut editor = PromptEditor::default();
        editor.set_history(vec!["one a".to_owned(), "one b".to_owned()]);
        editor.set_text("draft");
        press(&mut editor, "C-r");
        type_text(&mut editor, "one");
        assert_eq!(press(&mut editor, pressed), EditorEffect::Redraw, "{keys}");
        assert!(!editor.is_searching(), "{keys}");
        assert_eq!(editor.text(), text, "{keys}");
    }
}
