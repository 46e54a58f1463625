//! The model of a diff: the lines of its hunks with their numbers, and the words that differ in them.
//!
//! [`diff_parts`] reads the hunks, [`paired_lines`] finds the added line that replaces a deleted one, and
//! [`changed_words`] compares the two. Texts are neither neutralised nor cut here; the code that displays them does that.

use std::{iter, ops::Range};

use similar::{ChangeTag, diff_ratio};

/// Maximum length, in bytes, of lines whose words are compared.
const LONGEST_COMPARED: usize = 1000;
/// Minimum similarity of two lines whose differing words are marked.
const LEAST_LIKENESS: f32 = 0.4;

/// The files of a diff that have a line: the old one, the new one, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLineKind {
    /// The line is in both.
    Context,
    /// The line is only in the old file.
    Deleted,
    /// The line is only in the new file.
    Added,
}

/// A line of a file in a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchLine {
    /// The files that have the line.
    pub kind: DiffLineKind,
    /// The number in the old file; for an added line, that of the next line there.
    pub old: u64,
    /// The number in the new file; for a deleted line, that of the next line there.
    pub new: u64,
    /// The position of the text in the hunks, in bytes: without sign and line feed, but with a carriage return.
    pub text: Range<usize>,
}

/// A part of the hunks of a unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffPart {
    /// A hunk begins.
    Hunk {
        /// The position of the text behind its line numbers in the hunks, in bytes; often the name of a function.
        context: Range<usize>,
    },
    /// A line of the file.
    Line(PatchLine),
    /// The line before has no line feed at its end.
    NoLineFeed,
}

/// Reads the hunks of one file in unified form. Lines that belong to no hunk are skipped.
pub fn diff_parts(hunks: &str) -> impl Iterator<Item = DiffPart> + '_ {
    let (mut old, mut new) = (1, 1);
    let mut start = 0;
    let lines = hunks.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.strip_suffix('\n').unwrap_or(line))
    });
    lines.filter_map(move |(at, line)| {
        if let Some((numbers, context)) = hunk_header(line) {
            (old, new) = numbers;
            return Some(DiffPart::Hunk {
                context: at + line.len() - context.len()..at + line.len(),
            });
        }
        // An editor may have removed the space of an empty line.
        let (kind, sign) = match line.as_bytes() {
            [] | b"\r" => (DiffLineKind::Context, 0),
            [b' ', ..] => (DiffLineKind::Context, 1),
            [b'-', ..] => (DiffLineKind::Deleted, 1),
            [b'+', ..] => (DiffLineKind::Added, 1),
            [b'\\', ..] => return Some(DiffPart::NoLineFeed),
            _ => return None,
        };
        let text = at + sign..at + line.len();
        let part = DiffPart::Line(PatchLine { kind, old, new, text });
        old += u64::from(kind != DiffLineKind::Added);
        new += u64::from(kind != DiffLineKind::Deleted);
        Some(part)
    })
}

/// Parses `@@ -12,3 +14,5 @@ fn main()` into the first line numbers, here (12, 14), and the text behind it.
fn hunk_header(line: &str) -> Option<((u64, u64), &str)> {
    let (ranges, context) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let start = |range: &str| range.split(',').next()?.parse::<u64>().ok();
    Some(((start(old)?, start(new)?), context.trim_start()))
}

/// Returns the positions of deleted and added lines that replace each other. Where added lines follow deleted ones, the
/// first is paired with the first and so on. `None` stands for what is no line.
pub fn paired_lines(kinds: &[Option<DiffLineKind>]) -> Vec<(usize, usize)> {
    let run_of = |start: usize, kind| {
        kinds[start..].iter().take_while(|other| **other == Some(kind)).count()
    };
    let (mut pairs, mut start) = (Vec::new(), 0);
    while start < kinds.len() {
        let deleted = run_of(start, DiffLineKind::Deleted);
        let added = run_of(start + deleted, DiffLineKind::Added);
        pairs.extend((start..start + deleted.min(added)).map(|index| (index, index + deleted)));
        start += (deleted + added).max(1);
    }
    pairs
}

/// Positions of the words that differ in two lines, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedWords {
    /// Positions in the old line, in ascending order.
    pub old: Vec<Range<usize>>,
    /// Positions in the new line, in ascending order.
    pub new: Vec<Range<usize>>,
}

