//! Entered lines that wait: for a task, for the start of a run, or for images that are being read.

use std::collections::VecDeque;

use crow_text::neutralise;

use crate::{
    editor::ChipId,
    line_layout::clipped_line,
    prompt_input::EnteredLine,
    screen_size::ScreenSize,
    styled_text::{StyledLine, TextRole},
};

/// Maximum number of rows for lines that wait, besides that for further ones, and the share of the screen for them.
const MOST_ROWS: usize = 3;
const SHARE: usize = 8;

/// The lines that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingLines(VecDeque<EnteredLine>);

impl WaitingLines {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, line: EnteredLine) {
        self.0.push_back(line);
    }

    /// Takes the oldest line.
    pub(super) fn pop(&mut self) -> Option<EnteredLine> {
        self.0.pop_front()
    }

    /// Takes all lines, as one.
    pub(super) fn take_joined(&mut self) -> EnteredLine {
        EnteredLine::join(self.0.drain(..))
    }

    /// Replaces the label of an image by a text.
    pub(super) fn replace_image(&mut self, image: ChipId, text: &str) {
        for line in &mut self.0 {
            line.replace_image(image, text);
        }
    }

    /// Returns a row for each of the oldest lines, and one for the others.
    pub(super) fn rows(&self, size: ScreenSize) -> impl Iterator<Item = StyledLine> {
        let most = (size.rows / SHARE).clamp(1, MOST_ROWS);
        let columns = size.columns.saturating_sub(1);
        let oldest = self.0.iter().take(most);
        let oldest = oldest.map(|line| format!("waiting: {}", line.shown.replace('\n', " ")));
        let others = self.0.len().saturating_sub(most);
        let others = (others > 0).then(|| format!("… {others} more"));
        oldest.chain(others).map(move |text| {
            let mut row = StyledLine::default();
            row.push(neutralise(&text), TextRole::Dim);
            clipped_line(&row, columns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_lines_are_shown_as_the_screen_has_room_for() {
        let mut lines = WaitingLines::default();
        for line in ["one\ntwo", "a\u{1b}[2Jb", "three", "four", "five"] {
            lines.push(line.to_owned().into());
        }
        let table: [(usize, usize, &[&str]); 4] = [
            (80, 40, &["waiting: one two", "waiting: a␛[2Jb", "waiting: three", "… 2 more"]),
            (80, 16, &["waiting: one two", "waiting: a␛[2Jb", "… 3 more"]),
            (80, 1, &["waiting: one two", "… 4 more"]),
            (11, 1, &["waiting: …", "… 4 more"]),
        ];
        for (columns, rows, expected) in table {
            let shown = lines.rows(ScreenSize { columns, rows });
            let shown: Vec<String> = shown.map(|row| row.text()).collect();
            assert_eq!(shown, expected, "{columns}x{rows}");
        }
        assert_eq!(lines.take_joined().text, "one\ntwo\na\u{1b}[2Jb\nthree\nfour\nfive");
        assert!(lines.is_empty() && lines.rows(ScreenSize { columns: 80, rows: 40 }).count() == 0);
    }
}
