//! Places that the motions and text objects of vi lead to.

use std::ops::Range;

use super::{
    prompt_text::{PromptText, Unit, UnitContent},
    vi_keys::{CharacterFind, FindPlace, ObjectScope, TextObject, ViDirection, ViMotion, WordKind},
    word_motions::{LONGEST_SCAN, UnitClass, class, skip_backward, skip_forward},
};

/// Range that an operator covers when it is used with a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MotionExtent {
    /// Up to the place.
    Exclusive,
    /// With the unit at the place.
    Inclusive,
    Lines,
}

/// The place that a motion leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MotionTarget {
    pub(super) position: usize,
    pub(super) extent: MotionExtent,
}

/// Returns the place that a motion leads to, or `None` if there is none. Motions over several lines go by lines of the
/// text, not by rows.
pub(super) fn target(
    text: &PromptText,
    cursor: usize,
    motion: ViMotion,
    count: Option<usize>,
) -> Option<MotionTarget> {
    let times = count.unwrap_or(1);
    let (start, end) = (text.line_start(cursor), text.line_end(cursor));
    let repeated = |step: &dyn Fn(usize) -> usize| (0..times).fold(cursor, |at, _| step(at));
    let (position, extent) = match motion {
        ViMotion::Left => (repeated(&|at| text.previous(at).max(start)), MotionExtent::Exclusive),
        ViMotion::Right => (repeated(&|at| text.next(at).min(end)), MotionExtent::Exclusive),
        ViMotion::Up => (repeated(&|at| line_before(text, at)), MotionExtent::Lines),
        ViMotion::Down => (repeated(&|at| line_behind(text, at)), MotionExtent::Lines),
        ViMotion::WordForward(kind) => {
            (repeated(&|at| next_word(text, at, kind)), MotionExtent::Exclusive)
        }
        ViMotion::WordBackward(kind) => {
            (repeated(&|at| previous_word(text, at, kind)), MotionExtent::Exclusive)
        }
        ViMotion::WordEnd(kind) => {
            (repeated(&|at| word_end(text, at, kind)), MotionExtent::Inclusive)
        }
        ViMotion::LineStart => (start, MotionExtent::Exclusive),
        ViMotion::FirstText => (first_text(text, cursor), MotionExtent::Exclusive),
        ViMotion::LineEnd => (end, MotionExtent::Exclusive),
        ViMotion::FirstLine => (line(text, times), MotionExtent::Lines),
        ViMotion::LastLine => {
            let last = || text.line_start(text.len());
            (count.map_or_else(last, |count| line(text, count)), MotionExtent::Lines)
        }
        ViMotion::Find(find) => return find_target(text, cursor, find, times),
        // The editor replaces it by the last find.
        ViMotion::FindAgain(_) => return None,
    };
    Some(MotionTarget { position, extent })
}

fn line_before(text: &PromptText, position: usize) -> usize {
    text.line_start(text.line_start(position).saturating_sub(1))
}

fn line_behind(text: &PromptText, position: usize) -> usize {
    let end = text.line_end(position);
    if end < text.len() { end + 1 } else { text.line_start(position) }
}

/// Returns the start of a line, of which the first has the number 1.
fn line(text: &PromptText, number: usize) -> usize {
    let Some(feeds_before) = number.checked_sub(2) else { return 0 };
    let feed = text.as_str().match_indices('\n').nth(feeds_before);
    feed.map_or_else(|| text.line_start(text.len()), |(at, _)| at + 1)
}

/// Returns the place behind the blanks at the start of a line.
pub(super) fn first_text(text: &PromptText, position: usize) -> usize {
    skip_forward(text, text.line_start(position), is_blank_in_line)
}

fn is_blank_in_line(unit: &Unit<'_>) -> bool {
    unit.content != UnitContent::LineFeed && class(unit, UnitClass::Letter) == UnitClass::Blank
}

fn is_blank(unit: &Unit<'_>) -> bool {
    class(unit, UnitClass::Letter) == UnitClass::Blank
}

fn word_class(unit: &Unit<'_>, kind: WordKind) -> UnitClass {
    match (class(unit, UnitClass::Letter), kind) {
        (UnitClass::Blank, WordKind::Small | WordKind::Big) => UnitClass::Blank,
        (class, WordKind::Small) => class,
        (_, WordKind::Big) => UnitClass::Letter,
    }
}

/// Returns the end of the run of units of one class that begins at `position`.
pub(super) fn run_end(text: &PromptText, position: usize, kind: WordKind) -> usize {
    let Some(first) = text.unit_at(position) else { return position };
    let class = word_class(&first, kind);
    if class == UnitClass::Chip {
        return first.end;
    }
    skip_forward(text, position, |unit| {
        word_class(unit, kind) == class && unit.content != UnitContent::LineFeed
    })
}

/// Returns the start of the run of units of one class that ends at `position`.
fn run_start(text: &PromptText, position: usize, kind: WordKind) -> usize {
    let Some(last) = text.unit_before(position) else { return position };
    let class = word_class(&last, kind);
    if class == UnitClass::Chip {
        return last.start;
    }
    skip_backward(text, position, |unit| {
        word_class(unit, kind) == class && unit.content != UnitContent::LineFeed
    })
}

