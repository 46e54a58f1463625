//! Text that is made to fit rows of a screen.

use crow_console::{ConsoleStyle, wrap};

/// Returns a text in rows of at most this number of columns.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let style = ConsoleStyle::plain(columns + 1);
    let lines = wrap::wrap(&style, crow_console::Paint::Plain, "", text);
    let rows: Vec<String> = lines.lines().map(str::to_owned).collect();
    if rows.is_empty() { vec![String::new()] } else { rows }
}
