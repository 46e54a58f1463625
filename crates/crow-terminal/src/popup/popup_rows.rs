//! The rows of the list: the part of it around the selected entry, and how many others there are.

use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use super::{
    command_matches::{CommandMatch, ListedCommand, MatchedPart},
    text_cells::{TextCell, cells, push_cells, shortened_end, shortened_middle, width},
};
use crate::{
    file_index::FileMatch,
    line_layout::clipped_text,
    styled_text::{StyledLine, TextRole},
};

/// Maximum number of entries that are shown.
const MOST_ENTRIES: usize = 6;
/// Mark of the selected entry, and the same room before others.
const SELECTED: &str = "› ";
const OTHER: &str = "  ";
/// Number of columns from which entries have marks.
const LEAST_MARKED: usize = 6;
/// Columns between a command and its description, and the fewest of a description.
const GAP: usize = 2;
const LEAST_DESCRIPTION: usize = 10;

/// Returns the entries to show in this number of rows, of which the first one was `top` before, so that the selected one is
/// among them. If not all are shown and there are two rows at least, one row is left for their number.
pub(super) fn shown(
    count: usize,
    selected: Option<usize>,
    top: usize,
    rows: usize,
) -> Range<usize> {
    let most = if count <= rows.min(MOST_ENTRIES) {
        count
    } else {
        rows.saturating_sub(1).clamp(1, MOST_ENTRIES)
    };
    let last_top = count.saturating_sub(most);
    let top = match selected {
        Some(selected) => top.clamp((selected + 1).saturating_sub(most), selected),
        None => top,
    };
    let top = top.min(last_top);
    top..top + most
}

/// Returns the row that says how many entries are not shown.
pub(super) fn more_row(hidden: usize, columns: usize) -> StyledLine {
    note_row(&format!("… {hidden} more"), columns)
}

/// Returns a row that is not an entry.
pub(super) fn note_row(text: &str, columns: usize) -> StyledLine {
    let mut row = StyledLine::default();
    let indent = if columns < LEAST_MARKED { "" } else { OTHER };
    row.push(indent, TextRole::Dim);
    row.push(clipped_text(text, columns - indent.width()), TextRole::Dim);
    row
}

/// Whether the row is that of the selected entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Selected,
    Other,
}

impl RowKind {
    fn role(self) -> TextRole {
        match self {
            Self::Selected => TextRole::Accent,
            Self::Other => TextRole::Dim,
        }
    }

    /// Begins a row, and returns how many columns are left.
    fn begin(self, row: &mut StyledLine, columns: usize) -> usize {
        let mark = match self {
            Self::Selected => SELECTED,
            Self::Other => OTHER,
        };
        if columns < LEAST_MARKED {
            return columns;
        }
        row.push(mark, self.role());
        columns - mark.width()
    }
}

/// Returns the row of a file. The name of the file stays visible if it fits.
pub(super) fn file_row(file: &FileMatch, kind: RowKind, columns: usize) -> StyledLine {
    let mut row = StyledLine::default();
    let room = kind.begin(&mut row, columns);
    let path = file.path.strip_suffix('/').unwrap_or(&file.path);
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let directories = cells(&file.path[..name], &file.positions);
    let shown = cells(&file.path, &file.positions);
    push_cells(&mut row, &shortened_middle(&shown, directories.len(), room), kind.role());
    row
}

/// A command as it is listed.
#[derive(Debug)]
pub(super) struct CommandRow {
    /// The name with its slash, and the argument.
    head: Vec<TextCell>,
    description: Vec<TextCell>,
}

impl CommandRow {
    pub(super) fn new(command: &ListedCommand, found: &CommandMatch) -> Self {
        let (in_name, in_description) = match found.part {
            MatchedPart::Name => (found.positions.as_slice(), [].as_slice()),
            MatchedPart::Description => ([].as_slice(), found.positions.as_slice()),
        };
        let mut head = cells("/", &[]);
        head.extend(cells(&command.name, in_name));
        if !command.argument.is_empty() {
            head.extend(cells(&format!(" {}", command.argument), &[]));
        }
        Self { head, description: cells(&command.description, in_description) }
    }

    /// Returns the number of columns of the command with its argument.
    pub(super) fn head_width(&self) -> usize {
        width(&self.head)
    }

    /// Returns the row. Descriptions begin behind `head_width` columns, or behind two fifths if that is less.
    pub(super) fn row(&self, head_width: usize, kind: RowKind, columns: usize) -> StyledLine {
        let mut row = StyledLine::default();
        let room = kind.begin(&mut row, columns);
        let head_width = head_width.min(room * 2 / 5);
        let left = room.saturating_sub(head_width + GAP);
        if left < LEAST_DESCRIPTION || self.description.is_empty() {
            push_cells(&mut row, &shortened_end(&self.head, room), kind.role());
            return row;
        }
        let head = shortened_end(&self.head, head_width);
        push_cells(&mut row, &head, kind.role());
        row.push(" ".repeat(head_width + GAP - width(&head)), kind.role());
        push_cells(&mut row, &shortened_end(&self.description, left), kind.role());
        row
    }
}
