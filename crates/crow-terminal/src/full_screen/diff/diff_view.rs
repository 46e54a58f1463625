//! The view of a diff.

use crow_core::tool::Patch;

use super::diff_source::{DiffSource, LEAST_SIDE_BY_SIDE};
use crate::{
    full_screen::{
        scroll_view::ScrollView,
        view::{FullScreenFrame, FullScreenView, ViewEffect},
    },
    keys::Key,
    screen_size::ScreenSize,
    shortcut_help::Shortcut,
};

/// A diff that takes the whole screen, to scroll and search in.
///
/// It has the keys of a [`Pager`](crate::full_screen::Pager), where sections are files. `s` switches between the unified arrangement and
/// the one side by side, which needs 140 columns; on a narrower screen the diff is unified until there are as many.
#[derive(Debug)]
pub(crate) struct DiffView {
    view: ScrollView<DiffSource>,
    files: usize,
}

impl DiffView {
    /// Creates a view at the beginning of a patch, whose texts need not be harmless. The title is shown in the status
    /// row.
    #[must_use]
    pub(crate) fn new(title: &str, patch: Patch) -> Self {
        let files = patch.files.len();
        Self { view: ScrollView::new(title, DiffSource::new(patch)), files }
    }

    /// Returns the hints for a screen of this number of columns.
    fn hints(&self, columns: usize) -> Vec<Shortcut> {
        let mut hints = vec![Shortcut::new("q", "close")];
        if self.files > 1 {
            hints.push(Shortcut::new("[ ]", "file"));
        }
        if columns >= LEAST_SIDE_BY_SIDE {
            hints.push(Shortcut::new("s", "arrangement"));
        }
        hints.push(Shortcut::new("/", "search"));
        hints
    }
}

impl FullScreenView for DiffView {
    fn on_key(&mut self, key: Key) -> ViewEffect {
        if key != Key::char('s') || self.view.is_typing() {
            return self.view.on_key(key);
        }
        if self.view.columns() < LEAST_SIDE_BY_SIDE {
            self.view.show_message("side by side needs 140 columns");
        } else {
            self.view.source_mut().switch_arrangement();
            self.view.lay_out();
        }
        ViewEffect::Redraw
    }

    fn on_paste(&mut self, text: &str) {
        self.view.on_paste(text);
    }

    fn frame(&mut self, size: ScreenSize) -> FullScreenFrame {
        let hints = self.hints(size.columns);
        self.view.frame(size, &hints)
    }
}
