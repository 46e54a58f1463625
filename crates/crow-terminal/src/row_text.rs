//! Text that is made to fit rows of a screen.

use crow_console::{ConsoleStyle, wrap};

use crate::styled_text::{StyledLine, TextRole};

/// Returns a text in rows of at most this number of columns.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let style = ConsoleStyle::plain(columns + 1);
    let lines = wrap::wrap(&style, crow_console::Paint::Plain, "", text);
    let rows: Vec<String> = lines.lines().map(str::to_owned).collect();
    if rows.is_empty() { vec![String::new()] } else { rows }
}

/// Returns a line in at most this number of columns.
pub(crate) fn shortened(line: &StyledLine, columns: usize) -> StyledLine {
    if line.width() <= columns {
        return line.clone();
    }
    let mut shorter = StyledLine::default();
    let mut room = columns.saturating_sub(1);
    for span in line.spans() {
        let part: String = span
            .text
            .chars()
            .take_while(|char| {
                let width = wrap::char_width(*char);
                let fits = width <= room;
                room = if fits { room - width } else { 0 };
                fits
            })
            .collect();
        shorter.push(part, span.look.clone());
    }
    shorter.push("…", TextRole::Dim);
    shorter
}
