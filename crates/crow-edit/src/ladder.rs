//! Where an old text is in a file: levels from exact to loose, each giving every candidate.
//!
//! Invariant: the first level with a candidate decides. Several candidates are an error, never a reason to
//! try a looser level.

use std::ops::Range;

use super::{
    anchors::anchored,
    apply::{Edit, MatchType},
    error::{EditError, Likeness, Places},
    half_indented::{Doubt, Judge, half_indented},
    hint::miss,
    indent::file_unit,
    lines::{Edge, Row, Tolerance, has_word, lines, rows},
    merge::Fit,
    readings::{Reading, Scope, boundary, gutter, unescaped},
    search::{MANY, folded, overlapping, successive, windows},
    text::Document,
};

/// How an old text was found, from strict to loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Exact,
    FinalNewline,
    TrailingBlanks,
    Punctuation,
    IndentShift,
    Trimmed,
    InnerBlanks,
    Gutter,
    Escapes,
    Boundary,
    BlockAnchor,
    ContextAware,
}

impl Level {
    /// Whether the old text is in the file character by character.
    const fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::FinalNewline)
    }

    pub(crate) const fn match_type(self) -> MatchType {
        match self {
            Self::Exact => MatchType::Exact,
            Self::FinalNewline | Self::Boundary => MatchType::TrimmedBoundary,
            Self::TrailingBlanks | Self::Trimmed => MatchType::LineTrimmed,
            Self::Punctuation => MatchType::UnicodeNormalized,
            Self::IndentShift => MatchType::IndentationFlexible,
            Self::InnerBlanks => MatchType::WhitespaceNormalized,
            Self::Gutter => MatchType::LineNumbersStripped,
            Self::Escapes => MatchType::EscapeNormalized,
            Self::BlockAnchor => MatchType::BlockAnchor,
            Self::ContextAware => MatchType::ContextAware,
        }
    }
}

/// The places where an edit applies, and its texts as they are to be read there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) level: Level,
    pub(crate) fit: Fit,
    /// Ranges of the view, ascending and apart; exactly one unless all are to be replaced.
    pub(crate) places: Vec<Range<usize>>,
    pub old: String,
    pub new: String,
}

/// Finds the places of an edit whose texts have the line ends of the view.
pub(crate) fn locate(document: &Document<'_>, edit: &Edit) -> Result<Found, EditError> {
    let plain = Reading::plain(edit, Level::Exact);
    let readings = [Some(plain), gutter(edit), unescaped(edit), boundary(edit)];
    for reading in readings.into_iter().flatten() {
        let hits = match reading.scope {
            Scope::Anywhere => search(document, &reading, edit)?,
            Scope::WholeLines => search_lines(document, &reading.old, Vec::new()),
        };
        if let Some(hits) = hits {
            return settle(document, hits, reading, edit);
        }
    }
    if let Some(hits) = anchored(document, &edit.old) {
        let reading = Reading::plain(edit, hits.level);
        return settle(document, hits, reading, edit);
    }
    Err(EditError::NotFound(Box::new(miss(document, edit))))
}

/// Every candidate of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) level: Level,
    pub(crate) places: Vec<Range<usize>>,
}

/// The candidates of the strictest level that has any.
fn search(
    document: &Document<'_>,
    reading: &Reading,
    edit: &Edit,
) -> Result<Option<Hits>, EditError> {
    let old = &reading.old;
    let Some(hits) = search_text(document, old, edit) else {
        let mut inline = folded(document, old);
        let new = reading.new.as_deref().unwrap_or_default();
        let judge = Judge::new(document, old, new);
        inline.retain(|place| judge.doubt(place) == Doubt::None);
        return Ok(search_lines(document, old, inline));
    };
    if hits.places.len() > 1 && !edit.replace_all {
        return Ok(Some(hits));
    }
    let Ok(new) = &reading.new else { return Ok(Some(hits)) };
    let judge = Judge::new(document, old, new);
    match hits.places.iter().map(|place| judge.doubt(place)).max() {
        None | Some(Doubt::None) => Ok(Some(hits)),
        Some(Doubt::Lines) => search_lines(document, old, Vec::new())
            .map(Some)
            .ok_or_else(|| half_indented(document, &hits)),
        Some(Doubt::Refused) => Err(half_indented(document, &hits)),
    }
}

/// The places that equal the old text character by character.
fn search_text(document: &Document<'_>, old: &str, edit: &Edit) -> Option<Hits> {
    let view = document.view();
    let exact = if edit.replace_all { successive(view, old) } else { overlapping(view, old) };
    if !exact.is_empty() {
        return Some(Hits { level: Level::Exact, places: exact });
    }
    let bare = old.strip_suffix('\n').filter(|bare| !bare.is_empty() && view.ends_with(bare))?;
    let place = view.len() - bare.len()..view.len();
    Some(Hits { level: Level::FinalNewline, places: std::iter::once(place).collect() })
}

/// As [`search`] for whole lines; `inline` are places within lines to be counted in.
fn search_lines(document: &Document<'_>, old: &str, inline: Vec<Range<usize>>) -> Option<Hits> {
    let wanted = lines(old);
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let at = |tolerance| line_places(document, old, &wanted, tolerance);
    let hits =
        |level, places: Vec<Range<usize>>| (!places.is_empty()).then_some(Hits { level, places });
    hits(Level::TrailingBlanks, at(Tolerance::TrailingBlanks))
        .or_else(|| hits(Level::Punctuation, with_inline(at(Tolerance::Punctuation), inline)))
        .or_else(|| {
            let places = Some(at(Tolerance::Indentation)).filter(|_| has_word(old))?;
            let shifted = are_apart(&places)
                && places.iter().all(|place| is_shifted(document.slice(place), old));
            hits(if shifted { Level::IndentShift } else { Level::Trimmed }, places)
        })
        .or_else(|| {
            hits(Level::InnerBlanks, Some(at(Tolerance::InnerBlanks)).filter(|_| has_word(old))?)
        })
}

