//! The list of all keys.

use crate::{
    editor::EditingStyle,
    row_text::shortened,
    styled_text::{StyledLine, TextRole},
};

/// Blanks between keys and what they do, and between the two columns.
const KEY_GAP: usize = 2;
const COLUMN_GAP: usize = 3;

/// Keys and what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortcut {
    pub(crate) keys: &'static str,
    pub(crate) action: &'static str,
}

const fn shortcut(keys: &'static str, action: &'static str) -> Shortcut {
    Shortcut { keys, action }
}

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
    shortcut("enter", "send, steer at work"),
    shortcut("ctrl-j, \\ enter", "new line"),
    shortcut("/", "commands"),
    shortcut("@", "files"),
    shortcut("!", "shell command"),
    shortcut("tab", "complete"),
    shortcut("↑, ↓", "older, newer prompt"),
    shortcut("ctrl-r", "search prompts"),
    shortcut("shift-tab", "next permission mode"),
    shortcut("esc", "stop the agent"),
    shortcut("esc esc", "rewind"),
    shortcut("ctrl-c", "clear, stop, leave"),
    shortcut("ctrl-d", "leave, without text"),
    shortcut("ctrl-o", "transcript"),
    shortcut("ctrl-x ctrl-e", "external editor"),
    shortcut("ctrl-l", "redraw"),
    shortcut("ctrl-z", "suspend"),
];

const VI_CHAT: &[Shortcut] = &[
    shortcut("enter", "send, steer at work"),
    shortcut("ctrl-j, \\ enter", "new line"),
    shortcut("/", "commands"),
    shortcut("@", "files"),
    shortcut("!", "shell command"),
    shortcut("tab", "complete"),
    shortcut("↑, ↓", "older, newer prompt"),
    shortcut("ctrl-r", "search prompts"),
    shortcut("shift-tab", "next permission mode"),
    shortcut("esc", "normal mode"),
    shortcut("esc, normal mode", "stop the agent"),
    shortcut("ctrl-c", "clear, stop, leave"),
    shortcut("ctrl-d", "leave, without text"),
    shortcut("ctrl-o", "transcript"),
    shortcut("ctrl-x ctrl-e", "external editor"),
    shortcut("ctrl-l", "redraw"),
    shortcut("ctrl-z", "suspend"),
];

const EMACS_EDITING: &[Shortcut] = &[
    shortcut("ctrl-b, ctrl-f", "left, right"),
    shortcut("ctrl-p, ctrl-n", "up, down"),
    shortcut("alt-b, alt-f", "by a word"),
    shortcut("ctrl-a, ctrl-e", "start, end of line"),
    shortcut("alt-<, alt->", "start, end of text"),
    shortcut("ctrl-h, ctrl-d", "delete a character"),
    shortcut("ctrl-w, alt-d", "delete a word"),
    shortcut("ctrl-u, ctrl-k", "delete rest of line"),
    shortcut("ctrl-y", "paste deleted text"),
    shortcut("alt-y", "older deleted text"),
    shortcut("ctrl-_, alt-_", "undo, redo"),
    shortcut("ctrl-t, alt-t", "swap letters, words"),
    shortcut("alt-u, alt-l", "upper, lower case"),
    shortcut("alt-c", "capital letter"),
];

const VI_EDITING: &[Shortcut] = &[
    shortcut("i a I A", "insert in the line"),
    shortcut("o O", "insert a line"),
    shortcut("h j k l", "move"),
    shortcut("w b e, W B E", "by a word"),
    shortcut("0 ^ $", "within the line"),
    shortcut("gg G", "first, last line"),
    shortcut("f F t T ; ,", "to a character"),
    shortcut("d c y + motion", "delete, change, copy"),
    shortcut("dd cc yy", "the same for a line"),
    shortcut("D C", "to the end of line"),
    shortcut("diw, da\"", "in a word, in quotes"),
    shortcut("x X s", "delete, substitute"),
    shortcut("r", "replace a character"),
    shortcut("p P", "paste copied text"),
    shortcut("u, ctrl-r", "undo, redo"),
    shortcut(".", "repeat a change"),
    shortcut("3w, 2dd", "several times"),
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
        rows.iter().map(|row| shortened(row, columns)).collect()
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
