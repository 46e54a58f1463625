//! Keys written as text: `a`, `C-a`, `A-b`, `<up>`, `<C-left>`; a blank between keys.

use crate::{
    editor::{EditorEffect, PromptEditor},
    keys::{Key, KeyCode, KeyModifiers},
};

/// Returns the key of a name.
pub(super) fn key(name: &str) -> Key {
    let inner = name.strip_prefix('<').and_then(|name| name.strip_suffix('>')).unwrap_or(name);
    let (mut rest, mut modifiers) = (inner, KeyModifiers::NONE);
    loop {
        rest = if let Some(rest) = rest.strip_prefix("C-") {
            modifiers.ctrl = true;
            rest
        } else if let Some(rest) = rest.strip_prefix("A-") {
            modifiers.alt = true;
            rest
        } else if let Some(rest) = rest.strip_prefix("S-") {
            modifiers.shift = true;
            rest
        } else {
            break;
        };
    }
    let code = match rest {
        "enter" => KeyCode::Enter,
        "tab" => KeyCode::Tab,
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "escape" => KeyCode::Escape,
        "space" => KeyCode::Char(' '),
        _ => {
            let mut characters = rest.chars();
            let character = characters.next().unwrap();
            assert_eq!(characters.next(), None, "no key {name}");
            KeyCode::Char(character)
        }
    };
    Key { code, modifiers }
}

/// Presses keys, and returns the effect of the last one.
pub(super) fn press(editor: &mut PromptEditor, keys: &str) -> EditorEffect {
    let mut effect = EditorEffect::None;
    for name in keys.split_whitespace() {
        effect = editor.on_key(key(name));
    }
    effect
}

/// Types a text.
pub(super) fn type_text(editor: &mut PromptEditor, text: &str) {
    for character in text.chars() {
        let code = if character == '\n' { key("A-enter") } else { Key::char(character) };
        editor.on_key(code);
    }
}

/// Returns the text with `|` at the cursor.
pub(super) fn marked(editor: &PromptEditor) -> String {
    let (before, after) = editor.text().split_at(editor.cursor());
    format!("{before}|{after}")
}

/// Creates an editor with a text that has `|` at the cursor.
pub(super) fn editor_at(marked: &str) -> PromptEditor {
    let mut editor = PromptEditor::default();
    let (before, after) = marked.split_once('|').unwrap();
    editor.set_text(after);
    press(&mut editor, "<C-home>");
    editor.replace(0..0, before);
    editor
}
