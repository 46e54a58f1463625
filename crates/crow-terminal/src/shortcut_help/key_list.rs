//! The list of all keys.

use super::shortcut::Shortcut;
use crate::{
    editor::EditingStyle,
    line_layout::clipped_line,
    styled_text::{StyledLine, TextRole},
};

/// Blanks between keys and what they do, and between the two columns.
const KEY_GAP: usize = 2;
const COLUMN_GAP: usize = 3;

/// A column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListColumn {
    /// Keys for the chat, at the prompt of emacs.
    EmacsChat,
    /// Keys for the chat, in the insert mode of vi unless they say otherwise.
    ViChat,
    /// Keys that edit as in emacs.
    EmacsEditing,
    /// Keys of the normal mode of vi.
    ViEditing,
}

const EMACS_CHAT: &[Shortcut] = &[
    Shortcut::new("enter", "send, steer at work"),
    Shortcut::new("ctrl-j, \\ enter", "new line"),
    Shortcut::new("/", "commands"),
    Shortcut::new("@", "files"),
    Shortcut::new("!", "shell command"),
    Shortcut::new("tab", "complete"),
    Shortcut::new("↑, ↓", "older, newer prompt"),
    Shortcut::new("ctrl-r", "search prompts"),
    Shortcut::new("shift-tab", "next permission mode"),
    Shortcut::new("esc", "stop the agent"),
    Shortcut::new("esc esc", "rewind"),
    Shortcut::new("ctrl-c", "clear, stop, leave"),
    Shortcut::new("ctrl-d", "leave, without text"),
    Shortcut::new("ctrl-o", "transcript"),
    Shortcut::new("ctrl-x ctrl-e", "external editor"),
    Shortcut::new("ctrl-l", "redraw"),
    Shortcut::new("ctrl-z", "suspend"),
];

const VI_CHAT: &[Shortcut] = &[
    Shortcut::new("enter", "send, steer at work"),
    Shortcut::new("ctrl-j, \\ enter", "new line"),
    Shortcut::new("/", "commands"),
    Shortcut::new("@", "files"),
    Shortcut::new("!", "shell command"),
    Shortcut::new("tab", "complete"),
    Shortcut::new("↑, ↓", "older, newer prompt"),
    Shortcut::new("ctrl-r", "search prompts"),
    Shortcut::new("shift-tab", "next permission mode"),
    Shortcut::new("esc", "normal mode"),
    Shortcut::new("esc, normal mode", "stop the agent"),
    Shortcut::new("ctrl-c", "clear, stop, leave"),
    Shortcut::new("ctrl-d", "leave, without text"),
    Shortcut::new("ctrl-o", "transcript"),
    Shortcut::new("ctrl-x ctrl-e", "external editor"),
    Shortcut::new("ctrl-l", "redraw"),
    Shortcut::new("ctrl-z", "suspend"),
];

const EMACS_EDITING: &[Shortcut] = &[
    Shortcut::new("ctrl-b, ctrl-f", "left, right"),
    Shortcut::new("ctrl-p, ctrl-n", "up, down"),
    Shortcut::new("alt-b, alt-f", "by a word"),
    Shortcut::new("ctrl-a, ctrl-e", "start, end of line"),
    Shortcut::new("alt-<, alt->", "start, end of text"),
    Shortcut::new("ctrl-h, ctrl-d", "delete a character"),
    Shortcut::new("ctrl-w, alt-d", "delete a word"),
    Shortcut::new("ctrl-u, ctrl-k", "delete rest of line"),
    Shortcut::new("ctrl-y", "paste deleted text"),
    Shortcut::new("alt-y", "older deleted text"),
    Shortcut::new("ctrl-_, alt-_", "undo, redo"),
    Shortcut::new("ctrl-t, alt-t", "swap letters, words"),
    Shortcut::new("alt-u, alt-l", "upper, lower case"),
    Shortcut::new("alt-c", "capital letter"),
];

const VI_EDITING: &[Shortcut] = &[
    Shortcut::new("i a I A", "insert in the line"),
    Shortcut::new("o O", "insert a line"),
    Shortcut::new("h j k l", "move"),
    Shortcut::new("w b e, W B E", "by a word"),
    Shortcut::new("0 ^ $", "within the line"),
    Shortcut::new("gg G", "first, last line"),
    Shortcut::new("f F t T ; ,", "to a character"),
    Shortcut::new("d c y + motion", "delete, change, copy"),
    Shortcut::new("dd cc yy", "the same for a line"),
    Shortcut::new("D C", "to the end of line"),
    Shortcut::new("diw, da\"", "in a word, in quotes"),
    Shortcut::new("x X s", "delete, substitute"),
    Shortcut::new("r", "replace a character"),
    Shortcut::new("p P", "paste copied text"),
    Shortcut::new("u, ctrl-r", "undo, redo"),
    Shortcut::new(".", "repeat a change"),
    Shortcut::new("3w, 2dd", "several times"),
];

