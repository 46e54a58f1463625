//! Commands of the keys, as readline has them.

use super::{history::SearchDirection, prompt_editor::EditorEffect};
use crate::keys::{Key, KeyCode, KeyModifiers};

/// The set of keys to edit with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EditingStyle {
    #[default]
    Emacs,
    Vi,
}

/// A place relative to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CursorMotion {
    Left,
    Right,
    WordLeft,
    WordRight,
    /// The start of the word before the cursor, where only blanks separate words.
    BlankWordLeft,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseChange {
    Upper,
    Lower,
    Capital,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditorCommand {
    Insert(char),
    LineFeed,
    Enter,
    Move(CursorMotion),
    Up,
    Down,
    /// Deletes one unit.
    Erase(CursorMotion),
    /// Deletes up to a place, for a later yank.
    Kill(CursorMotion),
    Yank,
    /// Replaces the text of the last yank by the text that was killed before it.
    YankOlder,
    TransposeCharacters,
    TransposeWords,
    ChangeCase(CaseChange),
    Undo,
    Redo,
    Search(SearchDirection),
    /// Ctrl-x, the first of two keys.
    Prefix,
    /// Ends the input if the text is empty, and deletes a unit otherwise.
    EraseOrEnd,
    Effect(EditorEffect),
}

/// Returns the command of a key.
pub(super) fn command(key: Key) -> Option<EditorCommand> {
    let KeyCode::Char(character) = key.code else {
        return named_command(key.code, key.modifiers);
    };
    match (key.modifiers.ctrl, key.modifiers.alt) {
        (false, false) => Some(EditorCommand::Insert(character)),
        (true, false) => control_command(character),
        (false, true) => alt_command(character),
        (true, true) => None,
    }
}

/// Returns the command of a key after ctrl-x.
pub(super) fn prefixed_command(key: Key) -> Option<EditorCommand> {
    if key == Key::ctrl('u') {
        Some(EditorCommand::Undo)
    } else if key == Key::ctrl('e') {
        Some(EditorCommand::Effect(EditorEffect::ExternalEditor))
    } else {
        None
    }
}

fn control_command(character: char) -> Option<EditorCommand> {
    let command = match character {
        'a' => EditorCommand::Move(CursorMotion::LineStart),
        'b' => EditorCommand::Move(CursorMotion::Left),
        'c' => EditorCommand::Effect(EditorEffect::Interrupt),
        'd' => EditorCommand::EraseOrEnd,
        'e' => EditorCommand::Move(CursorMotion::LineEnd),
        'f' => EditorCommand::Move(CursorMotion::Right),
        'h' => EditorCommand::Erase(CursorMotion::Left),
        'i' => EditorCommand::Effect(EditorEffect::Complete),
        'j' => EditorCommand::LineFeed,
        'k' => EditorCommand::Kill(CursorMotion::LineEnd),
        'l' => EditorCommand::Effect(EditorEffect::ClearScreen),
        'm' => EditorCommand::Enter,
        'n' => EditorCommand::Down,
        'o' => EditorCommand::Effect(EditorEffect::ToggleTranscript),
        'p' => EditorCommand::Up,
        'r' => EditorCommand::Search(SearchDirection::Older),
        's' => EditorCommand::Search(SearchDirection::Newer),
        't' => EditorCommand::TransposeCharacters,
        'u' => EditorCommand::Kill(CursorMotion::LineStart),
        'w' => EditorCommand::Kill(CursorMotion::BlankWordLeft),
        'x' => EditorCommand::Prefix,
        'y' => EditorCommand::Yank,
        'z' => EditorCommand::Effect(EditorEffect::Suspend),
        '[' => EditorCommand::Effect(EditorEffect::Escape),
        // Terminals send one byte for all of them, or the one that is printed on the keyboard.
        '_' | '/' | '-' => EditorCommand::Undo,
        _ => return None,
    };
    Some(command)
}

fn alt_command(character: char) -> Option<EditorCommand> {
    let command = match character {
        'b' => EditorCommand::Move(CursorMotion::WordLeft),
        'f' => EditorCommand::Move(CursorMotion::WordRight),
        '<' => EditorCommand::Move(CursorMotion::TextStart),
        '>' => EditorCommand::Move(CursorMotion::TextEnd),
        'd' => EditorCommand::Kill(CursorMotion::WordRight),
        't' => EditorCommand::TransposeWords,
        'u' => EditorCommand::ChangeCase(CaseChange::Upper),
        'l' => EditorCommand::ChangeCase(CaseChange::Lower),
        'c' => EditorCommand::ChangeCase(CaseChange::Capital),
        'y' => EditorCommand::YankOlder,
        '_' | '-' => EditorCommand::Redo,
        _ => return None,
    };
    Some(command)
}

fn named_command(code: KeyCode, modifiers: KeyModifiers) -> Option<EditorCommand> {
    let is_modified = modifiers.ctrl || modifiers.alt;
    let command = match code {
        KeyCode::Enter if is_modified || modifiers.shift => EditorCommand::LineFeed,
        KeyCode::Enter => EditorCommand::Enter,
        KeyCode::Tab if is_modified => return None,
        KeyCode::Tab => EditorCommand::Effect(EditorEffect::Complete),
        KeyCode::Backspace if is_modified => EditorCommand::Kill(CursorMotion::WordLeft),
        KeyCode::Backspace => EditorCommand::Erase(CursorMotion::Left),
        KeyCode::Delete if is_modified => EditorCommand::Kill(CursorMotion::WordRight),
        KeyCode::Delete => EditorCommand::Erase(CursorMotion::Right),
        KeyCode::Left if is_modified => EditorCommand::Move(CursorMotion::WordLeft),
        KeyCode::Left => EditorCommand::Move(CursorMotion::Left),
        KeyCode::Right if is_modified => EditorCommand::Move(CursorMotion::WordRight),
        KeyCode::Right => EditorCommand::Move(CursorMotion::Right),
        KeyCode::Up => EditorCommand::Up,
        KeyCode::Down => EditorCommand::Down,
        KeyCode::Home if is_modified => EditorCommand::Move(CursorMotion::TextStart),
        KeyCode::Home => EditorCommand::Move(CursorMotion::LineStart),
        KeyCode::End if is_modified => EditorCommand::Move(CursorMotion::TextEnd),
        KeyCode::End => EditorCommand::Move(CursorMotion::LineEnd),
        KeyCode::Escape => EditorCommand::Effect(EditorEffect::Escape),
        KeyCode::Char(_)
        | KeyCode::BackTab
        | KeyCode::Insert
        | KeyCode::PageUp
        | KeyCode::PageDown
        | KeyCode::Function(_) => return None,
    };
    Some(command)
}