/// The ranges of the windows whose lines equal the wanted ones within the tolerance.
fn line_places(
    document: &Document<'_>,
    old: &str,
    wanted: &[&str],
    tolerance: Tolerance,
) -> Vec<Range<usize>> {
    let starts = windows(document, wanted, tolerance);
    starts.into_iter().map(|first| line_range(document, first, wanted.len(), old)).collect()
}

/// The range of some lines of the file, with the last line's end if the old text ends with one.
pub(crate) fn line_range(
    document: &Document<'_>,
    first: usize,
    count: usize,
    old: &str,
) -> Range<usize> {
    let start = document.line_range(first).start;
    let end = document.line_range(first + count.saturating_sub(1)).end;
    let next = document.line_range(first + count).start;
    if old.ends_with('\n') { start..next } else { start..end }
}

/// Adds the places within lines that no window covers.
fn with_inline(mut places: Vec<Range<usize>>, inline: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let covers = |place: &Range<usize>, other: &Range<usize>| {
        place.start <= other.start && other.end <= place.end
    };
    let apart: Vec<_> = inline
        .into_iter()
        .filter(|other| !places.iter().any(|place| covers(place, other)))
        .collect();
    places.extend(apart);
    places.sort_unstable_by_key(|place| (place.start, place.end));
    places
}

/// Whether one and the same indentation was added to, or taken from, every line.
fn is_shifted(file: &str, old: &str) -> bool {
    let (file, old) = (rows(file, Edge::Line, Edge::Line), rows(old, Edge::Line, Edge::Line));
    let pairs = || file.iter().zip(&old).filter(|(row, _)| !row.is_blank());
    let same = |prefix: fn(&Row<'_>, &Row<'_>) -> Option<String>| {
        let mut prefixes = pairs().map(|(one, other)| prefix(one, other));
        let first = prefixes.next().flatten();
        first.is_some() && prefixes.all(|other| other == first)
    };
    let added =
        |file: &Row<'_>, old: &Row<'_>| file.indent.strip_suffix(old.indent).map(str::to_owned);
    let removed =
        |file: &Row<'_>, old: &Row<'_>| old.indent.strip_suffix(file.indent).map(str::to_owned);
    same(added) || same(removed)
}

/// Accepts the candidates if they say clearly what to replace.
fn settle(
    document: &Document<'_>,
    hits: Hits,
    reading: Reading,
    edit: &Edit,
) -> Result<Found, EditError> {
    let level = hits.level.max(reading.level);
    let is_exact = hits.level.is_exact();
    let takes_all = edit.replace_all && level < Level::BlockAnchor && are_apart(&hits.places);
    if hits.places.len() > 1 && !takes_all {
        let likeness = if level == Level::Exact { Likeness::Exact } else { Likeness::Inexact };
        return Err(ambiguous(document, &hits.places, likeness));
    }
    refuse_rivals(document, &hits, level, &reading.old, edit)?;
    let new = reading.new?;
    if !is_exact && reading.old.ends_with('\n') && !new.is_empty() && !new.ends_with('\n') {
        return Err(EditError::FinalNewline);
    }
    let ends_file = hits.level == Level::FinalNewline;
    let (old, new) = if ends_file {
        (without_newline(&reading.old), without_newline(&new))
    } else {
        (reading.old, new)
    };
    let fit = if is_exact { Fit::Exact } else { Fit::Loose(file_unit(document)) };
    Ok(Found { level, fit, places: hits.places, old, new })
}

fn without_newline(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

fn are_apart(places: &[Range<usize>]) -> bool {
    places.is_sorted_by(|one, other| one.end <= other.start)
}

/// A match that is inexact, or exact but within a line, is in doubt when whole lines elsewhere fit at all.
fn refuse_rivals(
    document: &Document<'_>,
    hits: &Hits,
    level: Level,
    old: &str,
    edit: &Edit,
) -> Result<(), EditError> {
    let is_exact = level == Level::Exact;
    let wanted = lines(old);
    let is_settled = |place| edit.replace_all || is_whole(document, place);
    if old.trim().is_empty() || (is_exact && hits.places.iter().all(is_settled)) {
        return Ok(());
    }
    let mut rivals = line_places(document, old, &wanted, Tolerance::InnerBlanks);
    rivals.retain(|rival| {
        let next = hits.places.partition_point(|place| place.start < rival.start);
        hits.places.get(next).is_none_or(|place| rival.end < place.end)
    });
    if rivals.is_empty() {
        return Ok(());
    }
    rivals.extend(hits.places.iter().cloned());
    rivals.sort_unstable_by_key(|place| place.start);
    Err(ambiguous(document, &rivals, if is_exact { Likeness::Mixed } else { Likeness::Inexact }))
}

/// Whether a place is made of whole lines.
fn is_whole(document: &Document<'_>, place: &Range<usize>) -> bool {
    let starts_line = document.line_range(document.line_at(place.start)).start == place.start;
    let ends_line = document.line_range(document.line_at(place.end)).end == place.end;
    starts_line && (ends_line || document.slice(place).ends_with('\n'))
}

fn ambiguous(document: &Document<'_>, places: &[Range<usize>], likeness: Likeness) -> EditError {
    let lines = places.iter().map(|place| document.line_at(place.start) + 1).collect();
    let places = Places { lines, more: likeness == Likeness::Exact && places.len() >= MANY };
    EditError::Ambiguous { places, likeness }
}
