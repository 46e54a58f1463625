//! The row that says which keys there are.

use crate::styled_text::{StyledLine, TextRole};

/// Text between two hints.
const BETWEEN: &str = " · ";

/// Keys and what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHint {
    keys: &'static str,
    action: &'static str,
}

impl KeyHint {
    pub(super) fn new(keys: &'static str, action: &'static str) -> Self {
        Self { keys, action }
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
        longer.push(hint.keys, TextRole::Plain);
        longer.push(" ", TextRole::Plain);
        longer.push(hint.action, TextRole::Dim);
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
