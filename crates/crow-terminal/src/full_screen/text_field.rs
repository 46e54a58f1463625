//! A field of one line, whose cursor is always at its end.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::line_layout::{fitting_end, visible_text};
use crate::{
    keys::{Key, KeyCode, KeyModifiers},
    styled_text::{StyledLine, TextRole},
};

/// Maximum number of characters.
const MOST_CHARACTERS: usize = 200;

/// A text that is typed at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TextField {
    text: String,
}

impl TextField {
    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if there is no text.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes a key, and returns true if it is one that edits.
    pub(super) fn on_key(&mut self, key: Key) -> bool {
        match (key.code, key.modifiers) {
            (KeyCode::Char(character), KeyModifiers::NONE) => {
                self.paste(character.encode_utf8(&mut [0; 4]));
            }
            (KeyCode::Backspace, KeyModifiers::NONE) => self.delete_cluster(),
            (KeyCode::Backspace, KeyModifiers::ALT | KeyModifiers::CTRL)
            | (KeyCode::Char('w'), KeyModifiers::CTRL) => self.delete_word(),
            (KeyCode::Char('u'), KeyModifiers::CTRL) => self.clear(),
            _ => return false,
        }
        true
    }

    /// Appends text, with spaces for white space of any kind. What exceeds the maximum is dropped.
    pub(super) fn paste(&mut self, text: &str) {
        let room = MOST_CHARACTERS.saturating_sub(self.text.chars().count());
        let visible = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
        self.text.extend(visible.filter(|c| !c.is_control()).take(room));
    }

    /// Deletes the text.
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends the text to a row of at most this number of columns, the end of it if it is long. Returns the column of
    /// the cursor.
    pub(super) fn write(&self, row: &mut StyledLine, columns: usize) -> usize {
        let visible = visible_text(&self.text);
        // The cursor needs a column, too.
        let room = columns.saturating_sub(row.width() + 1);
        row.push(fitting_end(&visible, room), TextRole::Plain);
        row.width()
    }

    fn delete_cluster(&mut self) {
        let last = self.text.grapheme_indices(true).next_back();
        let start = last.map_or(0, |(start, _)| start);
        self.text.truncate(start);
    }

    fn delete_word(&mut self) {
        let kept = self.text.trim_end_matches(' ');
        let start = kept.rfind(' ').map_or(0, |space| space + 1);
        self.text.truncate(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> TextField {
        let mut field = TextField::default();
        field.paste(text);
        field
    }

    #[test]
    fn keys_edit_the_end_of_the_text() {
        let backspace = KeyCode::Backspace;
        let table = [
            ("ab", Key::char('c'), "abc"),
            ("abe\u{301}", Key::plain(backspace), "ab"),
            ("", Key::plain(backspace), ""),
            ("one two ", Key::ctrl('w'), "one "),
            ("one", Key::plain(backspace).with_alt(), ""),
            ("one two", Key::ctrl('u'), ""),
            ("a", Key::char('\u{7}'), "a"),
        ];
        for (before, key, after) in table {
            let mut field = field(before);
            assert!(field.on_key(key));
            assert_eq!(field.text(), after, "{before:?} {key:?}");
        }
        assert!(!TextField::default().on_key(Key::plain(KeyCode::Up)));
        assert!(!TextField::default().on_key(Key::alt('x')));
    }

    #[test]
    fn a_paste_is_one_line_of_bounded_length() {
        assert_eq!(field("a\r\nb\u{1b}[31m\tc").text(), "a  b[31m c");
        assert_eq!(field(&"x".repeat(1000)).text().len(), 200);
    }

    #[test]
    fn the_end_of_a_long_text_is_shown_with_the_cursor_behind_it() {
        let mut row = StyledLine::default();
        row.push("> ", TextRole::Accent);
        assert_eq!(field("abcdef").write(&mut row, 6), 5);
        assert_eq!(row.text(), "> def");
    }
}
