//! A line as it is written to the terminal.

/// A line as it is written to the terminal: text and sequences for its look, without a line break.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PaintedLine {
    pub(crate) text: String,
    /// Number of columns.
    pub(crate) width: usize,
}