/// Returns the start of the next word. An empty line is a word.
pub(super) fn next_word(text: &PromptText, position: usize, kind: WordKind) -> usize {
    let is_in_blanks = text.unit_at(position).is_none_or(|unit| is_blank(&unit));
    let mut at = if is_in_blanks { position } else { run_end(text, position, kind) };
    loop {
        at = skip_forward(text, at, is_blank_in_line);
        let Some(unit) = text.unit_at(at) else { return at };
        let is_empty_line = at > position && text.line_start(at) == at;
        if unit.content != UnitContent::LineFeed || is_empty_line || at > position + LONGEST_SCAN {
            return at;
        }
        at = unit.end;
    }
}

fn previous_word(text: &PromptText, position: usize, kind: WordKind) -> usize {
    let mut at = position;
    loop {
        at = skip_backward(text, at, is_blank_in_line);
        let Some(unit) = text.unit_before(at) else { return at };
        if unit.content != UnitContent::LineFeed {
            return run_start(text, at, kind);
        }
        at = unit.start;
        if text.line_start(at) == at || at + LONGEST_SCAN < position {
            return at;
        }
    }
}

/// Returns the start of the last unit of the word behind the unit at `position`.
fn word_end(text: &PromptText, position: usize, kind: WordKind) -> usize {
    let start = skip_forward(text, text.next(position), is_blank);
    let end = run_end(text, start, kind);
    if end > start { text.previous(end) } else { start }
}

fn is_character(unit: &Unit<'_>, character: char) -> bool {
    match unit.content {
        UnitContent::Cluster(cluster) => cluster.starts_with(character),
        UnitContent::LineFeed | UnitContent::Chip(_) => false,
    }
}

fn find_target(
    text: &PromptText,
    cursor: usize,
    find: CharacterFind,
    times: usize,
) -> Option<MotionTarget> {
    let (line_start, line_end) = (text.line_start(cursor), text.line_end(cursor));
    let (from, range) = match find.direction {
        ViDirection::Forward => {
            let start = text.next(cursor);
            (start, start..line_end.min(start.saturating_add(LONGEST_SCAN)))
        }
        ViDirection::Backward => {
            let start = line_start.max(cursor.saturating_sub(LONGEST_SCAN));
            (cursor, text.boundary_from(start)..cursor)
        }
    };
    if range.start > range.end {
        return None;
    }
    let mut places: Vec<_> =
        text.units(range).filter(|unit| is_character(unit, find.character)).collect();
    if find.direction == ViDirection::Backward {
        places.reverse();
    }
    let is_adjacent = |unit: &Unit<'_>| match find.direction {
        ViDirection::Forward => unit.start == from,
        ViDirection::Backward => unit.end == from,
    };
    let skipped = match (find.place, places.first()) {
        (FindPlace::BeforeFurther, Some(first)) if is_adjacent(first) => 1,
        (FindPlace::At | FindPlace::Before | FindPlace::BeforeFurther, _) => 0,
    };
    let unit = places.get(times - 1 + skipped)?;
    let position = match (find.direction, find.place) {
        (ViDirection::Forward | ViDirection::Backward, FindPlace::At) => unit.start,
        (ViDirection::Forward, FindPlace::Before | FindPlace::BeforeFurther) => {
            text.previous(unit.start)
        }
        (ViDirection::Backward, FindPlace::Before | FindPlace::BeforeFurther) => unit.end,
    };
    let extent = match find.direction {
        ViDirection::Forward => MotionExtent::Inclusive,
        ViDirection::Backward => MotionExtent::Exclusive,
    };
    Some(MotionTarget { position, extent })
}

/// Returns the range of a text object at the cursor.
pub(super) fn object(text: &PromptText, cursor: usize, object: TextObject) -> Option<Range<usize>> {
    match object {
        TextObject::Word(scope, kind) => word_object(text, cursor, scope, kind),
        TextObject::Quoted(scope, quote) => quoted_object(text, cursor, scope, quote),
    }
}

fn word_object(
    text: &PromptText,
    cursor: usize,
    scope: ObjectScope,
    kind: WordKind,
) -> Option<Range<usize>> {
    let unit = text.unit_at(cursor).filter(|unit| unit.content != UnitContent::LineFeed)?;
    let start = run_start(text, unit.end, kind);
    let end = run_end(text, cursor, kind);
    match scope {
        ObjectScope::Inner => Some(start..end),
        ObjectScope::Around if is_blank(&unit) => Some(start..run_end(text, end, kind)),
        ObjectScope::Around => {
            let behind = skip_forward(text, end, is_blank_in_line);
            if behind > end {
                Some(start..behind)
            } else {
                Some(skip_backward(text, start, is_blank_in_line)..end)
            }
        }
    }
}

/// Returns the range between the quotes around the cursor, or else behind it, in the same line. Of a very long line, a
/// part is looked at.
fn quoted_object(
    text: &PromptText,
    cursor: usize,
    scope: ObjectScope,
    quote: char,
) -> Option<Range<usize>> {
    let mut quotes = Vec::new();
    let mut is_escaped = false;
    for unit in text.units(text.segment(text.segment_at(cursor))) {
        if !is_escaped && is_character(&unit, quote) {
            quotes.push(unit);
        }
        is_escaped = !is_escaped && is_character(&unit, '\\');
    }
    let (pairs, _) = quotes.as_chunks::<2>();
    let [opening, closing] = pairs.iter().find(|[_, closing]| closing.start >= cursor)?;
    Some(match scope {
        ObjectScope::Inner => opening.end..closing.start,
        ObjectScope::Around => opening.start..skip_forward(text, closing.end, is_blank_in_line),
    })
}
