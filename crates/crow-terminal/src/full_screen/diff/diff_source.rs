//! A diff as a source of rows, in one of two arrangements.

use std::borrow::Cow;

use crow_console::DiffLineKind;
use crow_core::tool::Patch;

use super::{
    diff_entries::DiffEntries,
    diff_rows::{side_by_side_rows, unified_rows},
};
use crate::{
    full_screen::{scroll_view::ScrollSource, text_search::SearchMarks},
    styled_text::StyledLine,
};

/// Fewest columns of the side-by-side arrangement.
pub(super) const LEAST_SIDE_BY_SIDE: usize = 140;

/// An arrangement of the old and the new lines of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffArrangement {
    Unified,
    SideBySide,
}

/// An entry of the side-by-side arrangement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideBySideEntry {
    /// The entry of this number over the full width.
    Full(usize),
    /// The entries of an old and a new line; the same one for a line that is in both files.
    Lines { old: Option<usize>, new: Option<usize> },
}

impl SideBySideEntry {
    /// Returns the first entry of the unified arrangement.
    fn first(self) -> usize {
        match self {
            Self::Full(entry) | Self::Lines { old: Some(entry), .. } => entry,
            Self::Lines { old: None, new } => new.expect("invariant: one of the lines is there"),
        }
    }

    fn has(self, entry: usize) -> bool {
        match self {
            Self::Full(other) => other == entry,
            Self::Lines { old, new } => old == Some(entry) || new == Some(entry),
        }
    }
}

/// A diff as a source of rows.
#[derive(Debug)]
pub(super) struct DiffSource {
    diff: DiffEntries,
    /// The arrangement that was asked for.
    wish: DiffArrangement,
    /// The entries side by side, if they are arranged so.
    side_by_side: Option<Vec<SideBySideEntry>>,
    /// The entries with which files begin.
    starts: Vec<usize>,
}

impl DiffSource {
    pub(super) fn new(patch: Patch) -> Self {
        let diff = DiffEntries::new(patch);
        let starts = diff.headings().to_vec();
        Self { diff, wish: DiffArrangement::Unified, side_by_side: None, starts }
    }

    /// Asks for the other arrangement. It is there after the source was laid out.
    pub(super) fn switch_arrangement(&mut self) {
        self.wish = match self.wish {
            DiffArrangement::Unified => DiffArrangement::SideBySide,
            DiffArrangement::SideBySide => DiffArrangement::Unified,
        };
    }
}

impl ScrollSource for DiffSource {
    fn lay_out(&mut self, columns: usize, entry: usize) -> usize {
        // 1) The entry of the unified arrangement that is at the top.
        let entry = match &self.side_by_side {
            None => entry,
            Some(entries) => entries.get(entry).map_or(0, |entry| entry.first()),
        };
        // 2) The arrangement.
        let is_side_by_side =
            self.wish == DiffArrangement::SideBySide && columns >= LEAST_SIDE_BY_SIDE;
        match (&self.side_by_side, is_side_by_side) {
            (None, true) => self.side_by_side = Some(side_by_side(&self.diff)),
            (Some(_), false) => self.side_by_side = None,
            (None, false) | (Some(_), true) => {}
        }
        let Some(entries) = &self.side_by_side else {
            self.starts = self.diff.headings().to_vec();
            return entry;
        };
        let mut headings = self.diff.headings().iter().peekable();
        self.starts.clear();
        for (number, entry) in entries.iter().enumerate() {
            if headings.next_if(|heading| entry.has(**heading)).is_some() {
                self.starts.push(number);
            }
        }
        // 3) The same entry in it.
        entries.iter().position(|other| other.has(entry)).unwrap_or(0)
    }

    fn entry_count(&self) -> usize {
        self.side_by_side.as_ref().map_or(self.diff.entries().len(), Vec::len)
    }

    fn rows(&self, entry: usize, columns: usize, marks: &SearchMarks<'_>) -> Vec<StyledLine> {
        match self.side_by_side.as_ref().map(|entries| entries[entry]) {
            None => unified_rows(&self.diff, entry, columns, marks),
            Some(SideBySideEntry::Full(entry)) => unified_rows(&self.diff, entry, columns, marks),
            Some(SideBySideEntry::Lines { old, new }) => {
                side_by_side_rows(&self.diff, old, new, columns, marks)
            }
        }
    }

    fn texts(&self, entry: usize) -> Vec<Cow<'_, str>> {
        match self.side_by_side.as_ref().map(|entries| entries[entry]) {
            None => vec![self.diff.visible_text(entry)],
            Some(SideBySideEntry::Full(entry)) => vec![self.diff.visible_text(entry)],
            Some(SideBySideEntry::Lines { old, new }) => {
                let new = new.filter(|new| old != Some(*new));
                old.into_iter().chain(new).map(|entry| self.diff.visible_text(entry)).collect()
            }
        }
    }

    fn line_number(&self, entry: usize) -> usize {
        entry + 1
    }

    fn section_starts(&self) -> &[usize] {
        &self.starts
    }

    fn section_title(&self, section: usize) -> Cow<'_, str> {
        match self.diff.files().len() {
            1 => Cow::Borrowed(self.diff.path(section)),
            files => format!("{}/{files} {}", section + 1, self.diff.path(section)).into(),
        }
    }

    fn empty_text(&self) -> &'static str {
        "No changes"
    }
}

/// Arranges the entries of a diff side by side: added lines beside the deleted ones before them.
fn side_by_side(diff: &DiffEntries) -> Vec<SideBySideEntry> {
    let count = diff.entries().len();
    let kind = |entry: usize| diff.line(entry).map(|line| line.line.kind);
    let run_end = |start: usize, kind_of_run: DiffLineKind| {
        (start..count).find(|entry| kind(*entry) != Some(kind_of_run)).unwrap_or(count)
    };
    let (mut entries, mut entry) = (Vec::with_capacity(count), 0);
    while entry < count {
        match kind(entry) {
            None => {
                entries.push(SideBySideEntry::Full(entry));
                entry += 1;
            }
            Some(DiffLineKind::Context) => {
                entries.push(SideBySideEntry::Lines { old: Some(entry), new: Some(entry) });
                entry += 1;
            }
            Some(DiffLineKind::Deleted | DiffLineKind::Added) => {
                let added = run_end(entry, DiffLineKind::Deleted);
                let end = run_end(added, DiffLineKind::Added);
                for row in 0..(added - entry).max(end - added) {
                    let old = (entry + row < added).then_some(entry + row);
                    let new = (added + row < end).then_some(added + row);
                    entries.push(SideBySideEntry::Lines { old, new });
                }
                entry = end;
            }
        }
    }
    entries
}
