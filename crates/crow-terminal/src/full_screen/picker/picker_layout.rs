//! How the screen is divided among the parts of a picker.

use crate::screen_size::ScreenSize;

/// Number of columns from which on the preview is beside the list.
const WIDE: usize = 100;
/// Number of rows from which on the preview is below the list on a narrower screen.
const TALL: usize = 20;
/// Number of rows from which on a row is left free above the list.
const ROOMY: usize = 8;
/// Columns between list and preview.
pub(super) const BETWEEN: usize = 3;

/// Place of the preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreviewPlace {
    /// It is not shown.
    Hidden,
    /// Beside the list, with its number of columns.
    Beside(usize),
    /// Below the list and a rule, with its number of rows.
    Below(usize),
}

/// The parts of a picker on a screen. The row of the filter is there from two rows on, that of the title from three,
/// and that of the hints from four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PickerLayout {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) has_gap: bool,
    pub(super) list_columns: usize,
    pub(super) list_rows: usize,
    pub(super) preview: PreviewPlace,
}

impl PickerLayout {
    pub(super) fn new(size: ScreenSize, has_preview: bool) -> Self {
        let (columns, rows) = (size.columns.max(1), size.rows.max(1));
        let has_gap = rows >= ROOMY;
        let left = rows - (rows - 1).min(3) - usize::from(has_gap);
        let preview = match has_preview {
            true if columns >= WIDE => PreviewPlace::Beside(columns - columns / 2 - BETWEEN),
            true if rows >= TALL => PreviewPlace::Below(left * 2 / 5),
            true | false => PreviewPlace::Hidden,
        };
        let (list_columns, list_rows) = match preview {
            PreviewPlace::Hidden => (columns, left),
            PreviewPlace::Beside(_) => (columns / 2, left),
            PreviewPlace::Below(preview) => (columns, left - preview - 1),
        };
        Self { columns, rows, has_gap, list_columns, list_rows, preview }
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
        for columns in [1, 40, 99, 100, 200] {
            for rows in 1..70 {
                for has_preview in [false, true] {
                    let layout = PickerLayout::new(ScreenSize { columns, rows }, has_preview);
                    let below = match layout.preview {
                        PreviewPlace::Below(rows) => rows + 1,
                        PreviewPlace::Hidden | PreviewPlace::Beside(_) => 0,
                    };
                    let parts = [
                        layout.has_title(),
                        layout.has_filter(),
                        layout.has_gap,
                        layout.has_hints(),
                    ];
                    let others: usize = parts.into_iter().map(usize::from).sum();
                    assert_eq!(others + layout.list_rows + below, rows, "{layout:?}");
                    assert!(layout.list_rows > 0, "{layout:?}");
                }
            }
        }
    }
}
