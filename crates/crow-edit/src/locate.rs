//! Finds an old text in a file, on levels from exact to loose. Each level returns every candidate.
//!
//! [`locate`] tries several readings of the edit (as written, without line numbers, unescaped, without outer blank
//! lines). For each, [`search`] looks for exact characters and [`search_lines`] for whole lines with growing
//! tolerance; blocks with matching ends come last. [`accept_candidates`] then requires one unambiguous place.
//!
//! Invariant: the first level with a candidate decides. Several candidates are an error, never a reason to try a
//! looser level.

use std::ops::Range;

use super::{
    apply::{MatchType, TextEdit},
    block_anchors::locate_by_anchors,
    edit_readings::{
        EditReading, ReadingScope, with_escapes_resolved, without_line_numbers,
        without_outer_blank_lines,
    },
    error::{AmbiguityKind, EditError, MatchingLines},
    file_text::FileText,
    indent_map::file_unit,
    indentation_doubt::{IndentationCheck, IndentationDoubt, half_indented},
    lines::{LineParts, TextEdge, Tolerance, has_word, lines, rows},
    merge::MatchFit,
    missing_text::report_missing_text,
    search::{MAX_RANGES, find_folded, find_line_windows, find_overlapping, find_successive},
};

/// The level on which an old text was found, from strict to loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchLevel {
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

impl MatchLevel {
    /// Returns true if the old text is in the file character by character.
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

/// The places that an edit replaces, and its texts in the reading that fits there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocatedEdit {
    pub(crate) level: MatchLevel,
    pub(crate) fit: MatchFit,
    /// Ranges of the view, ascending and disjoint; exactly one unless all are to be replaced.
    pub(crate) ranges: Vec<Range<usize>>,
    pub old: String,
    pub new: String,
}

/// Locates an edit whose texts have the line ends of the view.
pub(crate) fn locate(document: &FileText<'_>, edit: &TextEdit) -> Result<LocatedEdit, EditError> {
    let plain = EditReading::plain(edit, MatchLevel::Exact);
    let readings = [
        Some(plain),
        without_line_numbers(edit),
        with_escapes_resolved(edit),
        without_outer_blank_lines(edit),
    ];
    // From plain to interpreted: the first reading with a candidate decides, and several candidates are an error.
    for reading in readings.into_iter().flatten() {
        let candidates = match reading.scope {
            ReadingScope::Anywhere => search(document, &reading, edit)?,
            ReadingScope::WholeLines => search_lines(document, &reading.old, Vec::new()),
        };
        if let Some(candidates) = candidates {
            return accept_candidates(document, candidates, reading, edit);
        }
    }
    if let Some(candidates) = locate_by_anchors(document, &edit.old) {
        let reading = EditReading::plain(edit, candidates.level);
        return accept_candidates(document, candidates, reading, edit);
    }
    Err(EditError::NotFound(Box::new(report_missing_text(document, edit))))
}

/// All candidates of one level, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchCandidates {
    pub(crate) level: MatchLevel,
    pub(crate) ranges: Vec<Range<usize>>,
}

/// Returns the candidates of the strictest level that has any.
fn search(
    document: &FileText<'_>,
    reading: &EditReading,
    edit: &TextEdit,
) -> Result<Option<MatchCandidates>, EditError> {
    let old = &reading.old;
    let Some(candidates) = search_text(document, old, edit) else {
        // Typographic characters may also differ within a line, as long as the indentation is in no doubt.
        let mut inline = find_folded(document, old);
        // New text that cannot be read counts as none here: it is refused with its own error once a place is found.
        let new = reading.new.as_deref().unwrap_or_default();
        let check = IndentationCheck::new(document, old, new);
        inline.retain(|place| check.doubt(place) == IndentationDoubt::None);
        return Ok(search_lines(document, old, inline));
    };
    if candidates.ranges.len() > 1 && !edit.replace_all {
        return Ok(Some(candidates));
    }
    let Ok(new) = &reading.new else { return Ok(Some(candidates)) };
    let check = IndentationCheck::new(document, old, new);
    // Even exact characters may begin at the wrong place: the strongest doubt of all places counts.
    match candidates.ranges.iter().map(|place| check.doubt(place)).max() {
        None | Some(IndentationDoubt::None) => Ok(Some(candidates)),
        Some(IndentationDoubt::WholeLines) => search_lines(document, old, Vec::new())
            .map(Some)
            .ok_or_else(|| half_indented(document, &candidates)),
        Some(IndentationDoubt::Refused) => Err(half_indented(document, &candidates)),
    }
}

