//! Rows of the text on the screen.
//!
//! A segment of the text is broken into rows behind blanks, and around wide characters and chips, or anywhere if there
//! is no such place. Rows leave one column free, for the cursor behind the last character and for a blank that a row
//! ends with. Nothing is stored: the rows of the few segments that are seen are computed anew each time.

use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use super::prompt_text::{PromptText, Unit, UnitContent};
use crate::visible_characters::cluster_width;

/// A row and its place among the rows of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) range: Range<usize>,
    pub(super) segment: usize,
    pub(super) end: RowEnd,
}

/// Kind of the end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowEnd {
    /// The line goes on in the next row, where the end of this one is.
    Wrapped,
    Line,
}

impl Row {
    /// Returns true if the cursor at `position` is in this row.
    fn contains(&self, position: usize) -> bool {
        match self.end {
            RowEnd::Wrapped => self.range.contains(&position),
            RowEnd::Line => (self.range.start..=self.range.end).contains(&position),
        }
    }
}

/// Returns the number of columns of a unit in rows of `width` columns.
fn unit_width(unit: &Unit<'_>, width: usize) -> usize {
    match unit.content {
        UnitContent::LineFeed => 0,
        UnitContent::Cluster(cluster) => cluster_width(cluster).min(width),
        UnitContent::Chip(label) => label.width().min(width),
    }
}

/// Returns the rows of a segment. A blank may be in the column behind the last one.
pub(super) fn rows(text: &PromptText, segment: usize, width: usize) -> Vec<Row> {
    let range = text.segment(segment);
    let mut ends = Vec::new();
    let (mut start, mut column) = (range.start, 0);
    // The last place where the row may be broken, and its column.
    let mut place: Option<(usize, usize)> = None;
    for unit in text.units(range.clone()) {
        let unit_width = unit_width(&unit, width);
        let is_blank = matches!(unit.content, UnitContent::Cluster(" "));
        let stands_alone = match unit.content {
            UnitContent::Chip(_) => true,
            UnitContent::Cluster(_) | UnitContent::LineFeed => unit_width >= 2,
        };
        if stands_alone && unit.start > start {
            place = Some((unit.start, column));
        }
        let most = if is_blank { width + 1 } else { width };
        while column + unit_width > most && unit.start > start {
            let (end, end_column) = match place.take() {
                Some(place) if !is_blank => place,
                Some(_) | None => (unit.start, column),
            };
            ends.push(end);
            start = end;
            column -= end_column;
        }
        column += unit_width;
        if is_blank || stands_alone {
            place = Some((unit.end, column));
        }
    }
    // The cursor behind a blank in the last column needs a row of its own.
    if column > width && text.ends_line(segment) {
        ends.push(range.end);
    }
    with_starts(text, segment, ends)
}

/// Returns the number of rows of a segment.
pub(super) fn count_rows(text: &PromptText, segment: usize, width: usize) -> usize {
    let bytes = &text.as_str().as_bytes()[text.segment(segment)];
    let is_short = bytes.len() <= width && bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if is_short { 1 } else { rows(text, segment, width).len() }
}

fn with_starts(text: &PromptText, segment: usize, ends: Vec<usize>) -> Vec<Row> {
    let range = text.segment(segment);
    let mut rows = Vec::with_capacity(ends.len() + 1);
    let mut start = range.start;
    for end in ends {
        rows.push(Row { range: start..end, segment, end: RowEnd::Wrapped });
        start = end;
    }
    let end = if text.ends_line(segment) { RowEnd::Line } else { RowEnd::Wrapped };
    rows.push(Row { range: start..range.end, segment, end });
    rows
}

/// The rows of the text from one of them on, in both directions.
#[derive(Debug, Clone)]
pub(super) struct RowWalk<'a> {
    text: &'a PromptText,
    width: usize,
    /// The rows of one segment.
    rows: Vec<Row>,
    index: usize,
}

impl<'a> RowWalk<'a> {
    /// Begins at the row of a position.
    pub(super) fn new(text: &'a PromptText, position: usize, width: usize) -> Self {
        let rows = rows(text, text.segment_at(position), width);
        let index = rows.iter().rposition(|row| row.range.start <= position).unwrap_or(0);
        debug_assert!(rows[index].contains(position), "invariant: rows cover their segment");
        Self { text, width, rows, index }
    }

    /// Returns the number of rows above the current one in its segment.
    pub(super) fn rows_before(&self) -> usize {
        self.index
    }

    /// Returns the number of rows below the current one in its segment.
    pub(super) fn rows_behind(&self) -> usize {
        self.rows.len() - self.index - 1
    }

    pub(super) fn row(&self) -> &Row {
        &self.rows[self.index]
    }

    /// Goes one row up. Returns `None` at the first one.
    pub(super) fn up(&mut self) -> Option<&Row> {
        if self.index > 0 {
            self.index -= 1;
        } else {
            let segment = self.row().segment.checked_sub(1)?;
            self.rows = rows(self.text, segment, self.width);
            self.index = self.rows.len() - 1;
        }
        Some(self.row())
    }

    /// Goes one row down. Returns `None` at the last one.
    pub(super) fn down(&mut self) -> Option<&Row> {
        if self.index + 1 < self.rows.len() {
            self.index += 1;
        } else {
            let segment = self.row().segment + 1;
            if segment == self.text.segments() {
                return None;
            }
            self.rows = rows(self.text, segment, self.width);
            self.index = 0;
        }
        Some(self.row())
    }
}

/// Returns the column of a position in its row.
pub(super) fn column(text: &PromptText, row: &Row, position: usize, width: usize) -> usize {
    text.units(row.range.start..position).map(|unit| unit_width(&unit, width)).sum()
}

/// Returns the position in a row that is at a column, or the last one before it.
pub(super) fn position_at(text: &PromptText, row: &Row, goal: usize, width: usize) -> usize {
    let (mut column, mut last) = (0, row.range.start);
    for unit in text.units(row.range.clone()) {
        last = unit.start;
        column += unit_width(&unit, width);
        if column > goal {
            return unit.start;
        }
    }
    match row.end {
        RowEnd::Line => row.range.end,
        RowEnd::Wrapped => last,
    }
}
