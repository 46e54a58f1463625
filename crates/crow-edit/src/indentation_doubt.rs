//! Exact matches that begin after a part, or all, of the indentation of their line.
//!
//! The indentation before such a match stays, whatever the new text is. That is right if the model starts its texts
//! at the first word, and wrong if it dropped the indentation altogether. The check compares how old and new text
//! continue to tell the two apart.

use std::ops::Range;

use super::{
    error::EditError,
    file_text::FileText,
    lines::{LineParts, TextEdge, rows},
    locate::MatchCandidates,
};

/// The doubt about replacing exactly the matched characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IndentationDoubt {
    None,
    /// Whole lines are meant, so the match must be made line by line.
    WholeLines,
    /// The indentation of the new lines cannot be determined.
    Refused,
}

/// Returns the indentation before a match that begins after it.
fn indentation_before<'a>(document: &'a FileText<'_>, place: &Range<usize>) -> Option<&'a str> {
    let line = document.line_range(document.line_at(place.start));
    let before = document.slice(&(line.start..place.start));
    (!before.is_empty() && before.trim().is_empty()).then_some(before)
}

/// Judges exact matches by the indentation before them.
pub(crate) struct IndentationCheck<'a> {
    document: &'a FileText<'a>,
    old: Vec<LineParts<'a>>,
    new: Vec<LineParts<'a>>,
}

impl<'a> IndentationCheck<'a> {
    pub(crate) fn new(document: &'a FileText<'a>, old: &'a str, new: &'a str) -> Self {
        let rows = |text| rows(text, TextEdge::Line, TextEdge::Line);
        Self { document, old: rows(old), new: rows(new) }
    }

    pub(crate) fn doubt(&self, place: &Range<usize>) -> IndentationDoubt {
        let Some(before) = indentation_before(self.document, place) else {
            return if self.is_appended(place) {
                IndentationDoubt::Refused
            } else {
                IndentationDoubt::None
            };
        };
        // Deleting whole lines removes their indentation, too; otherwise the first lines are compared.
        match (self.old.split_first(), self.new.split_first()) {
            (Some(_), None) if self.old.last().is_some_and(|row| row.terminated) => {
                IndentationDoubt::WholeLines
            }
            (None, _) | (_, None) => IndentationDoubt::None,
            (Some((first_old, _)), Some((first_new, _))) if first_old.is_blank() => {
                if first_new.is_blank() {
                    IndentationDoubt::None
                } else {
                    IndentationDoubt::WholeLines
                }
            }
            (Some((first_old, old_rest)), Some((first_new, new_rest))) => {
                let old = HalfIndentedText { first: first_old, rest: filled(old_rest) };
                let new = HalfIndentedText { first: first_new, rest: filled(new_rest) };
                doubt_lines(before, &old, &new)
            }
        }
    }

    /// Returns true if new text would be appended to a line that the model took for a blank one.
    fn is_appended(&self, place: &Range<usize>) -> bool {
        let is_blank = |rows: &[LineParts<'_>]| rows.first().is_none_or(LineParts::is_blank);
        let start = self.document.line_range(self.document.line_at(place.start)).start;
        start < place.start
            && self.old.iter().any(|row| row.terminated)
            && is_blank(&self.old)
            && !is_blank(&self.new)
            && self.new.len() >= self.old.len()
    }
}

/// A text whose first line is quoted without indentation.
struct HalfIndentedText<'a> {
    first: &'a LineParts<'a>,
    /// The other lines, without blank ones.
    rest: Vec<&'a LineParts<'a>>,
}

fn doubt_lines(
    before: &str,
    old: &HalfIndentedText<'_>,
    new: &HalfIndentedText<'_>,
) -> IndentationDoubt {
    // 1) The first line moves, or another line becomes the first.
    let moves_up = !new.first.is_blank() && old.rest.iter().any(|row| equal(row, new.first));
    let moves_down =
        !equal(old.first, new.first) && new.rest.iter().any(|row| equal(row, old.first));
    if moves_up || moves_down {
        // The indentation before the match belongs to another line than the new first one.
        return IndentationDoubt::WholeLines;
    }
    // 2) A part of the indentation is quoted.
    if !old.first.indent.is_empty() {
        // The old text has less indentation than the file: clear only if just the first line changes.
        let is_old = |row: &&LineParts<'_>| old.rest.iter().any(|other| equal(other, row));
        let is_same = old.first.indent == new.first.indent && new.rest.iter().all(is_old);
        return if is_same { IndentationDoubt::None } else { IndentationDoubt::WholeLines };
    }
    // 3) None of it is quoted: the new text may repeat it, or be flattened.
    let is_doubled = new.first.indent == before && new.first.body != old.first.body;
    if is_doubled || is_flattened(before, old, new) {
        IndentationDoubt::Refused
    } else {
        IndentationDoubt::None
    }
}

/// Returns true if new lines right after the first are indented as if that one were not indented at all. After a line
/// of the old text, whose indentation is proven, they are taken literally.
fn is_flattened(before: &str, old: &HalfIndentedText<'_>, new: &HalfIndentedText<'_>) -> bool {
    let is_unopened =
        |next: &&LineParts<'_>| new.first.opens(next) && next.indent.len() <= before.len();
    if old.rest.is_empty() && new.rest.first().is_some_and(is_unopened) {
        return true;
    }
    let count = |rows: &[&LineParts<'_>], row: &LineParts<'_>| {
        rows.iter().filter(|other| equal(other, row)).count()
    };
    let is_old = |row: &LineParts<'_>| (1..=count(&old.rest, row)).contains(&count(&new.rest, row));
    let unproven = new.rest.iter().take_while(|row| !is_old(row));
    let mut shallow = unproven.filter(|row| !row.indent.starts_with(before));
    shallow.next().is_some()
}

fn equal(one: &LineParts<'_>, other: &LineParts<'_>) -> bool {
    (one.indent, one.body) == (other.indent, other.body)
}

fn filled<'a>(rows: &'a [LineParts<'a>]) -> Vec<&'a LineParts<'a>> {
    rows.iter().filter(|row| !row.is_blank()).collect()
}

/// Returns the error for such matches; there is at least one.
pub(crate) fn half_indented(document: &FileText<'_>, candidates: &MatchCandidates) -> EditError {
    let place = &candidates.ranges[0];
    let index = document.line_at(place.start);
    let (line, actual) = (index + 1, document.line_text(index).to_owned());
    if indentation_before(document, place).is_some() {
        EditError::HalfIndented { line, actual }
    } else {
        EditError::WithinLine { line, actual }
    }
}