/// Returns the places that equal the old text character by character, or all of it but a final newline.
fn search_text(document: &FileText<'_>, old: &str, edit: &TextEdit) -> Option<MatchCandidates> {
    let view = document.view();
    let exact =
        if edit.replace_all { find_successive(view, old) } else { find_overlapping(view, old) };
    if !exact.is_empty() {
        return Some(MatchCandidates { level: MatchLevel::Exact, ranges: exact });
    }
    let bare = old.strip_suffix('\n').filter(|bare| !bare.is_empty() && view.ends_with(bare))?;
    let place = view.len() - bare.len()..view.len();
    Some(MatchCandidates {
        level: MatchLevel::FinalNewline,
        ranges: std::iter::once(place).collect(),
    })
}

/// Searches whole lines like [`search`]; `inline` are places within lines that count as candidates too.
fn search_lines(
    document: &FileText<'_>,
    old: &str,
    inline: Vec<Range<usize>>,
) -> Option<MatchCandidates> {
    let wanted = lines(old);
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let at = |tolerance| line_places(document, old, &wanted, tolerance);
    let candidates = |level, places: Vec<Range<usize>>| {
        (!places.is_empty()).then_some(MatchCandidates { level, ranges: places })
    };
    candidates(MatchLevel::TrailingBlanks, at(Tolerance::TrailingBlanks))
        .or_else(|| {
            candidates(MatchLevel::Punctuation, with_inline(at(Tolerance::Punctuation), inline))
        })
        .or_else(|| {
            let places = Some(at(Tolerance::Indentation)).filter(|_| has_word(old))?;
            let shifted = are_apart(&places)
                && places.iter().all(|place| is_shifted(document.slice(place), old));
            candidates(if shifted { MatchLevel::IndentShift } else { MatchLevel::Trimmed }, places)
        })
        .or_else(|| {
            candidates(
                MatchLevel::InnerBlanks,
                Some(at(Tolerance::InnerBlanks)).filter(|_| has_word(old))?,
            )
        })
}

/// Returns the ranges of the windows whose lines equal the wanted ones within the tolerance.
fn line_places(
    document: &FileText<'_>,
    old: &str,
    wanted: &[&str],
    tolerance: Tolerance,
) -> Vec<Range<usize>> {
    let starts = find_line_windows(document, wanted, tolerance);
    starts.into_iter().map(|first| line_range(document, first, wanted.len(), old)).collect()
}

