//! The report on an old text that is not in the file: the closest place and its differences.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write as _},
    ops::Range,
};

use similar::ChangeTag;

use super::{
    apply::TextEdit, error::shown, file_text::FileText, lines::lines, placeholders::placeholder,
};

/// The most places that are compared.
const MAX_PLACES: usize = 25;
/// The most characters of each place that are compared.
const COMPARED_CHARS: usize = 600;
/// Least similarity of a place that is worth showing.
const MIN_SIMILARITY: f64 = 0.40;
/// A more frequent line is no hint.
const MAX_REPEATS: usize = 50;
/// The most lines of differences that are shown.
const SHOWN_LINES: usize = 16;
/// Shorter new text may occur anywhere by chance.
const MIN_PRESENT_CHARS: usize = 8;

/// The report on an old text that is not in the file. Its text continues the sentence "old text not found".
#[derive(Debug, Clone, PartialEq)]
pub struct MissingTextReport {
    /// The line (counted from 1) that already has the new text.
    pub(crate) present: Option<usize>,
    /// A placeholder line of the old text.
    pub(crate) placeholder: Option<String>,
    pub(crate) closest: Option<ClosestPassage>,
}

/// The passage of the file that is most similar to the old text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClosestPassage {
    /// Its first and last line, counted from 1, inclusive.
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) percent: u8,
    /// Lines only in the old text (`-`) and only in the file (`+`).
    pub(crate) differences: String,
}

impl fmt::Display for MissingTextReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.present {
            write!(
                out,
                "; the new text is already present at line {line}, so this edit may be done already"
            )?;
        }
        if let Some(line) = &self.placeholder {
            write!(
                out,
                "; it has the placeholder `{}`, but old text must be complete",
                shown(line)
            )?;
        }
        let Some(closest) = &self.closest else {
            return write!(
                out,
                "; nothing in the file is close to it: read the file again and copy the text exactly"
            );
        };
        let ClosestPassage { first, last, percent, differences } = closest;
        let (lines, read_again) = if first == last {
            (format!("line {first}"), "read this line again and copy it exactly")
        } else {
            (format!("lines {first}-{last}"), "read these lines again and copy them exactly")
        };
        write!(
            out,
            "; the closest place is {lines} ({percent} % alike): {read_again}\n(- old text, + file)\n{}",
            differences.trim_end_matches('\n')
        )
    }
}

/// Searches for the text that the model may have meant.
pub(crate) fn report_missing_text(document: &FileText<'_>, edit: &TextEdit) -> MissingTextReport {
    MissingTextReport {
        present: present(document, edit),
        placeholder: placeholder(&edit.old).map(str::to_owned),
        closest: closest(document, &edit.old),
    }
}

/// Returns the line that already has the new text.
fn present(document: &FileText<'_>, edit: &TextEdit) -> Option<usize> {
    let new = edit.new.trim_matches('\n');
    if new.trim().chars().count() < MIN_PRESENT_CHARS || edit.old.contains(new) {
        return None;
    }
    document.view().find(new).map(|at| document.line_at(at) + 1)
}

/// Finds the window of the file that is most similar to the old text.
fn closest(document: &FileText<'_>, old: &str) -> Option<ClosestPassage> {
    let old_lines = lines(old);
    let clipped = clip(old_lines.iter().copied());
    // Candidates share whole lines with the old text, or else long words.
    let mut starts = windows_by_lines(document, &old_lines);
    if starts.is_empty() {
        starts = windows_by_words(document, &old_lines);
    }
    // The most similar window is shown, of equal ones the first.
    let scored = starts.into_iter().take(MAX_PLACES).map(|start| {
        let range = window(document, start, old_lines.len());
        let similarity = strsim::normalized_levenshtein(
            &clipped,
            &clip(range.clone().map(|index| document.line_text(index))),
        );
        (similarity, range)
    });
    let (similarity, range) = scored
        .max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.start.cmp(&one.1.start)))?;
    if similarity < MIN_SIMILARITY {
        return None;
    }
    let file: Vec<&str> = range.clone().map(|index| document.line_text(index)).collect();
    Some(ClosestPassage {
        first: range.start + 1,
        last: range.end,
        percent: percent(similarity),
        differences: differences(&old_lines, &file),
    })
}

fn percent(similarity: f64) -> u8 {
    // Text that was not found is never shown as 100 % equal.
    (0..=99).rev().find(|percent| f64::from(*percent) <= similarity * 100.0).unwrap_or(0)
}

