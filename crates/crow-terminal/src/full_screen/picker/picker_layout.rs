//! How the screen is divided among the parts of a picker.

use crate::screen_size::ScreenSize;

/// Number of rows from which on a row is left free above the list.
const ROOMY: usize = 8;
/// The parts of a picker on a screen. The row of the filter is there from two rows on, that of the title from three,
/// and that of the hints from four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PickerLayout {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) has_gap: bool,
    pub(super) list_rows: usize,
}

impl PickerLayout {
    pub(super) fn new(size: ScreenSize) -> Self {
        let (columns, rows) = (size.columns.max(1), size.rows.max(1));
        let has_gap = rows >= ROOMY;
        let list_rows = rows - (rows - 1).min(3) - usize::from(has_gap);
        Self { columns, rows, has_gap, list_rows }
    }

    pub(super) fn has_filter(&self) -> bool {
        self.rows >= 2
    }

    pub(super) fn has_title(&self) -> bool {
        self.rows >= 3
    }

    pub(super) fn has_hints(&self) -> bool {
        self.rows >= 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_belongs_to_one_part() {
        for rows in 1..70 {
            let layout = PickerLayout::new(ScreenSize { columns: 40, rows });
            let parts =
                [layout.has_title(), layout.has_filter(), layout.has_gap, layout.has_hints()];
            let others: usize = parts.into_iter().map(usize::from).sum();
            assert_eq!(others + layout.list_rows, rows, "{layout:?}");
            assert!(layout.list_rows > 0, "{layout:?}");
        }
    }
}
