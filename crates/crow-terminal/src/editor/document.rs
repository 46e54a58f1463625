//! A text with a cursor and its changes. Every change of the text goes through [`Document::edit`].

use std::ops::Range;

use super::{
    chips::Fragment,
    prompt_text::PromptText,
    undo_log::{Change, ChangeGroup, ChangeKind, UndoLog},
};

#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    text: PromptText,
    /// Always between units.
    cursor: usize,
    undo: UndoLog,
}

impl Document {
    /// Creates a document without changes, with the cursor at the end.
    pub(super) fn new(fragment: Fragment) -> Self {
        let text = PromptText::from(fragment);
        Self { cursor: text.len(), text, undo: UndoLog::default() }
    }

    pub(super) fn text(&self) -> &PromptText {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Returns true if the text was changed since it was created.
    pub(super) fn has_changes(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Moves the cursor, out of a unit if `position` is in one.
    pub(super) fn move_to(&mut self, position: usize) {
        self.undo.close();
        self.cursor = self.text.boundary_from(position);
    }

    /// Replaces a range and puts the cursor behind the new text.
    pub(super) fn edit(&mut self, range: Range<usize>, inserted: Fragment, kind: ChangeKind) {
        if range.is_empty() && inserted.is_empty() {
            return;
        }
        let cursor_before = self.cursor;
        let start = range.start;
        let removed = self.text.replace(range, &inserted);
        self.cursor = self.text.boundary_from(start + inserted.len());
        let change = Change { start, removed, inserted };
        self.undo.record(change, kind, cursor_before, self.cursor);
    }

    /// Takes a range out of the text.
    pub(super) fn take(&mut self, range: Range<usize>, kind: ChangeKind) -> Fragment {
        let taken = self.text.fragment(range.clone());
        self.edit(range, Fragment::default(), kind);
        taken
    }

    /// Ends the current undo group.
    pub(super) fn close_group(&mut self) {
        self.undo.close();
    }

    /// Begins an undo group for all changes until [`release_group`](Self::release_group).
    pub(super) fn hold_group(&mut self) {
        self.undo.hold();
    }

    pub(super) fn release_group(&mut self) {
        self.undo.release();
    }

    pub(super) fn undo(&mut self) {
        let Some(ChangeGroup { changes, cursor_before, .. }) = self.undo.undo() else { return };
        for Change { start, removed, inserted } in changes.iter().rev() {
            self.text.replace(*start..*start + inserted.len(), removed);
        }
        self.cursor = *cursor_before;
    }

    pub(super) fn redo(&mut self) {
        let Some(ChangeGroup { changes, cursor_after, .. }) = self.undo.redo() else { return };
        for Change { start, removed, inserted } in changes {
            self.text.replace(*start..*start + removed.len(), inserted);
        }
        self.cursor = *cursor_after;
    }
}
