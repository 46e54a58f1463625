//! The changes of a text, for undo and redo.
//!
//! Changes that belong together are a group, which is undone in one step: a word that was typed, characters that were
//! deleted one after the other, or a command with several changes. A group is closed when the cursor moves.

use std::collections::VecDeque;

use super::chips::Fragment;

/// Number of bytes of changes above which the oldest groups are forgotten.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A range that was replaced.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) start: usize,
    pub(super) removed: Fragment,
    pub(super) inserted: Fragment,
}

/// Kind of a change. Successive changes of the same kind may be undone in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Typing,
    Erasing,
    Other,
}

/// Changes that are undone in one step.
#[derive(Debug, Clone)]
pub(super) struct ChangeGroup {
    pub(super) changes: Vec<Change>,
    pub(super) cursor_before: usize,
    pub(super) cursor_after: usize,
    kind: ChangeKind,
}

impl Change {
    /// Returns the number of bytes that the change takes in memory, about.
    fn size(&self) -> usize {
        size_of::<Self>() + self.removed.size() + self.inserted.size()
    }
}

impl ChangeGroup {
    fn size(&self) -> usize {
        self.changes.iter().map(Change::size).sum()
    }
}

/// Whether the next change may belong to the last group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GroupState {
    #[default]
    Closed,
    /// It does if it continues the last change.
    Open,
    /// It begins a group that takes all changes until it is released.
    HeldEmpty,
    /// It belongs to the last group.
    Held,
}

#[derive(Debug, Clone, Default)]
pub(super) struct UndoLog {
    done: VecDeque<ChangeGroup>,
    undone: Vec<ChangeGroup>,
    state: GroupState,
    bytes: usize,
}

impl UndoLog {
    /// Returns true if there is nothing to undo and to redo.
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty() && self.undone.is_empty()
    }

    /// Ends the current group, unless it is held.
    pub(super) fn close(&mut self) {
        match self.state {
            GroupState::Closed | GroupState::Open => self.state = GroupState::Closed,
            GroupState::HeldEmpty | GroupState::Held => {}
        }
    }

    /// Begins a group for all changes until it is released.
    pub(super) fn hold(&mut self) {
        match self.state {
            GroupState::Closed | GroupState::Open => self.state = GroupState::HeldEmpty,
            GroupState::HeldEmpty | GroupState::Held => {}
        }
    }

    pub(super) fn release(&mut self) {
        self.state = GroupState::Closed;
    }

    pub(super) fn record(
        &mut self,
        change: Change,
        kind: ChangeKind,
        cursor_before: usize,
        cursor_after: usize,
    ) {
        let undone: usize = self.undone.drain(..).map(|group| group.size()).sum();
        self.bytes -= undone;
        let last = self.done.back_mut();
        let joined = match self.state {
            GroupState::Closed | GroupState::HeldEmpty => None,
            GroupState::Held => last,
            GroupState::Open => last.filter(|group| {
                let last = group.changes.last();
                group.kind == kind && last.is_some_and(|last| continues(last, &change, kind))
            }),
        };
        if let Some(group) = joined {
            group.cursor_after = cursor_after;
            self.bytes += push(&mut group.changes, change, kind);
        } else {
            self.bytes += change.size();
            let changes = vec![change];
            self.done.push_back(ChangeGroup { changes, cursor_before, cursor_after, kind });
        }
        self.state = match self.state {
            GroupState::Closed | GroupState::Open => GroupState::Open,
            GroupState::HeldEmpty | GroupState::Held => GroupState::Held,
        };
        while self.bytes > MOST_BYTES && self.done.len() > 1 {
            self.bytes -= self.done.pop_front().map_or(0, |group| group.size());
        }
    }

    /// Moves the last group to those that can be redone, and returns it to be undone.
    pub(super) fn undo(&mut self) -> Option<&ChangeGroup> {
        self.state = GroupState::Closed;
        self.undone.push(self.done.pop_back()?);
        self.undone.last()
    }

    /// Moves a group that was undone back, and returns it to be done again.
    pub(super) fn redo(&mut self) -> Option<&ChangeGroup> {
        self.state = GroupState::Closed;
        self.done.push_back(self.undone.pop()?);
        self.done.back()
    }
}

/// Returns true if a change goes on where the last one of its kind stopped, within a word and the blanks after it.
fn continues(last: &Change, change: &Change, kind: ChangeKind) -> bool {
    let begins_word = |before: &Fragment, after: &Fragment| {
        let is_blank_before = before.text.ends_with(char::is_whitespace);
        is_blank_before && !after.text.starts_with(char::is_whitespace)
    };
    match kind {
        ChangeKind::Typing => {
            last.start + last.inserted.len() == change.start
                && change.removed.is_empty()
                && !begins_word(&last.inserted, &change.inserted)
        }
        ChangeKind::Erasing => {
            let is_backward = change.start + change.removed.len() == last.start;
            is_backward || change.start == last.start
        }
        ChangeKind::Other => false,
    }
}

/// Adds a change to a group, and returns the number of bytes that it takes. Characters that are typed one after the
/// other are one change.
fn push(changes: &mut Vec<Change>, change: Change, kind: ChangeKind) -> usize {
    match changes.last_mut() {
        Some(last) if kind == ChangeKind::Typing && continues(last, &change, kind) => {
            last.inserted.append(&change.inserted);
            change.inserted.size()
        }
        Some(_) | None => {
            let size = change.size();
            changes.push(change);
            size
        }
    }
}
