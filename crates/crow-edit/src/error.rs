//! The reasons for refusing an edit. The model reads every text, so each says what is true and what to do next.

use std::fmt;

use super::missing_text::MissingTextReport;

/// The most line numbers that an error lists.
const LISTED_LINES: usize = 10;
/// The most characters of a line that an error shows.
const SHOWN_CHARS: usize = 200;

/// A refused edit; the file is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditError {
    #[error("no edits were sent; send at least one pair of old and new text")]
    NoEdits,
    #[error(
        "old and new text are the same, so nothing would change; send the text you want in its place as new text"
    )]
    NoChange,
    #[error("the file already reads as the edit would leave it; nothing is left to do")]
    AlreadyApplied,
    #[error(
        "the old text is empty but the file is not; give the lines to replace, or use write_file to replace the whole file"
    )]
    EmptyOld,
    #[error("the new text has the placeholder `{}`, which would be written literally and lose code; send the complete new text", shown(.line))]
    OmissionPlaceholder { line: String },
    #[error("the new text starts lines with the line numbers of read_file (`{}`); send it without line numbers", shown(.line))]
    LineNumbersInNew { line: String },
    #[error(
        "the old text fits the file only with its backslash escapes resolved, and the new text is not escaped in the same way; send both as they stand in the file, without extra backslashes"
    )]
    MixedEscapes,
    #[error(
        "the old text fits the file only without its blank first or last lines, and the new text does not begin and end with the same blank lines; send both without them"
    )]
    BlankLines,
    #[error(
        "the old text ends with a line break and the new text does not (or the reverse), and the old text fits the file only inexactly; end both in the same way"
    )]
    FinalNewline,
    #[error("old text not found{0}")]
    NotFound(Box<MissingTextReport>),
    #[error("the old text fits {places}{likeness}; add neighbouring lines that are in only one of them{}", advice(*.likeness))]
    Ambiguous { places: MatchingLines, likeness: AmbiguityKind },
    #[error("line {line} of the file is not what the edit wants to change:\n  file:     {}\n  old text: {}\nread the file again and copy the line exactly", shown(.actual), shown(.expected))]
    Conflict { line: usize, expected: String, actual: String },
    #[error("the old text fits only inexactly near line {line}, and {reason}; the file reads `{}`: copy the old text exactly from the file", shown(.actual))]
    NeedsExact { line: usize, actual: String, reason: InexactMatchProblem },
    #[error("the old text begins behind the indentation of line {line}, so the new lines might be indented wrongly; the file reads `{}`: begin both texts with the whole indentation of that line", shown(.actual))]
    HalfIndented { line: usize, actual: String },
    #[error("the old text begins with a blank line, but in the file it begins within line {line}, which reads `{}`; begin both texts at the start of a line", shown(.actual))]
    WithinLine { line: usize, actual: String },
    #[error(
        "the old text has {lines} lines and fits only inexactly, which is too much to compare; copy it exactly or split the edit"
    )]
    TooLarge { lines: usize },
    #[error(
        "edits {first} and {second} change the same text near line {line}; join them into one edit"
    )]
    Overlap { first: usize, second: usize, line: usize },
    #[error("the file is binary and cannot be edited as text")]
    Binary,
    #[error("the file begins like UTF-16 but is not valid UTF-16; it cannot be edited as text")]
    BrokenUtf16,
    #[error("the file is not valid UTF-8 (first at line {line}), so `{}` cannot be written there safely; edit only ASCII text in it, or quote the whole line as old text", .text.escape_debug())]
    NotUtf8 { line: usize, text: String },
    #[error("no edit was applied; edit {number} of {count}: {source}")]
    InEdit { number: usize, count: usize, source: Box<Self> },
    #[error("hunk {number} of {count}: {source}")]
    InHunk { number: usize, count: usize, source: Box<Self> },
    #[error(
        "the lines of the hunk fit {places}; add unchanged lines around it that are in only one of them, or name the function or class above it in a line that begins with @@"
    )]
    AmbiguousHunk { places: MatchingLines },
    #[error("the line `{}` after @@ is not in the file; copy it exactly or leave it out", shown(.line))]
    ContextMissing { line: String },
    #[error("the hunk fits only at line {place}, which does not belong to the line `{}` after @@; correct that line or leave it out", shown(.line))]
    OutsideContext { place: usize, line: String },
    #[error(
        "the hunk has only new lines, so its place is unknown; add unchanged lines above or below them, or end the hunk with *** End of File to append them"
    )]
    OnlyNewLines,
}

impl EditError {
    /// Adds the number of the edit if there are several.
    pub(crate) fn in_edit(self, number: usize, count: usize) -> Self {
        if count > 1 { Self::InEdit { number, count, source: Box::new(self) } } else { self }
    }

    /// Adds the number of the hunk if there are several.
    pub(crate) fn in_hunk(self, number: usize, count: usize) -> Self {
        if count > 1 { Self::InHunk { number, count, source: Box::new(self) } } else { self }
    }
}

/// The problem of an inexact match with the change that the edit makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InexactMatchProblem {
    #[error("the edit changes only blanks, quotes or dashes, which differ there from the old text")]
    OnlyTolerated,
    #[error("it is unclear which of several equal parts the edit keeps")]
    Contested,
    #[error("the new text repeats quotes, dashes or blanks that the file writes differently")]
    Rewritten,
    #[error(
        "the indentation for the new lines cannot be told, because the old text is not indented as the file"
    )]
    Indentation,
    #[error("the lines around the new text are not in the file")]
    Neighbours,
    #[error("the new text repeats a line of the old text that is not in the file")]
    Repeated,
}

/// The lines (counted from 1) where an old text fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchingLines {
    pub(crate) lines: Vec<usize>,
    /// True if there may be more than listed.
    pub(crate) more: bool,
}

impl fmt::Display for MatchingLines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<String> =
            self.lines.iter().take(LISTED_LINES).map(ToString::to_string).collect();
        let at_least = if self.more { "at least " } else { "" };
        let open = if self.lines.len() > LISTED_LINES || self.more { ", ..." } else { "" };
        write!(out, "{at_least}{} places (lines {}{open})", self.lines.len(), listed.join(", "))
    }
}

/// The exactness with which the old text fits several places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguityKind {
    Exact,
    Inexact,
    /// Exactly, but within a line, at one of them, and inexactly at the others.
    Mixed,
}

impl fmt::Display for AmbiguityKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Exact => "",
            Self::Inexact => ", none of them exactly",
            Self::Mixed => ", only one of them exactly and that one within a line",
        })
    }
}

fn advice(likeness: AmbiguityKind) -> &'static str {
    match likeness {
        AmbiguityKind::Exact => ", or set replace_all to change every one",
        AmbiguityKind::Inexact | AmbiguityKind::Mixed => ", copied exactly from the file",
    }
}

/// Shortens a line of text for an error.
pub(crate) fn shown(line: &str) -> String {
    let mut shown: String = line.chars().take(SHOWN_CHARS).collect();
    if shown.len() < line.len() {
        shown.push_str("...");
    }
    shown
}
