//! Texts that were deleted by commands and can be inserted again.

use std::collections::VecDeque;

use super::chips::Fragment;

/// Maximum number of texts.
const MOST_ENTRIES: usize = 60;

/// How a text is inserted by the commands of vi.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum KilledShape {
    /// At the cursor.
    #[default]
    Characters,
    /// On lines of its own. The text has no line feed at its end.
    Lines,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KilledText {
    pub(super) fragment: Fragment,
    pub(super) shape: KilledShape,
}

/// Side of the last killed text to which another one is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillSide {
    Before,
    After,
}

#[derive(Debug, Clone, Default)]
pub(super) struct KillRing {
    /// The text that is inserted next is the last one.
    entries: VecDeque<KilledText>,
}

impl KillRing {
    pub(super) fn push(&mut self, fragment: Fragment, shape: KilledShape) {
        if self.entries.len() == MOST_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(KilledText { fragment, shape });
    }

    /// Adds to the last text, or begins one.
    pub(super) fn extend(&mut self, fragment: Fragment, side: KillSide) {
        match (self.entries.back_mut(), side) {
            (None, KillSide::Before | KillSide::After) => {
                self.push(fragment, KilledShape::Characters);
            }
            (Some(last), KillSide::After) => last.fragment.append(&fragment),
            (Some(last), KillSide::Before) => {
                let later = std::mem::replace(&mut last.fragment, fragment);
                last.fragment.append(&later);
            }
        }
    }

    pub(super) fn last(&self) -> Option<&KilledText> {
        self.entries.back()
    }

    /// Makes the text before the last one the last.
    pub(super) fn rotate(&mut self) {
        if !self.entries.is_empty() {
            self.entries.rotate_right(1);
        }
    }
}