/// Returns the window of lines from `start`, which may be before the beginning of the file.
fn window(document: &FileText<'_>, start: isize, count: usize) -> Range<usize> {
    let end = start.saturating_add_unsigned(count).unsigned_abs().min(document.line_count());
    start.max(0).unsigned_abs().min(end)..end
}

fn clip<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut clipped = String::new();
    let mut room = COMPARED_CHARS;
    for line in lines {
        clipped.extend(line.trim().chars().take(room));
        clipped.push('\n');
        room = COMPARED_CHARS.saturating_sub(clipped.chars().count());
        if room == 0 {
            break;
        }
    }
    clipped
}

/// Returns the starts of windows that share lines with the old text, most shared lines first. Frequent lines do not
/// count.
fn windows_by_lines(document: &FileText<'_>, old: &[&str]) -> Vec<isize> {
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in old.iter().enumerate().filter(|(_, line)| line.trim().len() > 2) {
        wanted.entry(line.trim()).or_default().push(index);
    }
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in document.line_texts().enumerate() {
        if wanted.contains_key(line.trim()) {
            places.entry(line.trim()).or_default().push(index);
        }
    }
    // Each shared line votes for the window that aligns it.
    let mut votes: HashMap<isize, usize> = HashMap::new();
    for (line, places) in places.iter().filter(|(_, places)| places.len() <= MAX_REPEATS) {
        for (index, place) in wanted
            .get(line)
            .into_iter()
            .flatten()
            .take(MAX_REPEATS)
            .flat_map(|index| places.iter().map(move |place| (index, place)))
        {
            *votes.entry(offset(*place, *index)).or_default() += 1;
        }
    }
    let mut ranked: Vec<(isize, usize)> = votes.into_iter().collect();
    ranked.sort_unstable_by_key(|(start, votes)| (std::cmp::Reverse(*votes), *start));
    ranked.into_iter().map(|(start, _)| start).collect()
}

/// Returns the starts of windows that share one of the longest words of the old text.
fn windows_by_words(document: &FileText<'_>, old: &[&str]) -> Vec<isize> {
    let mut words: Vec<(&str, usize)> = Vec::new();
    for (index, line) in old.iter().enumerate() {
        let long = line
            .split(|char: char| !char.is_alphanumeric() && char != '_')
            .filter(|word| word.len() > 1);
        words.extend(long.map(|word| (word, index)));
    }
    // Long words are rare, so they are the best hint.
    words.sort_by_key(|(word, index)| (std::cmp::Reverse(word.len()), *index));
    words.dedup_by_key(|(word, _)| *word);
    let mut starts = Vec::new();
    let mut seen = HashSet::new();
    for (word, index) in words.into_iter().take(8) {
        let places = document.line_texts().enumerate().filter(|(_, line)| line.contains(word));
        let fresh = places.map(|(place, _)| offset(place, index)).take(10);
        starts.extend(fresh.filter(|start| seen.insert(*start)));
    }
    starts
}

fn offset(place: usize, index: usize) -> isize {
    place.cast_signed().saturating_sub_unsigned(index)
}

fn differences(old: &[&str], file: &[&str]) -> String {
    let operations = crow_text::diff(old, file);
    let changes = operations
        .iter()
        .flat_map(|operation| operation.iter_changes(old, file))
        .filter(|change| change.tag() != ChangeTag::Equal);
    let mut shown_lines = String::new();
    let mut left_out = 0_usize;
    for (count, change) in changes.enumerate() {
        let sign = if change.tag() == ChangeTag::Delete { '-' } else { '+' };
        if count < SHOWN_LINES {
            let _ = writeln!(shown_lines, "{sign} {}", escape_invisible(change.value()));
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let _ = writeln!(shown_lines, "({left_out} more lines differ)");
    }
    shown_lines
}

/// Returns a line with characters that are invisible, or can be mistaken for others, as escapes.
fn escape_invisible(line: &str) -> String {
    let mut visible = String::new();
    for char in shown(line).chars() {
        if char == '\t' || char == ' ' || char.is_alphanumeric() || char.is_ascii_graphic() {
            visible.push(char);
        } else {
            visible.extend(char.escape_unicode());
        }
    }
    if visible.ends_with([' ', '\t']) { format!("{visible}<end of line>") } else { visible }
}
