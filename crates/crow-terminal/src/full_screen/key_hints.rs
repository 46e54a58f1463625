//! The names of keys, and the row that says which keys there are.

use crate::{
    keys::{Key, KeyCode},
    styled_text::{StyledLine, TextRole},
};

/// Text between two hints.
const BETWEEN: &str = " · ";

/// Keys and what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyHint {
    pub(super) keys: String,
    pub(super) action: String,
}

impl KeyHint {
    pub(super) fn new(keys: &str, action: &str) -> Self {
        Self { keys: keys.to_owned(), action: action.to_owned() }
    }
}

/// Returns a row with as many hints as fit, from the first one on.
pub(super) fn hint_row(hints: &[KeyHint], columns: usize) -> StyledLine {
    let mut row = StyledLine::default();
    for hint in hints {
        let mut longer = row.clone();
        if longer.width() > 0 {
            longer.push(BETWEEN, TextRole::Dim);
        }
        longer.push(&hint.keys, TextRole::Plain);
        longer.push(" ", TextRole::Plain);
        longer.push(&hint.action, TextRole::Dim);
        if longer.width() > columns {
            break;
        }
        row = longer;
    }
    row
}

/// Returns the name of a key, such as `ctrl-d` or `enter`.
pub(super) fn key_name(key: Key) -> String {
    let code = match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(character) => character.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => "shift-tab".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::Insert => "insert".to_owned(),
        KeyCode::Left => "←".to_owned(),
        KeyCode::Right => "→".to_owned(),
        KeyCode::Up => "↑".to_owned(),
        KeyCode::Down => "↓".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        KeyCode::PageUp => "page up".to_owned(),
        KeyCode::PageDown => "page down".to_owned(),
        KeyCode::Escape => "esc".to_owned(),
        KeyCode::Function(number) => format!("f{number}"),
    };
    let held = [
        (key.modifiers.ctrl, "ctrl-"),
        (key.modifiers.alt, "alt-"),
        (key.modifiers.shift, "shift-"),
    ];
    let names: String =
        held.into_iter().filter_map(|(is_held, name)| is_held.then_some(name)).collect();
    names + &code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyModifiers;

    #[test]
    fn keys_have_the_names_that_people_know() {
        let shifted = Key { code: KeyCode::Up, modifiers: KeyModifiers::SHIFT };
        let table = [
            (Key::ctrl('d'), "ctrl-d"),
            (Key::alt('x').with_alt(), "alt-x"),
            (Key::char(' '), "space"),
            (Key::plain(KeyCode::Function(2)), "f2"),
            (Key::plain(KeyCode::Escape), "esc"),
            (shifted, "shift-↑"),
        ];
        for (key, expected) in table {
            assert_eq!(key_name(key), expected);
        }
    }

    #[test]
    fn hints_that_do_not_fit_are_left_out_from_the_last_one_on() {
        let hints =
            [KeyHint::new("enter", "choose"), KeyHint::new("esc", "close"), KeyHint::new("x", "y")];
        let table = [
            (80, "enter choose · esc close · x y"),
            (29, "enter choose · esc close"),
            (24, "enter choose · esc close"),
            (23, "enter choose"),
            (11, ""),
            (0, ""),
        ];
        for (columns, expected) in table {
            assert_eq!(hint_row(&hints, columns).text(), expected, "{columns}");
        }
    }
}