/// Returns the words that differ in two lines; `None` if the lines are too long or too different to compare.
pub fn changed_words(old: &str, new: &str) -> Option<ChangedWords> {
    if old.len().max(new.len()) > LONGEST_COMPARED {
        return None;
    }
    let (old_words, new_words) = (split_words(old), split_words(new));
    let operations = crow_text::diff(&old_words, &new_words);
    if diff_ratio(&operations, old_words.len(), new_words.len()) < LEAST_LIKENESS {
        return None;
    }
    let mut words = ChangedWords::default();
    let (mut old_end, mut new_end) = (0, 0);
    let changes = operations
        .iter()
        .flat_map(|operation| operation.iter_changes(&old_words[..], &new_words[..]));
    for change in changes {
        let length = change.value().len();
        match change.tag() {
            ChangeTag::Equal => {
                old_end += length;
                new_end += length;
            }
            ChangeTag::Delete => {
                words.old.push(old_end..old_end + length);
                old_end += length;
            }
            ChangeTag::Insert => {
                words.new.push(new_end..new_end + length);
                new_end += length;
            }
        }
    }
    Some(words)
}

/// Splits a line into identifiers, runs of whitespace, and single other characters.
fn split_words(line: &str) -> Vec<&str> {
    let class = |character: char| match character {
        _ if character.is_alphanumeric() || character == '_' => 0,
        _ if character.is_whitespace() => 1,
        _ => 2,
    };
    let mut rest = line;
    let words = iter::from_fn(|| {
        let first = rest.chars().next()?;
        let same = |character: char| class(character) == class(first) && class(first) < 2;
        let end = rest.find(|character| !same(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(first.len_utf8()));
        rest = after;
        Some(word)
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts as `kind old new text`.
    fn described(hunks: &str) -> Vec<String> {
        let describe = |part| match part {
            DiffPart::Hunk { context } => format!("hunk {}", &hunks[context]),
            DiffPart::NoLineFeed => "no line feed".to_owned(),
            DiffPart::Line(line) => {
                format!("{:?} {} {} {:?}", line.kind, line.old, line.new, &hunks[line.text])
            }
        };
        diff_parts(hunks).map(describe).collect()
    }

    #[test]
    fn lines_have_the_numbers_of_their_hunk() {
        let hunks = "@@ -10,3 +10,3 @@ fn main()\n a\r\n-b\n\\ No newline at end of file\n+c\n\nnoise\n@@ -40 +41 @@\n-d";
        assert_eq!(
            described(hunks),
            [
                "hunk fn main()",
                "Context 10 10 \"a\\r\"",
                "Deleted 11 11 \"b\"",
                "no line feed",
                "Added 12 11 \"c\"",
                "Context 12 12 \"\"",
                "hunk ",
                "Deleted 40 41 \"d\"",
            ]
        );
    }

    #[test]
    fn added_lines_are_paired_with_the_deleted_ones_before_them() {
        let kinds = |signs: &str| -> Vec<Option<DiffLineKind>> {
            let kind = |sign| match sign {
                '-' => Some(DiffLineKind::Deleted),
                '+' => Some(DiffLineKind::Added),
                ' ' => Some(DiffLineKind::Context),
                _ => None,
            };
            signs.chars().map(kind).collect()
        };
        assert_eq!(paired_lines(&kinds("--+ +-++")), [(0, 2), (5, 6)]);
        assert_eq!(paired_lines(&kinds("-@+")), []);
    }

    #[test]
    fn only_words_of_similar_lines_are_compared() {
        let (old, new) = ("let a = f(x, y);", "let b = f(x, zz);");
        let words = changed_words(old, new).unwrap();
        let texts = |text: &'static str, ranges: Vec<Range<usize>>| -> Vec<&str> {
            ranges.into_iter().map(|range| &text[range]).collect()
        };
        assert_eq!(texts(old, words.old), ["a", "y"]);
        assert_eq!(texts(new, words.new), ["b", "zz"]);
        assert_eq!(changed_words("one two", "three four"), None);
        assert_eq!(changed_words(&"a".repeat(1001), &"a".repeat(1001)), None);
    }

    #[test]
    fn words_are_identifiers_spaces_and_single_characters() {
        assert_eq!(
            split_words("let x_1  = f(ä);"),
            ["let", " ", "x_1", "  ", "=", " ", "f", "(", "ä", ")", ";"]
        );
    }
}
