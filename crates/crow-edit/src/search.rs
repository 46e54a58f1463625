//! Finds all places of a text or of a run of lines, in linear time. Knows nothing about edits.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use super::{
    file_text::FileText,
    lines::{Tolerance, fold},
};

/// The most places that are collected where one is wanted: enough to list in an error.
pub(crate) const MAX_RANGES: usize = 50;

/// The id of a line that is not in the pattern.
const FOREIGN: u32 = u32::MAX;

/// Returns the places of `needle`, including overlapping ones, at most [`MAX_RANGES`].
pub(crate) fn find_overlapping(haystack: &str, needle: &str) -> Vec<Range<usize>> {
    let Some(step) = needle.chars().next().map(char::len_utf8) else { return Vec::new() };
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < MAX_RANGES {
        let Some(at) = haystack[from..].find(needle) else { break };
        found.push(from + at..from + at + needle.len());
        // Continue one character later, so that overlapping places are found.
        from += at + step;
    }
    found
}

/// Returns the places of `needle` that `str::replace` would replace.
pub(crate) fn find_successive(haystack: &str, needle: &str) -> Vec<Range<usize>> {
    haystack.match_indices(needle).map(|(at, text)| at..at + text.len()).collect()
}

/// Returns the places of `needle` in the view, with typographic characters equal to their ASCII forms.
pub(crate) fn find_folded(document: &FileText<'_>, needle: &str) -> Vec<Range<usize>> {
    let view = document.view();
    if view.is_ascii() && needle.is_ascii() {
        return Vec::new();
    }
    let haystack = fold(view);
    let places = find_overlapping(&haystack, &fold(needle));
    let mut offsets: Vec<usize> =
        places.iter().flat_map(|place| [place.start, place.end]).collect();
    offsets.sort_unstable();
    let unfolded = unfold(&haystack, view, &offsets);
    places.iter().map(|place| unfolded[&place.start]..unfolded[&place.end]).collect()
}

/// Maps offsets of the folded text to the view. Folding maps character to character, so both texts are walked once.
fn unfold(folded: &str, view: &str, sorted: &[usize]) -> HashMap<usize, usize> {
    let ends = std::iter::once((folded.len(), view.len()));
    let starts =
        folded.char_indices().zip(view.char_indices()).map(|(one, other)| (one.0, other.0));
    let mut wanted = sorted.iter().copied().peekable();
    let mut unfolded = HashMap::new();
    for (folded_at, view_at) in starts.chain(ends) {
        while wanted.next_if_eq(&folded_at).is_some() {
            unfolded.insert(folded_at, view_at);
        }
    }
    unfolded
}

/// Returns the first line of every window of the file whose lines equal `wanted` within the tolerance.
pub(crate) fn find_line_windows(
    document: &FileText<'_>,
    wanted: &[&str],
    tolerance: Tolerance,
) -> Vec<usize> {
    let mut ids: HashMap<Cow<'_, str>, u32> = HashMap::new();
    let mut pattern = Vec::with_capacity(wanted.len());
    for line in wanted {
        let next = u32::try_from(ids.len()).expect("invariant: an edit has fewer than 2^32 lines");
        pattern.push(*ids.entry(tolerance.key(line)).or_insert(next));
    }
    let id = |line| ids.get(&tolerance.key(line)).copied().unwrap_or(FOREIGN);
    find_runs(document.line_texts().map(id), &pattern)
}

/// Returns the starts of all runs of `pattern`, including overlapping ones (Knuth-Morris-Pratt).
fn find_runs(ids: impl Iterator<Item = u32>, pattern: &[u32]) -> Vec<usize> {
    let borders = borders(pattern);
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, id) in ids.enumerate() {
        matched = extend(pattern, &borders, matched, id);
        if matched == pattern.len() && matched > 0 {
            found.push(index + 1 - matched);
        }
    }
    found
}

/// Returns for every prefix of the pattern the length of its longest proper border.
fn borders(pattern: &[u32]) -> Vec<usize> {
    let mut borders = Vec::with_capacity(pattern.len());
    let mut matched = 0;
    for (index, id) in pattern.iter().enumerate() {
        if index > 0 {
            matched = extend(pattern, &borders, matched, *id);
        }
        borders.push(matched);
    }
    borders
}

/// Returns the length of the longest prefix that matches after `id`.
fn extend(pattern: &[u32], borders: &[usize], mut matched: usize, id: u32) -> usize {
    loop {
        if pattern.get(matched) == Some(&id) {
            return matched + 1;
        }
        // On a mismatch, fall back to the longest border.
        if matched == 0 {
            return 0;
        }
        matched = borders[matched - 1];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_runs_are_all_found() {
        assert_eq!(find_runs([1, 1, 1, 2, 1, 1].into_iter(), &[1, 1]), [0, 1, 4]);
        assert_eq!(find_runs([1, 2, 1, 2, 1].into_iter(), &[1, 2, 1]), [0, 2]);
        assert_eq!(find_runs([1, 1, 2, 1, 1, 1, 2].into_iter(), &[1, 1, 1, 2]), [3]);
        assert_eq!(find_runs([1, 2].into_iter(), &[3]), Vec::<usize>::new());
    }

    #[test]
    fn folded_places_are_given_in_the_text_of_the_file() {
        let document = FileText::decode("a \u{201c}b\u{201d} \u{2014} c".as_bytes()).unwrap();
        let places = find_folded(&document, "\"b\" -");
        assert_eq!(places.len(), 1);
        assert_eq!(document.slice(&places[0]), "\u{201c}b\u{201d} \u{2014}");
    }
}
