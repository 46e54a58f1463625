//! The rows of a diff.

use std::ops::Range;

use crow_console::{DiffLineKind, changed_words, words};
use crow_core::tool::{FileChange, FileDiff};

use super::diff_entries::{DiffEntries, DiffEntry, LineEntry};
use crate::{
    full_screen::text_search::SearchMarks,
    line_layout::{clipped_line, clipped_start, pad, visible_line, wrapped_rows},
    styled_text::{StyledLine, TextLook, TextRole},
};

/// Fewest columns of the text of a line beside two line numbers, and beside one. With less, numbers are left out.
const LEAST_TEXT_BESIDE_TWO: usize = 24;
const LEAST_TEXT_BESIDE_ONE: usize = 12;
/// Text between the two sides.
const BETWEEN_SIDES: &str = " │ ";
const BETWEEN_SIDES_COLUMNS: usize = 3;

/// A side of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffSide {
    Old,
    New,
}

/// Returns the rows of an entry in the unified arrangement.
pub(super) fn unified_rows(
    diff: &DiffEntries,
    entry: usize,
    columns: usize,
    marks: &SearchMarks<'_>,
) -> Vec<StyledLine> {
    match &diff.entries()[entry] {
        DiffEntry::Blank => vec![StyledLine::default()],
        DiffEntry::Heading(file) => {
            vec![heading(&diff.files()[*file], diff.path(*file), columns, marks)]
        }
        DiffEntry::Note { text, role } => {
            let mut note = StyledLine::default();
            note.push(text, *role);
            indented_rows("  ", &marks.marked(note, 0), columns)
        }
        DiffEntry::Gap { context } => {
            let mut note = StyledLine::default();
            note.push(context, TextRole::Dim);
            let gutter = format!("{:>1$} ", "⋮", diff.digits());
            vec![clipped_line(&joined(&gutter, &marks.marked(note, 0)), columns)]
        }
        DiffEntry::Line(line) => {
            let mut gutter = StyledLine::default();
            let digits = diff.digits();
            let (old, new) = (line.line.old, line.line.new);
            let two = if columns >= 2 * digits + 4 + LEAST_TEXT_BESIDE_TWO {
                let old = number(old, line.line.kind != DiffLineKind::Added, digits);
                let new = number(new, line.line.kind != DiffLineKind::Deleted, digits);
                format!("{old} {new} ")
            } else if columns >= digits + 3 + LEAST_TEXT_BESIDE_ONE {
                let shown = if line.line.kind == DiffLineKind::Deleted { old } else { new };
                format!("{shown:>digits$} ")
            } else {
                String::new()
            };
            gutter.push(two, TextRole::Dim);
            line_rows(diff, line, gutter, columns, marks, 0)
        }
    }
}

/// Returns the rows of two lines side by side, either of which may be missing. `old` and `new` are the same entry for a
/// line that is in both files.
pub(super) fn side_by_side_rows(
    diff: &DiffEntries,
    old: Option<usize>,
    new: Option<usize>,
    columns: usize,
    marks: &SearchMarks<'_>,
) -> Vec<StyledLine> {
    let left_columns = columns.saturating_sub(BETWEEN_SIDES_COLUMNS) / 2;
    let right_columns = columns.saturating_sub(BETWEEN_SIDES_COLUMNS + left_columns);
    let new_text = usize::from(old.is_some() && old != new);
    let side = |entry: Option<usize>, side, columns, text| {
        let line = entry.and_then(|entry| diff.line(entry));
        line.map_or_else(Vec::new, |line| side_rows(diff, line, side, columns, marks, text))
    };
    let left = side(old, DiffSide::Old, left_columns, 0);
    let right = side(new, DiffSide::New, right_columns, new_text);
    let row = |number: usize| {
        let mut row = left.get(number).cloned().unwrap_or_default();
        pad(&mut row, left_columns);
        row.push(BETWEEN_SIDES, TextRole::Marker);
        if let Some(right) = right.get(number) {
            row.append(right);
        }
        row
    };
    (0..left.len().max(right.len()).max(1)).map(row).collect()
}

