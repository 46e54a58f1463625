//! Keys and what they do, and the row that says so.

use crate::styled_text::{StyledLine, TextRole};

/// Text between two hints.
const BETWEEN: &str = " · ";

/// Keys and what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortcut {
    pub(crate) keys: &'static str,
    pub(crate) action: &'static str,
}

impl Shortcut {
    pub(crate) const fn new(keys: &'static str, action: &'static str) -> Self {
        Self { keys, action }
    }
}

/// Returns a dim row with as many shortcuts as fit, from the first one on. Their keys have this role.
pub(crate) fn shortcut_row(shortcuts: &[Shortcut], keys: TextRole, columns: usize) -> StyledLine {
    let mut row = StyledLine::default();
    for shortcut in shortcuts {
        let mut longer = row.clone();
        if longer.width() > 0 {
            longer.push(BETWEEN, TextRole::Dim);
        }
        longer.push(shortcut.keys, keys);
        longer.push(" ", keys);
        longer.push(shortcut.action, TextRole::Dim);
        if longer.width() > columns {
            break;
        }
        row = longer;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortcuts_that_do_not_fit_are_left_out_from_the_last_one_on() {
        let shortcuts = [
            Shortcut::new("enter", "choose"),
            Shortcut::new("esc", "close"),
            Shortcut::new("x", "y"),
        ];
        let table = [
            (80, "enter choose · esc close · x y"),
            (29, "enter choose · esc close"),
            (24, "enter choose · esc close"),
            (23, "enter choose"),
            (11, ""),
            (0, ""),
        ];
        for (columns, expected) in table {
            assert_eq!(
                shortcut_row(&shortcuts, TextRole::Plain, columns).text(),
                expected,
                "{columns}"
            );
        }
    }
}