impl ListColumn {
    pub(crate) fn shortcuts(self) -> &'static [Shortcut] {
        match self {
            Self::EmacsChat => EMACS_CHAT,
            Self::ViChat => VI_CHAT,
            Self::EmacsEditing => EMACS_EDITING,
            Self::ViEditing => VI_EDITING,
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::EmacsChat | Self::ViChat => "chat",
            Self::EmacsEditing => "editing",
            Self::ViEditing => "editing, normal mode",
        }
    }

    /// Returns the rows of the column.
    fn rows(self) -> Vec<StyledLine> {
        let shortcuts = self.shortcuts();
        let mut heading = StyledLine::default();
        heading.push(self.heading(), TextRole::Heading);
        let keys = shortcuts.iter().map(|shortcut| {
            let mut keys = StyledLine::default();
            keys.push(shortcut.keys, TextRole::Accent);
            keys
        });
        let keys: Vec<StyledLine> = keys.collect();
        let widest = keys.iter().map(StyledLine::width).max().unwrap_or(0);
        let rows = keys.into_iter().zip(shortcuts).map(|(mut row, shortcut)| {
            pad(&mut row, widest + KEY_GAP);
            row.push(shortcut.action, TextRole::Plain);
            row
        });
        std::iter::once(heading).chain(rows).collect()
    }
}

/// Returns the list of all keys: in two columns, which fit a screen of 80 by 24, or in one if there is less room.
pub(crate) fn key_help(style: EditingStyle, columns: usize) -> Vec<StyledLine> {
    let (left, right) = match style {
        EditingStyle::Emacs => (ListColumn::EmacsChat, ListColumn::EmacsEditing),
        EditingStyle::Vi => (ListColumn::ViChat, ListColumn::ViEditing),
    };
    let (mut rows, right) = (left.rows(), right.rows());
    let width = |rows: &[StyledLine]| rows.iter().map(StyledLine::width).max().unwrap_or(0);
    let start = width(&rows) + COLUMN_GAP;
    if start + width(&right) <= columns {
        rows.resize(rows.len().max(right.len()), StyledLine::default());
        for (row, right) in rows.iter_mut().zip(&right) {
            pad(row, start);
            row.append(right);
        }
        rows
    } else if columns == 0 {
        Vec::new()
    } else {
        rows.push(StyledLine::default());
        rows.extend(right);
        rows.iter().map(|row| clipped_line(row, columns)).collect()
    }
}

/// Appends blanks up to a width.
fn pad(row: &mut StyledLine, width: usize) {
    let missing = width.saturating_sub(row.width());
    row.push(" ".repeat(missing), TextRole::Plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_two_columns_on_a_screen_of_80_by_24() {
        for style in [EditingStyle::Emacs, EditingStyle::Vi] {
            let rows = key_help(style, 79);
            assert!(rows.len() <= 20, "{style:?}: {} rows", rows.len());
            assert!(rows[0].text().starts_with("chat ") && rows[0].text().contains("editing"));
        }
        let rows: Vec<String> =
            key_help(EditingStyle::Emacs, 79).iter().map(StyledLine::text).collect();
        assert_eq!(rows[2], "ctrl-j, \\ enter  new line               ctrl-p, ctrl-n  up, down");
    }

    #[test]
    fn the_list_has_one_column_where_two_do_not_fit() {
        let rows = key_help(EditingStyle::Emacs, 50);
        let texts: Vec<String> = rows.iter().map(StyledLine::text).collect();
        assert!(texts.contains(&"editing".to_owned()));
        let listed = EMACS_CHAT.len() + EMACS_EDITING.len();
        assert_eq!(texts.len(), listed + 3);
    }

    #[test]
    fn no_row_is_wider_than_the_columns() {
        for style in [EditingStyle::Emacs, EditingStyle::Vi] {
            for columns in 0..100 {
                for row in key_help(style, columns) {
                    assert!(row.width() <= columns, "{columns}: {:?}", row.text());
                }
            }
        }
    }
}
