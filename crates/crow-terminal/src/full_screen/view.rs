//! The interface between views that take the whole screen and the loop that owns the terminal.

use std::fmt;

use crate::{keys::Key, screen_size::ScreenSize, styled_text::StyledLine};

/// Effect of a key on a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ViewEffect {
    /// The key has no meaning here.
    None,
    /// The view may look different now.
    Redraw,
    /// The view is to be closed.
    Close,
    /// The item of this index was chosen. The view is to be closed.
    Chosen(usize),
}

/// The rows of a view, and its cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FullScreenFrame {
    /// The rows from the top of the screen on. Missing ones are empty.
    pub(crate) rows: Vec<StyledLine>,
    /// The row and column of the cursor, if it is visible.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// A view that takes the whole screen: keys in, rows out.
pub(crate) trait FullScreenView: fmt::Debug + Send {
    /// Takes a key.
    fn on_key(&mut self, key: Key) -> ViewEffect;

    /// Takes pasted text, with its line ends and control characters as they were sent. The view may look different
    /// afterwards.
    fn on_paste(&mut self, text: &str);

    /// Lays the view out for a screen of this size. There are at most `size.rows` rows of at most `size.columns`
    /// columns; a size of 0 counts as 1.
    fn frame(&mut self, size: ScreenSize) -> FullScreenFrame;
}