/// Returns the range of some lines of the file, with the last line's end if the old text ends with one.
pub(crate) fn line_range(
    document: &FileText<'_>,
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

/// Returns true if the same indentation was added to, or removed from, every line.
pub(crate) fn is_shifted(file: &str, old: &str) -> bool {
    let (file, old) =
        (rows(file, TextEdge::Line, TextEdge::Line), rows(old, TextEdge::Line, TextEdge::Line));
    let pairs = || file.iter().zip(&old).filter(|(row, _)| !row.is_blank());
    let same = |prefix: fn(&LineParts<'_>, &LineParts<'_>) -> Option<String>| {
        let mut prefixes = pairs().map(|(one, other)| prefix(one, other));
        let first = prefixes.next().flatten();
        first.is_some() && prefixes.all(|other| other == first)
    };
    let added = |file: &LineParts<'_>, old: &LineParts<'_>| {
        file.indent.strip_suffix(old.indent).map(str::to_owned)
    };
    let removed = |file: &LineParts<'_>, old: &LineParts<'_>| {
        old.indent.strip_suffix(file.indent).map(str::to_owned)
    };
    same(added) || same(removed)
}

/// Accepts candidates that determine clearly what to replace.
fn accept_candidates(
    document: &FileText<'_>,
    candidates: MatchCandidates,
    reading: EditReading,
    edit: &TextEdit,
) -> Result<LocatedEdit, EditError> {
    let level = candidates.level.max(reading.level);
    let is_exact = candidates.level.is_exact();
    let takes_all =
        edit.replace_all && level < MatchLevel::BlockAnchor && are_apart(&candidates.ranges);
    // 1) Several places, or rivals, are ambiguous.
    if candidates.ranges.len() > 1 && !takes_all {
        let likeness =
            if level == MatchLevel::Exact { AmbiguityKind::Exact } else { AmbiguityKind::Inexact };
        return Err(ambiguous(document, &candidates.ranges, likeness));
    }
    refuse_rivals(document, &candidates, level, &reading.old, edit)?;
    // 2) The new text must be readable in the same way, and end like the old one.
    let new = reading.new?;
    if !is_exact && reading.old.ends_with('\n') && !new.is_empty() && !new.ends_with('\n') {
        return Err(EditError::FinalNewline);
    }
    let ends_file = candidates.level == MatchLevel::FinalNewline;
    let (old, new) = if ends_file {
        (without_newline(&reading.old), without_newline(&new))
    } else {
        (reading.old, new)
    };
    let fit = if is_exact { MatchFit::Exact } else { MatchFit::Loose(file_unit(document)) };
    Ok(LocatedEdit { level, fit, ranges: candidates.ranges, old, new })
}

fn without_newline(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

fn are_apart(places: &[Range<usize>]) -> bool {
    places.is_sorted_by(|one, other| one.end <= other.start)
}

/// Refuses a match that is inexact, or exact but within a line, if whole lines elsewhere fit as well.
fn refuse_rivals(
    document: &FileText<'_>,
    candidates: &MatchCandidates,
    level: MatchLevel,
    old: &str,
    edit: &TextEdit,
) -> Result<(), EditError> {
    let is_exact = level == MatchLevel::Exact;
    let wanted = lines(old);
    let is_settled = |place| edit.replace_all || is_whole(document, place);
    if old.trim().is_empty() || (is_exact && candidates.ranges.iter().all(is_settled)) {
        return Ok(());
    }
    let mut rivals = line_places(document, old, &wanted, Tolerance::InnerBlanks);
    // A window that contains a candidate is no rival: it consists of that candidate's lines.
    rivals.retain(|rival| {
        let next = candidates.ranges.partition_point(|place| place.start < rival.start);
        candidates.ranges.get(next).is_none_or(|place| rival.end < place.end)
    });
    if rivals.is_empty() {
        return Ok(());
    }
    rivals.extend(candidates.ranges.iter().cloned());
    rivals.sort_unstable_by_key(|place| place.start);
    Err(ambiguous(
        document,
        &rivals,
        if is_exact { AmbiguityKind::Mixed } else { AmbiguityKind::Inexact },
    ))
}

/// Returns true if a range of the view consists of whole lines.
pub(crate) fn is_whole(document: &FileText<'_>, place: &Range<usize>) -> bool {
    let starts_line = document.line_range(document.line_at(place.start)).start == place.start;
    let ends_line = document.line_range(document.line_at(place.end)).end == place.end;
    starts_line && (ends_line || document.slice(place).ends_with('\n'))
}

fn ambiguous(
    document: &FileText<'_>,
    places: &[Range<usize>],
    likeness: AmbiguityKind,
) -> EditError {
    let lines = places.iter().map(|place| document.line_at(place.start) + 1).collect();
    let places = MatchingLines {
        lines,
        more: likeness == AmbiguityKind::Exact && places.len() >= MAX_RANGES,
    };
    EditError::Ambiguous { places, likeness }
}
