//! Other ways to read what the model sent: with line numbers copied along, escaped once too often, or with
//! blank lines around it.
//!
//! A reading of the old text is only a proposal; the new text is then read in the same way or refused.

use super::{apply::TextEdit, error::EditError, lines::lines, locate::MatchLevel};

/// A possible meaning of the old and new text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EditReading {
    pub(crate) level: MatchLevel,
    pub(crate) scope: ReadingScope,
    pub old: String,
    /// An error if the new text cannot be read in the same way.
    pub new: Result<String, EditError>,
}

/// The parts of the file that a reading may fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadingScope {
    Anywhere,
    /// Only whole lines, as implied by line numbers or blank lines around the text.
    WholeLines,
}

impl EditReading {
    /// Returns the texts unchanged.
    pub(crate) fn plain(edit: &TextEdit, level: MatchLevel) -> Self {
        Self {
            level,
            scope: ReadingScope::Anywhere,
            old: edit.old.clone(),
            new: Ok(edit.new.clone()),
        }
    }
}

/// Returns the texts without the line numbers that `read_file` puts before each line.
pub(crate) fn without_line_numbers(edit: &TextEdit) -> Option<EditReading> {
    first_number(&edit.old)?;
    let old = strip_line_numbers(&edit.old);
    Some(EditReading {
        level: MatchLevel::Gutter,
        scope: ReadingScope::WholeLines,
        old,
        new: new_without_gutter(&edit.new),
    })
}

/// Returns the number before the first line, if every line has one and they count up by one.
pub(crate) fn first_number(text: &str) -> Option<usize> {
    let numbers: Option<Vec<usize>> =
        lines(text).into_iter().map(|line| numbered(line).map(|(number, _)| number)).collect();
    let numbers = numbers?;
    // Consecutive numbers show that they are line numbers.
    let counts_up = numbers
        .iter()
        .zip(numbers.iter().skip(1))
        .all(|(one, next)| one.checked_add(1) == Some(*next));
    if counts_up { numbers.first().copied() } else { None }
}

/// Splits a line in the form of `read_file`: number, tab, text.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, text) = line.split_once('\t')?;
    let number = number.trim_start_matches(' ');
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Some((number.parse().ok()?, text)) } else { None }
}

fn strip_line_numbers(text: &str) -> String {
    let strip = |line| numbered(line).map_or(line, |(_, text)| text);
    text.split_inclusive('\n').map(strip).collect()
}

/// Strips the line numbers of the new text. Either all lines have them, or none.
fn new_without_gutter(new: &str) -> Result<String, EditError> {
    let filled = || lines(new).into_iter().filter(|line| !line.is_empty());
    let Some(line) = filled().find(|line| numbered(line).is_some()) else {
        return Ok(new.to_owned());
    };
    if filled().all(|line| numbered(line).is_some()) {
        Ok(strip_line_numbers(new))
    } else {
        Err(EditError::LineNumbersInNew { line: line.to_owned() })
    }
}

/// Returns the texts with one level of backslash escapes resolved.
pub(crate) fn with_escapes_resolved(edit: &TextEdit) -> Option<EditReading> {
    let old = UnescapedText::read(&edit.old)
        .filter(|old| !old.text.trim().is_empty())
        .filter(|old| !old.kinds.is_empty() && old.is_uniform(&edit.old))?;
    // The new text must be escaped in the same way, and a resolved line break must not split a quoted text.
    let new = UnescapedText::read(&edit.new)
        .filter(|new| old.covers(new) && old.is_uniform(&edit.new))
        .filter(|new| !new.kinds.contains(&'\n') || has_even_quotes(&new.text))
        .map(|new| new.text)
        .ok_or(EditError::MixedEscapes);
    Some(EditReading {
        level: MatchLevel::Escapes,
        scope: ReadingScope::Anywhere,
        old: old.text,
        new,
    })
}

/// Text with its escapes resolved, and the set of escaped characters.
struct UnescapedText {
    text: String,
    kinds: Vec<char>,
}

impl UnescapedText {
    /// Resolves the escapes; `None` if a backslash begins no known escape.
    fn read(text: &str) -> Option<Self> {
        let mut read = Self { text: String::with_capacity(text.len()), kinds: Vec::new() };
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let meant = if char == '\\' { meaning(chars.next()?)? } else { char };
            read.text.push(meant);
            if char == '\\' && !read.kinds.contains(&meant) {
                read.kinds.push(meant);
            }
        }
        Some(read)
    }

    fn covers(&self, other: &Self) -> bool {
        other.kinds.iter().all(|kind| self.kinds.contains(kind))
    }

    /// Returns true if the characters that are escaped here never stand unescaped in `raw`.
    fn is_uniform(&self, raw: &str) -> bool {
        let mut escaped = false;
        raw.chars().all(|char| {
            let bare = !escaped && char != '\\';
            escaped = char == '\\' && !escaped;
            !(bare && self.kinds.contains(&char))
        })
    }
}

const fn meaning(escaped: char) -> Option<char> {
    match escaped {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '\\' | '"' | '\'' | '`' => Some(escaped),
        _ => None,
    }
}

/// Returns whether quotes are balanced in every line. A line break inside quotes was meant to stay an escape.
fn has_even_quotes(text: &str) -> bool {
    lines(text).iter().all(|line| {
        ['"', '\'', '`'].iter().all(|quote| line.matches(*quote).count().is_multiple_of(2))
    })
}

/// Returns the texts without the blank lines at their ends.
pub(crate) fn without_outer_blank_lines(edit: &TextEdit) -> Option<EditReading> {
    let old = TrimmedText::read(&edit.old)?;
    if old.before + old.after == 0 {
        return None;
    }
    // The new text must have the same blank lines around it.
    let new = TrimmedText::read(&edit.new)
        .filter(|new| (new.before, new.after) == (old.before, old.after))
        .filter(|_| edit.old.ends_with('\n') == edit.new.ends_with('\n'))
        .map(|new| new.core)
        .ok_or(EditError::BlankLines);
    Some(EditReading {
        level: MatchLevel::Boundary,
        scope: ReadingScope::WholeLines,
        old: old.core,
        new,
    })
}

/// Text without its outer blank lines and without a final newline.
struct TrimmedText {
    before: usize,
    after: usize,
    core: String,
}

impl TrimmedText {
    fn read(text: &str) -> Option<Self> {
        let lines = lines(text);
        let filled = |line: &&str| !line.trim().is_empty();
        let first = lines.iter().position(filled)?;
        let last = lines.iter().rposition(filled)?;
        let core = lines[first..=last].join("\n");
        Some(Self { before: first, after: lines.len() - last - 1, core })
    }
}