fn side_rows(
    diff: &DiffEntries,
    line: &LineEntry,
    side: DiffSide,
    columns: usize,
    marks: &SearchMarks<'_>,
    text: usize,
) -> Vec<StyledLine> {
    let shown = match side {
        DiffSide::Old => line.line.old,
        DiffSide::New => line.line.new,
    };
    let mut gutter = StyledLine::default();
    gutter.push(format!("{} ", number(shown, true, diff.digits())), TextRole::Dim);
    line_rows(diff, line, gutter, columns, marks, text)
}

/// Returns the rows of a line of a file behind a gutter, to which the sign is added.
fn line_rows(
    diff: &DiffEntries,
    line: &LineEntry,
    mut gutter: StyledLine,
    columns: usize,
    marks: &SearchMarks<'_>,
    text: usize,
) -> Vec<StyledLine> {
    let (sign, role, word_role) = match line.line.kind {
        DiffLineKind::Context => (" ", TextRole::Plain, TextRole::Plain),
        DiffLineKind::Deleted => ("-", TextRole::Removed, TextRole::RemovedWord),
        DiffLineKind::Added => ("+", TextRole::Added, TextRole::AddedWord),
    };
    gutter.push(sign, role);
    gutter.push(" ", TextRole::Plain);
    let indent = gutter.width();
    let (content, more) = diff.text(line);
    let content = crow_text::neutralise(content);
    let changed = changed_ranges(diff, line, &content);
    let shown = visible_line(&content, &changed, &TextLook::from(role), &TextLook::from(word_role));
    gutter.append(&marks.marked(shown, text));
    if more > 0 {
        let more = words::count(more as u64, "more character");
        gutter.push(format!(" … {more}"), TextRole::Dim);
    }
    if !line.has_line_feed {
        gutter.push("  no newline at end of file", TextRole::Dim);
    }
    wrapped_rows(&gutter, columns, indent)
}

/// Returns the changed words of a neutralised line.
fn changed_ranges(diff: &DiffEntries, line: &LineEntry, content: &str) -> Vec<Range<usize>> {
    let Some(partner) = line.partner.and_then(|partner| diff.line(partner)) else {
        return Vec::new();
    };
    let other = crow_text::neutralise(diff.text(partner).0);
    let words = match line.line.kind {
        DiffLineKind::Deleted => changed_words(content, &other).map(|words| words.old),
        DiffLineKind::Added => changed_words(&other, content).map(|words| words.new),
        DiffLineKind::Context => None,
    };
    // Lines that are too different have no words that are worth a mark.
    words.unwrap_or_else(Vec::new)
}

/// Returns the heading of a file: its path, how it changed, and the numbers of lines.
fn heading(file: &FileDiff, path: &str, columns: usize, marks: &SearchMarks<'_>) -> StyledLine {
    let mut counts = StyledLine::default();
    match file.change {
        FileChange::Created => counts.push("  new", TextRole::Added),
        FileChange::Deleted => counts.push("  deleted", TextRole::Removed),
        FileChange::Modified => {}
    }
    if file.additions + file.deletions > 0 {
        counts.push(format!("  +{}", file.additions), TextRole::Added);
        counts.push(format!(" −{}", file.deletions), TextRole::Removed);
    }
    let mut heading = StyledLine::default();
    let path = clipped_start(path, columns.saturating_sub(counts.width()).max(1));
    heading.push(path, TextRole::Heading);
    heading = marks.marked(heading, 0);
    heading.append(&counts);
    clipped_line(&heading, columns)
}

/// Returns a line number, or as many spaces.
fn number(number: u64, is_shown: bool, digits: usize) -> String {
    if is_shown { format!("{number:>digits$}") } else { " ".repeat(digits) }
}

fn indented_rows(indent: &str, line: &StyledLine, columns: usize) -> Vec<StyledLine> {
    wrapped_rows(&joined(indent, line), columns, indent.len())
}

/// Returns a line behind a dim text.
fn joined(before: &str, line: &StyledLine) -> StyledLine {
    let mut joined = StyledLine::default();
    joined.push(before, TextRole::Dim);
    joined.append(line);
    joined
}
