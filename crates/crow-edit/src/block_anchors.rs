//! The loosest way to find an old text: its first and last line are in the file, and the lines between are similar.
//! The merge then decides what may be changed.

use std::{borrow::Cow, collections::HashSet};

use super::{
    file_text::FileText,
    lines::{Tolerance, lines},
    locate::{MatchCandidates, MatchLevel, line_range},
};

/// The fewest word characters in the first and last line together.
const MIN_WORD_CHARS: usize = 4;
/// The lowest mean similarity of the lines between that makes a match.
const BLOCK_SIMILARITY: f64 = 0.80;
/// The lowest similarity that makes another block a rival.
const RIVAL_SIMILARITY: f64 = 0.50;
/// The most blocks with the same first and last line; more are no evidence.
const MAX_BLOCKS: usize = 25;
/// The most characters of a line that are compared.
const COMPARED_CHARS: usize = 600;
/// The most pairs of characters that are compared in total: the time bound of the search.
const MAX_COST: usize = 8_000_000;

/// Finds the blocks between the first and last line of the old text.
pub(crate) fn locate_by_anchors(document: &FileText<'_>, old: &str) -> Option<MatchCandidates> {
    let wanted: Vec<Cow<'_, str>> = lines(old).into_iter().map(key).collect();
    let ([first, middle @ .., last], 3..) = (wanted.as_slice(), wanted.len()) else { return None };
    let words = |line: &str| line.chars().filter(|char| char.is_alphanumeric()).count();
    if first.is_empty() || last.is_empty() || words(first) + words(last) < MIN_WORD_CHARS {
        return None;
    }
    let file: Vec<Cow<'_, str>> = document.line_texts().map(key).collect();
    let windows = file.windows(wanted.len()).enumerate();
    // Windows with the same number of lines whose ends match.
    let blocks: Vec<usize> = windows
        .filter(|(_, window)| window.first() == Some(first) && window.last() == Some(last))
        .map(|(start, _)| start)
        .take(MAX_BLOCKS + 1)
        .collect();
    if blocks.is_empty() || blocks.len() > MAX_BLOCKS {
        return None;
    }
    // Score the candidates; a rival makes the match ambiguous, unless it is clearly worse.
    let mut cost = MAX_COST;
    let mut scored = Vec::new();
    for start in blocks {
        let inner = &file[start + 1..start + wanted.len() - 1];
        scored.push((start, BlockScore::of(middle, inner, &mut cost)?));
    }
    scored.retain(|(_, score)| score.is_rival());
    let level = scored.iter().filter_map(|(_, score)| score.level()).min()?;
    // A single block may still be the wrong one.
    if let [(start, _)] = scored.as_slice()
        && (is_elsewhere(&file, *start, &wanted) || is_escaped(&file, *start, &wanted))
    {
        return None;
    }
    let places =
        scored.iter().map(|(start, _)| line_range(document, *start, wanted.len(), old)).collect();
    Some(MatchCandidates { level, ranges: places })
}

fn key(line: &str) -> Cow<'_, str> {
    Tolerance::InnerBlanks.key(line)
}

/// The similarity of the inner lines of a block to those of the old text.
struct BlockScore {
    similarity: f64,
    /// True if at least half of the filled lines are equal.
    half_equal: bool,
}

impl BlockScore {
    fn of(old: &[Cow<'_, str>], file: &[Cow<'_, str>], cost: &mut usize) -> Option<Self> {
        let mut total = 0.0;
        let (mut equal, mut filled) = (0_usize, 0_usize);
        for (one, other) in old.iter().zip(file) {
            if one == other {
                total += 1.0;
                equal += usize::from(!one.is_empty());
            } else {
                total += similarity(one, other, cost)?;
            }
            filled += usize::from(!one.is_empty() || !other.is_empty());
        }
        let count = u32::try_from(old.len()).ok()?;
        Some(Self {
            similarity: total / f64::from(count),
            half_equal: filled > 0 && equal * 2 >= filled,
        })
    }

    fn is_rival(&self) -> bool {
        self.half_equal || self.similarity >= RIVAL_SIMILARITY
    }

    fn level(&self) -> Option<MatchLevel> {
        if self.similarity >= BLOCK_SIMILARITY {
            Some(MatchLevel::BlockAnchor)
        } else {
            self.half_equal.then_some(MatchLevel::ContextAware)
        }
    }
}

/// Returns the similarity, from 0 to 1; `None` if the comparison exceeds the remaining cost.
fn similarity(one: &str, other: &str, cost: &mut usize) -> Option<f64> {
    let clip = |line: &str| line.chars().take(COMPARED_CHARS).collect::<String>();
    let (one, other) = (clip(one), clip(other));
    *cost = cost.checked_sub(one.len() * other.len())?;
    Some(strsim::normalized_levenshtein(&one, &other))
}

/// Returns true if the old text has escapes (`\\n`, `&lt;`) that the block lacks: then the new text has them too.
fn is_escaped(file: &[Cow<'_, str>], start: usize, wanted: &[Cow<'_, str>]) -> bool {
    let block = &file[start..start + wanted.len()];
    let count = |lines: &[Cow<'_, str>], sign: char| {
        lines.iter().map(|line| line.matches(sign).count()).sum::<usize>()
    };
    ['\\', '&'].iter().any(|sign| count(wanted, *sign) > count(block, *sign))
}

/// Returns true if a line that the block lacks is somewhere else in the file: then the old text is more likely there.
fn is_elsewhere(file: &[Cow<'_, str>], start: usize, wanted: &[Cow<'_, str>]) -> bool {
    let block = &file[start..start + wanted.len()];
    let missing: HashSet<&str> = wanted
        .iter()
        .zip(block)
        .filter(|(old, line)| old != line && old.chars().any(char::is_alphanumeric))
        .map(|(old, _)| old.as_ref())
        .collect();
    file.iter().any(|line| missing.contains(line.as_ref()))
}
