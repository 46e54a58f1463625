//! A terminal in memory, and keys by their names.

use std::{fmt::Write as _, num::NonZeroU16};

use crate::{
    full_screen::{FullScreenPainter, FullScreenView, ViewEffect},
    keys::{Key, KeyCode, KeyModifiers},
    screen_size::ScreenSize,
    styled_text::{Emphasis, StyledLine, StyledSpan, TextRole},
    theme::Theme,
};

/// The sizes of the golden screens.
pub(super) const SIZES: [(usize, usize); 3] = [(80, 24), (120, 40), (40, 10)];

/// Returns a size.
pub(super) fn size(columns: usize, rows: usize) -> ScreenSize {
    ScreenSize { columns, rows }
}

/// Returns the screen of a view: each row with `▏` behind its last column, and the position of the cursor.
pub(super) fn screen(view: &mut dyn FullScreenView, columns: usize, rows: usize) -> String {
    let count = |count: usize| NonZeroU16::new(u16::try_from(count).unwrap()).unwrap();
    let mut parser = vt100::Parser::new(count(rows), count(columns), 0);
    let mut painter = FullScreenPainter::new(Theme::Dark);
    let size = size(columns, rows);
    let frame = view.frame(size);
    parser.process(painter.paint(&frame, size).as_bytes());
    let mut text = String::new();
    for row in parser.screen().rows(0, u16::try_from(columns).unwrap()) {
        text.push_str(row.trim_end());
        text.push_str("▏\n");
    }
    if let Some((row, column)) = frame.cursor {
        writeln!(text, "cursor: row {row}, column {column}").unwrap();
    }
    text
}

/// Returns the rows of a view as texts.
pub(super) fn rows(view: &mut dyn FullScreenView, columns: usize, rows: usize) -> Vec<String> {
    view.frame(size(columns, rows)).rows.iter().map(StyledLine::text).collect()
}

/// Returns a row with the role of each text that is not plain, as `{role text}`; `*` marks emphasis.
pub(super) fn roles(line: &StyledLine) -> String {
    let span = |span: &StyledSpan| {
        let mark = if span.look.emphasis == Emphasis::NONE { "" } else { "*" };
        match (span.look.role, mark) {
            (TextRole::Plain, "") => span.text.clone(),
            (role, mark) => format!("{{{role:?}{mark} {}}}", span.text),
        }
    };
    line.spans().iter().map(span).collect()
}

/// Returns the key of a name: a character, `ctrl-x`, or a word such as `enter`.
pub(super) fn key(name: &str) -> Key {
    if let Some(character) = name.strip_prefix("ctrl-") {
        return Key::ctrl(character.chars().next().unwrap());
    }
    Key::plain(match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Escape,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "page-up" => KeyCode::PageUp,
        "page-down" => KeyCode::PageDown,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "backspace" => KeyCode::Backspace,
        "space" => KeyCode::Char(' '),
        "f2" => KeyCode::Function(2),
        _ => {
            let mut characters = name.chars();
            let character = characters.next().unwrap();
            assert_eq!(characters.next(), None, "no key {name}");
            KeyCode::Char(character)
        }
    })
}

/// Presses keys, and returns the effect of the last one.
pub(super) fn press(view: &mut dyn FullScreenView, keys: &str) -> ViewEffect {
    let effects = keys.split_whitespace().map(|name| view.on_key(key(name)));
    effects.last().unwrap_or(ViewEffect::None)
}

/// Types a text.
pub(super) fn type_text(view: &mut dyn FullScreenView, text: &str) {
    for character in text.chars() {
        view.on_key(Key::char(character));
    }
}

/// Keys of every kind, for random input.
pub(super) fn all_keys() -> Vec<Key> {
    let codes = [
        KeyCode::Enter,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Escape,
        KeyCode::Function(1),
    ];
    let mut keys: Vec<Key> = codes.into_iter().map(Key::plain).collect();
    keys.extend("aeßnNgGjkqs/[] 漢\u{301}\u{1b}\u{202e}".chars().map(Key::char));
    keys.extend("bcdfnpuw".chars().map(Key::ctrl));
    keys.push(Key { code: KeyCode::Up, modifiers: KeyModifiers::SHIFT });
    keys.push(Key::alt('x'));
    keys
}
