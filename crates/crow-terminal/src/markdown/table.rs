//! A table that is still open.
//!
//! The widths of its columns depend on all rows, so that nothing is final before its end. A long table is the exception:
//! after a number of rows, its columns stay as they are, and each further row is final when it is complete.

use std::sync::Arc;

use super::{
    definitions::Definitions,
    delimiter_row::ColumnAlignment,
    inline::{InlinePiece, row_pieces},
    layout::Layout,
    paragraph::push_pieces,
    table_grid::{TableGrid, write_record},
    wrapper::LineWrapper,
};
use crate::styled_text::{Emphasis, StyledLine, TextLook};

/// Number of rows after which the columns stay as they are.
const MOST_ROWS: usize = 200;
/// The same in bytes of the source.
const MOST_BYTES: usize = 32 * 1024;
/// Number of columns that are read.
const MOST_COLUMNS: usize = 64;

/// The pieces of a cell, and its columns if nothing is wrapped.
#[derive(Debug, Clone)]
pub(super) struct TableCell {
    pub(super) pieces: Vec<InlinePiece>,
    pub(super) columns: usize,
}

pub(super) type TableRow = Arc<[TableCell]>;

/// How the rows of a table are drawn.
#[derive(Debug, Clone)]
enum TableStyle {
    Grid(TableGrid),
    /// Each row as lines of names and values.
    Records,
}

/// The rows of a table that are not written.
#[derive(Debug, Clone)]
pub(super) struct StreamedTable {
    alignments: Vec<ColumnAlignment>,
    header: TableRow,
    rows: Vec<TableRow>,
    bytes: usize,
    /// The widest cells of each column.
    widest: Vec<usize>,
    /// The style of a long table once it stays.
    style: Option<TableStyle>,
    /// True if a row has been written.
    has_written: bool,
}

impl StreamedTable {
    /// Begins a table. Columns beyond the 64th are left out.
    pub(super) fn new(
        header: &str,
        mut alignments: Vec<ColumnAlignment>,
        definitions: &Definitions,
        layout: &Layout,
    ) -> Self {
        alignments.truncate(MOST_COLUMNS);
        let look = TextLook { emphasis: Emphasis::BOLD, ..layout.text_look() };
        let header = read_row(header, alignments.len(), definitions, &look);
        let widest = header.iter().map(|cell| cell.columns).collect();
        Self {
            alignments,
            header,
            rows: Vec::new(),
            bytes: 0,
            widest,
            style: None,
            has_written: false,
        }
    }

    /// Adds a row, and returns whether `line` is one.
    pub(super) fn push_row(
        &mut self,
        line: &str,
        definitions: &Definitions,
        layout: &mut Layout,
    ) -> bool {
        let row = read_row(line, self.alignments.len(), definitions, &layout.text_look());
        if row.is_empty() {
            return false;
        }
        for (widest, cell) in self.widest.iter_mut().zip(row.iter()) {
            *widest = cell.columns.max(*widest);
        }
        self.rows.push(row);
        self.bytes += line.len();
        let is_long = self.rows.len() >= MOST_ROWS || self.bytes >= MOST_BYTES;
        if is_long || self.style.is_some() {
            self.write_rows(layout);
        }
        true
    }

    /// Writes the rest of the table.
    pub(super) fn finish(mut self, layout: &mut Layout) {
        self.write_rows(layout);
        if let Some(TableStyle::Grid(grid)) = &self.style {
            grid.write_bottom(layout);
        }
    }

    /// A table whose columns stay is drawn anew for another width.
    pub(super) fn set_room(&mut self, layout: &mut Layout) {
        if let Some(TableStyle::Grid(grid)) = &self.style
            && grid.columns() > layout.room()
        {
            self.style = None;
            self.has_written = false;
            self.start(layout);
        }
    }

    fn write_rows(&mut self, layout: &mut Layout) {
        if self.style.is_none() {
            self.start(layout);
        }
        let rows = std::mem::take(&mut self.rows);
        // Signpost: for a live region only the last rows matter; each takes a line at least.
        let skipped = rows.len().saturating_sub(layout.most_lines);
        self.has_written |= skipped > 0;
        for row in &rows[skipped..] {
            match &self.style {
                Some(TableStyle::Grid(grid)) => {
                    if self.has_written {
                        grid.write_separator(layout);
                    }
                    grid.write_row(row, layout);
                }
                Some(TableStyle::Records) | None => {
                    if self.has_written {
                        layout.write(StyledLine::default());
                    }
                    write_record(&self.header, row, layout);
                }
            }
            self.has_written = true;
        }
    }

    /// Fixes the columns and writes the header.
    fn start(&mut self, layout: &mut Layout) {
        let grid = TableGrid::fitting(&self.widest, &self.alignments, layout);
        self.style = Some(match grid {
            Some(grid) => {
                grid.write_header(&self.header, layout);
                TableStyle::Grid(grid)
            }
            None => TableStyle::Records,
        });
        if matches!(self.style, Some(TableStyle::Records)) && self.rows.is_empty() {
            write_record(&self.header, &[], layout);
        }
    }
}

fn read_row(line: &str, columns: usize, definitions: &Definitions, look: &TextLook) -> TableRow {
    let cell = |pieces: Vec<InlinePiece>| {
        let columns = pieces_columns(&pieces);
        TableCell { pieces, columns }
    };
    row_pieces(line.trim_start_matches([' ', '\t']), columns, definitions, look)
        .into_iter()
        .map(cell)
        .collect()
}

/// Returns the columns of the widest line if nothing is wrapped.
fn pieces_columns(pieces: &[InlinePiece]) -> usize {
    let mut wrapper = LineWrapper::new(usize::MAX / 2);
    push_pieces(&mut wrapper, pieces);
    wrapper.widest()
}
