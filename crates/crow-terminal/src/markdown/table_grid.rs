//! Draws tables: as a grid where the columns fit, otherwise each row as a record.

use super::{
    delimiter_row::ColumnAlignment,
    glyphs::BorderGlyphs,
    layout::Layout,
    paragraph::{push_pieces, text_wrapper, wrap_pieces},
    table::TableCell,
    wrapper::LineWrapper,
};
use crate::styled_text::{StyledLine, TextLook, TextRole};

/// Width below which a column is not made narrower; the table becomes records instead.
const NARROWEST: usize = 6;

/// Columns of fixed widths.
#[derive(Debug, Clone)]
pub(super) struct TableGrid {
    columns: Vec<(usize, ColumnAlignment)>,
    /// True if cells may be wrapped. Lines between the rows then show which lines are one row.
    is_wrapped: bool,
}

impl TableGrid {
    /// Returns a grid that fits into the layout, if its columns do not become too narrow.
    pub(super) fn fitting(
        widest: &[usize],
        alignments: &[ColumnAlignment],
        layout: &Layout,
    ) -> Option<Self> {
        // Each column has a space on both sides, and a border before or after it.
        let available = layout.room().checked_sub(3 * widest.len() + 1)?;
        let natural: Vec<usize> = widest.iter().map(|columns| (*columns).max(1)).collect();
        let widths = fitted(&natural, available)?;
        let is_wrapped = widths != natural;
        Some(Self {
            columns: widths.into_iter().zip(alignments.iter().copied()).collect(),
            is_wrapped,
        })
    }

    /// Returns the columns of the whole grid.
    pub(super) fn columns(&self) -> usize {
        self.columns.iter().map(|(width, _)| width + 3).sum::<usize>() + 1
    }

    pub(super) fn write_header(&self, header: &[TableCell], layout: &mut Layout) {
        self.write_border(layout.glyphs.top_border(), layout);
        self.write_row(header, layout);
        self.write_border(layout.glyphs.inner_border(), layout);
    }

    pub(super) fn write_bottom(&self, layout: &mut Layout) {
        self.write_border(layout.glyphs.bottom_border(), layout);
    }

    /// Writes what stands between two rows.
    pub(super) fn write_separator(&self, layout: &mut Layout) {
        if self.is_wrapped {
            self.write_border(layout.glyphs.inner_border(), layout);
        }
    }

    pub(super) fn write_row(&self, row: &[TableCell], layout: &mut Layout) {
        let lines: Vec<Vec<StyledLine>> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, (width, _))| {
                row.get(index).map_or_else(Vec::new, |cell| {
                    wrap_pieces(LineWrapper::new(*width), &cell.pieces)
                })
            })
            .collect();
        let height = lines.iter().map(Vec::len).max().unwrap_or_default().max(1);
        for index in 0..height {
            let border = layout.glyphs.column_border();
            let mut line = StyledLine::default();
            for ((width, alignment), cell) in self.columns.iter().zip(&lines) {
                line.push(border, TextRole::Marker);
                push_cell(&mut line, cell.get(index), *width, *alignment);
            }
            line.push(border, TextRole::Marker);
            layout.write(line);
        }
    }

    fn write_border(&self, [line, left, crossing, right]: BorderGlyphs, layout: &mut Layout) {
        let columns: Vec<String> =
            self.columns.iter().map(|(width, _)| line.repeat(width + 2)).collect();
        let mut border = StyledLine::default();
        border.push(format!("{left}{}{right}", columns.join(crossing)), TextRole::Marker);
        layout.write(border);
    }
}

/// Returns widths of which the sum is at most `available`. The widest columns become narrower, all to the same width.
fn fitted(natural: &[usize], available: usize) -> Option<Vec<usize>> {
    let mut sorted = natural.to_vec();
    sorted.sort_unstable();
    let (mut left, mut limit) = (available, usize::MAX);
    for (index, width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if *width > share {
            limit = share;
            break;
        }
        left -= width;
    }
    let is_legible = limit >= NARROWEST;
    is_legible.then(|| natural.iter().map(|width| (*width).min(limit)).collect())
}

fn push_cell(
    line: &mut StyledLine,
    content: Option<&StyledLine>,
    width: usize,
    alignment: ColumnAlignment,
) {
    let padding = width.saturating_sub(content.map_or(0, StyledLine::width));
    let before = match alignment {
        ColumnAlignment::Left => 0,
        ColumnAlignment::Centre => padding / 2,
        ColumnAlignment::Right => padding,
    };
    line.push(" ".repeat(1 + before), TextRole::Plain);
    if let Some(content) = content {
        line.append(content);
    }
    line.push(" ".repeat(padding - before + 1), TextRole::Plain);
}

/// Writes a row as lines of names and values. Without values, only the names are written.
pub(super) fn write_record(header: &[TableCell], row: &[TableCell], layout: &mut Layout) {
    for (index, name) in header.iter().enumerate() {
        let value = row.get(index).map_or(&[][..], |cell| &cell.pieces);
        if value.is_empty() && !row.is_empty() {
            continue;
        }
        let mut wrapper = text_wrapper(layout);
        push_pieces(&mut wrapper, &name.pieces);
        if !row.is_empty() {
            wrapper.push(": ", &TextLook::default());
        }
        push_pieces(&mut wrapper, value);
        wrapper.finish();
        layout.write_all(wrapper.take_lines());
    }
}
