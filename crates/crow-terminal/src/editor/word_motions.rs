//! Places of words. A chip is a word of its own.

use super::prompt_text::{PromptText, Unit, UnitContent};

/// Number of bytes after which a word is taken to end.
pub(super) const LONGEST_SCAN: usize = 16 * 1024;

/// Class of a unit, as the commands of emacs and vi tell words apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitClass {
    Blank,
    Letter,
    Punctuation,
    Chip,
}

/// Returns the class of a unit. Underscores are letters to vi only.
pub(super) fn class(unit: &Unit<'_>, underscore: UnitClass) -> UnitClass {
    match unit.content {
        UnitContent::Chip(_) => UnitClass::Chip,
        UnitContent::LineFeed => UnitClass::Blank,
        UnitContent::Cluster("_") => underscore,
        UnitContent::Cluster(cluster) => match cluster.chars().next() {
            Some(character) if character.is_whitespace() => UnitClass::Blank,
            Some(character) if character.is_alphanumeric() => UnitClass::Letter,
            Some(_) | None => UnitClass::Punctuation,
        },
    }
}

fn emacs_class(unit: &Unit<'_>) -> UnitClass {
    class(unit, UnitClass::Punctuation)
}

/// Returns true for the units between words.
fn is_between_words(unit: &Unit<'_>) -> bool {
    match emacs_class(unit) {
        UnitClass::Blank | UnitClass::Punctuation => true,
        UnitClass::Letter | UnitClass::Chip => false,
    }
}

pub(super) fn is_blank(unit: &Unit<'_>) -> bool {
    emacs_class(unit) == UnitClass::Blank
}

fn is_letter(unit: &Unit<'_>) -> bool {
    emacs_class(unit) == UnitClass::Letter
}

/// Returns the first place from `position` on with a unit that is not skipped, or one far away: the cost of a motion
/// does not grow with the text.
pub(super) fn skip_forward(
    text: &PromptText,
    position: usize,
    is_skipped: impl Fn(&Unit<'_>) -> bool,
) -> usize {
    let farthest = position + LONGEST_SCAN;
    let mut units = text.units(position..text.len());
    let end = units.find(|unit| !is_skipped(unit) || unit.start > farthest);
    end.map_or(text.len(), |unit| unit.start)
}

/// Returns the last place up to `position` behind a unit that is not skipped, or one far away.
pub(super) fn skip_backward(
    text: &PromptText,
    position: usize,
    is_skipped: impl Fn(&Unit<'_>) -> bool,
) -> usize {
    let farthest = position.saturating_sub(LONGEST_SCAN);
    let mut start = position;
    // Units are found faster forwards.
    while start > farthest {
        let segment = text.segment(text.segment_at(start - 1));
        let units: Vec<Unit<'_>> = text.units(segment.start..start).collect();
        for unit in units.iter().rev() {
            if !is_skipped(unit) {
                return start;
            }
            start = unit.start;
        }
    }
    start
}

/// Returns the end of the word at `position`, or of the next one.
pub(super) fn word_end(text: &PromptText, position: usize) -> usize {
    let start = skip_forward(text, position, is_between_words);
    let end = skip_forward(text, start, is_letter);
    if end == start { text.next(start) } else { end }
}

/// Returns the start of the word before `position`.
pub(super) fn word_start(text: &PromptText, position: usize) -> usize {
    let end = skip_backward(text, position, is_between_words);
    let start = skip_backward(text, end, is_letter);
    if start == end { text.previous(end) } else { start }
}

/// Returns the start of the word before `position`, where words are separated by blanks only.
pub(super) fn blank_word_start(text: &PromptText, position: usize) -> usize {
    let end = skip_backward(text, position, is_blank);
    let is_in_word = |unit: &Unit<'_>| match emacs_class(unit) {
        UnitClass::Letter | UnitClass::Punctuation => true,
        UnitClass::Blank | UnitClass::Chip => false,
    };
    let start = skip_backward(text, end, is_in_word);
    if start == end { text.previous(end) } else { start }
}
