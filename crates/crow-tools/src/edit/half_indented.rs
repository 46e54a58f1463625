//! Exact matches that begin behind a part, or all, of the indentation of their line.
//!
//! The indentation before such a match stays, whatever the new text is. That is what the model wants when it
//! starts its texts at the first word, and wrong when it left the indentation away altogether.

use std::ops::Range;

use super::{
    error::EditError,
    ladder::Hits,
    lines::{Edge, Row, rows},
    text::Document,
};

/// What indentation is made of.
pub(crate) const BLANKS: [char; 2] = [' ', '\t'];

/// What opens a block, so that the next line must be deeper.
const OPENERS: [char; 4] = [':', '{', '(', '['];

/// Whether replacing just the matched characters is what the model means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    None,
    /// Whole lines are meant.
    Lines,
    /// It cannot be told how the new lines are to be indented.
    Refused,
}

/// The indentation before a place that begins behind it.
pub(crate) fn indentation_before<'a>(
    document: &'a Document<'_>,
    place: &Range<usize>,
) -> Option<&'a str> {
    let line = document.line_range(document.line_at(place.start));
    let before = document.slice(&(line.start..place.start));
    (!before.is_empty() && before.trim().is_empty()).then_some(before)
}

/// Judges an exact match by the indentation before it.
pub(crate) fn doubt(document: &Document<'_>, place: &Range<usize>, old: &str, new: &str) -> Doubt {
    let (olds, news) = (rows(old, Edge::Line, Edge::Line), rows(new, Edge::Line, Edge::Line));
    let Some(before) = indentation_before(document, place) else {
        return if is_appended(document, place, &olds, &news) {
            Doubt::Refused
        } else {
            Doubt::None
        };
    };
    match (olds.split_first(), news.split_first()) {
        (None, _) => Doubt::None,
        (Some(_), None) if old.ends_with('\n') => Doubt::Lines,
        (Some(_), None) => Doubt::None,
        (Some((first_old, _)), Some((first_new, _))) if first_old.is_blank() => {
            if first_new.is_blank() { Doubt::None } else { Doubt::Lines }
        }
        (Some((first_old, old_rest)), Some((first_new, new_rest))) => {
            let old = Quote { first: first_old, rest: filled(old_rest) };
            let new = Quote { first: first_new, rest: filled(new_rest) };
            doubt_lines(before, &old, &new)
        }
    }
}

/// Whether new text would be put behind a line that the model takes for a blank one.
fn is_appended(
    document: &Document<'_>,
    place: &Range<usize>,
    olds: &[Row<'_>],
    news: &[Row<'_>],
) -> bool {
    let is_inside = document.line_range(document.line_at(place.start)).start < place.start;
    let is_blank = |rows: &[Row<'_>]| rows.first().is_none_or(Row::is_blank);
    is_inside
        && olds.iter().any(|row| row.terminated)
        && is_blank(olds)
        && !is_blank(news)
        && news.len() >= olds.len()
}

/// A text whose first line lacks indentation.
struct Quote<'a> {
    first: &'a Row<'a>,
    /// The other lines that are not blank.
    rest: Vec<&'a Row<'a>>,
}

fn doubt_lines(before: &str, old: &Quote<'_>, new: &Quote<'_>) -> Doubt {
    let equal =
        |one: &Row<'_>, other: &Row<'_>| (one.indent, one.body) == (other.indent, other.body);
    let moves_up = !new.first.is_blank() && old.rest.iter().any(|row| equal(row, new.first));
    let moves_down =
        !equal(old.first, new.first) && new.rest.iter().any(|row| equal(row, old.first));
    if moves_up || moves_down {
        // The indentation before the match belongs to another line than the new first one.
        return Doubt::Lines;
    }
    if !old.first.indent.is_empty() {
        // The model believes in less indentation than there is, unless later lines prove it right.
        let is_proven = !old.rest.is_empty() || new.rest.is_empty();
        let is_same = old.first.indent == new.first.indent;
        return if is_proven && is_same { Doubt::None } else { Doubt::Lines };
    }
    let is_doubled = new.first.indent == before && new.first.body != old.first.body;
    let is_flattened = old.rest.is_empty() && is_flattened(new, before);
    if is_doubled || is_flattened { Doubt::Refused } else { Doubt::None }
}

/// Whether lines behind the first are indented as if the first one were not indented at all.
fn is_flattened(new: &Quote<'_>, before: &str) -> bool {
    let opens = new.first.body.ends_with(OPENERS);
    let next_is_deeper = new.rest.first().is_none_or(|row| row.indent.len() > before.len());
    (opens && !next_is_deeper) || new.rest.iter().any(|row| !row.indent.starts_with(before))
}

fn filled<'a>(rows: &'a [Row<'a>]) -> Vec<&'a Row<'a>> {
    rows.iter().filter(|row| !row.is_blank()).collect()
}

/// The refusal of such matches.
pub(crate) fn half_indented(document: &Document<'_>, hits: &Hits) -> EditError {
    let place = hits.places.first().cloned().unwrap_or_default();
    let index = document.line_at(place.start);
    let (line, actual) = (index + 1, document.line_text(index).to_owned());
    if indentation_before(document, &place).is_some() {
        EditError::HalfIndented { line, actual }
    } else {
        EditError::WithinLine { line, actual }
    }
}
