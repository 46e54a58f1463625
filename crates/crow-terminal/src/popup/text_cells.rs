//! A text as cells: harmless forms of its characters with their widths, which can be cut to a number of columns.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    safe_text::safe,
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
    visible_characters::cluster_form,
};

/// A character as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextCell {
    text: String,
    /// Number of columns.
    width: usize,
    is_matched: bool,
}

impl TextCell {
    fn ellipsis() -> Self {
        Self { text: "…".to_owned(), width: 1, is_matched: false }
    }
}

/// Returns the cells of a text. `positions` are the numbers of the characters that match, in ascending order.
pub(super) fn cells(text: &str, positions: &[u32]) -> Vec<TextCell> {
    let mut cells = Vec::new();
    let (mut number, mut next) = (0, positions.iter().copied().peekable());
    for cluster in text.graphemes(true) {
        number += u32::try_from(cluster.chars().count()).unwrap_or(u32::MAX);
        let mut is_matched = false;
        while next.next_if(|position| *position < number).is_some() {
            is_matched = true;
        }
        let text = safe(&cluster_form(cluster).text).into_owned();
        cells.push(TextCell { width: text.width(), text, is_matched });
    }
    cells
}

/// Returns the number of columns of cells.
pub(super) fn width(cells: &[TextCell]) -> usize {
    cells.iter().map(|cell| cell.width).sum()
}

/// Returns the first cells that fit the columns, with `…` at the end if others are left out.
pub(super) fn shortened_end(cells: &[TextCell], columns: usize) -> Vec<TextCell> {
    if width(cells) <= columns {
        return cells.to_vec();
    }
    let Some(room) = columns.checked_sub(1) else { return Vec::new() };
    let mut kept = fitting(cells.iter(), room);
    kept.push(TextCell::ellipsis());
    kept
}

/// Returns the first and the last cells that fit the columns, with `…` between them if others are left out. Those from
/// `end` on are kept if they fit, and otherwise it is their middle that is left out.
pub(super) fn shortened_middle(cells: &[TextCell], end: usize, columns: usize) -> Vec<TextCell> {
    if width(cells) <= columns {
        return cells.to_vec();
    }
    let Some(room) = columns.checked_sub(1) else { return Vec::new() };
    let (beginning, end) = cells.split_at(end);
    let (first, end_room) = match width(end) {
        width if width <= room => (beginning, width),
        _ => (end, room / 2),
    };
    let mut kept = fitting(first.iter(), room - end_room);
    kept.push(TextCell::ellipsis());
    let last = fitting(end.iter().rev(), end_room);
    kept.extend(last.into_iter().rev());
    kept
}

fn fitting<'a>(cells: impl Iterator<Item = &'a TextCell>, columns: usize) -> Vec<TextCell> {
    let mut used = 0;
    let fits = |cell: &&TextCell| {
        used += cell.width;
        used <= columns
    };
    cells.take_while(fits).cloned().collect()
}

/// Appends cells to a line. Those that match are underlined, which is seen on dim text, too.
pub(super) fn push_cells(line: &mut StyledLine, cells: &[TextCell], role: TextRole) {
    for cell in cells {
        let emphasis = if cell.is_matched { Emphasis::UNDERLINE } else { Emphasis::NONE };
        line.push(&cell.text, TextLook { role, emphasis, link: None });
    }
}
