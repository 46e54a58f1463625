//! Applies edits to the bytes of a file: all matched against the original, all or none.

use std::{fmt::Write as _, ops::Range};

use super::{
    edit_readings::first_number,
    error::{EditError, shown},
    file_text::FileText,
    lines::lines,
    locate::{LocatedEdit, MatchLevel, locate},
    merge::{MatchFit, ReplacementPart, merge},
    placeholders::new_placeholder,
};

/// The number of lines that are shown around an inexact change.
const CONTEXT_LINES: usize = 3;
/// The most lines that are shown for one change.
const MAX_CONTEXT: usize = 20;
/// The most inexact changes that are shown.
const MAX_NOTES: usize = 5;

/// One replacement that the model requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    pub old: String,
    pub new: String,
    pub replace_all: bool,
}

/// The kind of match by which the old text was found, from strict to loose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchType {
    Exact,
    LineTrimmed,
    UnicodeNormalized,
    IndentationFlexible,
    WhitespaceNormalized,
    EscapeNormalized,
    TrimmedBoundary,
    LineNumbersStripped,
    BlockAnchor,
    ContextAware,
    Create,
}

impl MatchType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::LineTrimmed => "line_trimmed",
            Self::UnicodeNormalized => "unicode_normalized",
            Self::IndentationFlexible => "indentation_flexible",
            Self::WhitespaceNormalized => "whitespace_normalized",
            Self::EscapeNormalized => "escape_normalized",
            Self::TrimmedBoundary => "trimmed_boundary",
            Self::LineNumbersStripped => "line_numbers_stripped",
            Self::BlockAnchor => "block_anchor",
            Self::ContextAware => "context_aware",
            Self::Create => "create",
        }
    }
}

/// The edited file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedFile {
    pub content: Vec<u8>,
    /// The loosest match of all edits.
    pub match_type: MatchType,
    pub replacements: usize,
    /// Counted from 1, in the new text.
    pub first_changed_line: usize,
    /// Excerpts that the model should look at again, in file order, at most a few.
    pub notes: Vec<ChangeNote>,
}

/// An excerpt around a change that the model may not expect, so that it can correct its view of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeNote {
    pub cause: NoteCause,
    /// Lines of the new text as `read_file` prints them.
    pub excerpt: String,
}

/// The reason for showing a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteCause {
    /// The old text was found only inexactly.
    Inexact(MatchType),
    /// The old text ended with a line break and the new text does not, so the next line was joined to it.
    JoinedLines,
}

/// A byte range of the file and its replacement.
pub(crate) struct Splice {
    pub(crate) bytes: Range<usize>,
    pub(crate) content: Vec<u8>,
    level: MatchLevel,
    cause: Option<NoteCause>,
    /// The number of its edit, from 1.
    edit: usize,
    /// The line of the match, counted from 1.
    line: usize,
}

/// Applies all edits to a file, or none.
pub fn apply_edits(original: &[u8], edits: &[TextEdit]) -> Result<EditedFile, EditError> {
    let document = FileText::decode(original)?;
    if let [edit] = edits
        && edit.old.is_empty()
        && document.is_empty()
    {
        return create(original, &document, &edit.new);
    }
    // Locate and merge each edit against the original.
    let mut splices = Vec::new();
    for (number, edit) in (1..).zip(edits) {
        let found = splice(&document, edit, number);
        splices.extend(found.map_err(|error| error.in_edit(number, edits.len()))?);
    }
    assemble_edited(original, &document, splices)
}

/// Makes the edited file. Fails if replacements overlap or change nothing.
pub(crate) fn assemble_edited(
    original: &[u8],
    document: &FileText<'_>,
    mut splices: Vec<Splice>,
) -> Result<EditedFile, EditError> {
    // 1) Overlapping edits are refused.
    splices.sort_by_key(|splice| (splice.bytes.start, splice.edit));
    refuse_overlap(&splices)?;
    let loosest = splices.iter().map(|splice| splice.level).max().ok_or(EditError::NoEdits)?;
    // 2) Assemble the new bytes, and report what changed.
    let (content, starts) = assemble(original, &splices);
    if content == original {
        return Err(EditError::AlreadyApplied);
    }
    let edited = FileText::decode(&content)?;
    let first_changed_line = edited.first_difference(document);
    let notes = notes(&edited, &splices, &starts);
    Ok(EditedFile {
        match_type: loosest.match_type(),
        replacements: splices.len(),
        first_changed_line,
        notes,
        content,
    })
}

/// Writes the first text of an empty file.
pub(crate) fn create(
    original: &[u8],
    document: &FileText<'_>,
    new: &str,
) -> Result<EditedFile, EditError> {
    if new.is_empty() {
        return Err(EditError::NoChange);
    }
    let new = if original.is_empty() { new } else { new.strip_prefix('\u{feff}').unwrap_or(new) };
    let mut content = original.to_vec();
    content.extend(document.encode(new, "").map_err(|char| not_utf8(document, &char.to_string()))?);
    Ok(EditedFile {
        content,
        match_type: MatchType::Create,
        replacements: 1,
        first_changed_line: 1,
        notes: Vec::new(),
    })
}

/// Returns the replacements of one edit.
fn splice(
    document: &FileText<'_>,
    edit: &TextEdit,
    number: usize,
) -> Result<Vec<Splice>, EditError> {
    let edit = TextEdit {
        old: document.to_view(&edit.old),
        new: document.to_view(&edit.new),
        ..edit.clone()
    };
    if edit.old == edit.new {
        return Err(EditError::NoChange);
    }
    if edit.old.is_empty() {
        return Err(EditError::EmptyOld);
    }
    refuse_placeholder(document, &edit)?;
    let found = locate(document, &edit)?;
    refuse_line_numbers(document, &edit, &found)?;
    let places = found.ranges.iter();
    places.map(|place| replace(document, &found, place, number)).collect()
}

/// Refuses new text with a line that stands for omitted code.
pub(crate) fn refuse_placeholder(
    document: &FileText<'_>,
    edit: &TextEdit,
) -> Result<(), EditError> {
    match new_placeholder(&edit.old, &edit.new, document.view()) {
        Some(line) => Err(EditError::OmissionPlaceholder { line: line.to_owned() }),
        None => Ok(()),
    }
}

/// Refuses new text that was copied from `read_file` with its line numbers.
pub(crate) fn refuse_line_numbers(
    document: &FileText<'_>,
    edit: &TextEdit,
    found: &LocatedEdit,
) -> Result<(), EditError> {
    let first = found.ranges.first().map(|place| document.line_at(place.start) + 1);
    // Numbers that count from the line of the match were copied from `read_file`.
    let copied = found.fit == MatchFit::Exact
        && lines(&found.new).len() > 1
        && first_number(&found.new) == first;
    if copied && first_number(&edit.old).is_none() {
        let line = lines(&found.new)[0].to_owned();
        return Err(EditError::LineNumbersInNew { line });
    }
    Ok(())
}

/// Returns the replacement of one place of a located edit.
pub(crate) fn replace(
    document: &FileText<'_>,
    found: &LocatedEdit,
    place: &Range<usize>,
    edit: usize,
) -> Result<Splice, EditError> {
    refuse_split_character(document, place)?;
    let known = document.slice(place);
    let mut content = Vec::new();
    for chunk in merge(document, place, found.fit, &found.old, &found.new)? {
        let encoded = match chunk {
            ReplacementPart::Kept(range) => Ok(document.bytes(&range).to_vec()),
            ReplacementPart::Text(text) => document.encode(&text, known),
            ReplacementPart::End(end) => document.encode(end.as_str(), known),
        };
        content.extend(encoded.map_err(|char| not_utf8(document, &char.to_string()))?);
    }
    let line = document.line_at(place.start) + 1;
    let cause = cause(document, found, place);
    Ok(Splice { bytes: document.byte_range(place), content, level: found.level, cause, edit, line })
}

/// Refuses a match that may split a character: in a file of unknown encoding an ASCII byte after another byte may be
/// its second half.
fn refuse_split_character(document: &FileText<'_>, place: &Range<usize>) -> Result<(), EditError> {
    if !document.is_guessed() {
        return Ok(());
    }
    // The characters before the match and at its end must be ASCII; at the end of a line the last one may be another.
    let line = document.line_range(document.line_at(place.start));
    let before = document.slice(&(line.start..place.start)).chars().next_back();
    let inside = document.slice(place).chars().next_back();
    let ends_line = document.line_range(document.line_at(place.end)).end == place.end;
    match (before.filter(|char| !char.is_ascii()), inside.filter(|char| !char.is_ascii())) {
        (None, Some(_)) if ends_line => Ok(()),
        (None, None) => Ok(()),
        _ => Err(not_utf8(document, document.slice(place))),
    }
}

fn not_utf8(document: &FileText<'_>, text: &str) -> EditError {
    EditError::NotUtf8 { line: document.first_foreign_line(), text: shown(text) }
}

fn refuse_overlap(sorted: &[Splice]) -> Result<(), EditError> {
    let overlap = sorted
        .iter()
        .zip(sorted.iter().skip(1))
        .find(|(one, next)| next.bytes.start < one.bytes.end);
    match overlap {
        Some((one, next)) => Err(EditError::Overlap {
            first: one.edit.min(next.edit),
            second: one.edit.max(next.edit),
            line: next.line,
        }),
        None => Ok(()),
    }
}

/// Returns the new bytes, and the offset of each replacement in them. The replacements are sorted and do not overlap.
fn assemble(original: &[u8], splices: &[Splice]) -> (Vec<u8>, Vec<usize>) {
    let mut content = Vec::with_capacity(original.len());
    let mut starts = Vec::with_capacity(splices.len());
    let mut at = 0;
    for splice in splices {
        content.extend_from_slice(&original[at..splice.bytes.start]);
        starts.push(content.len());
        content.extend_from_slice(&splice.content);
        at = splice.bytes.end;
    }
    content.extend_from_slice(&original[at..]);
    (content, starts)
}

/// Returns the reason for which the model should look at a change again, if there is one.
fn cause(document: &FileText<'_>, found: &LocatedEdit, place: &Range<usize>) -> Option<NoteCause> {
    let joined = found.old.ends_with('\n')
        && !found.new.is_empty()
        && !found.new.ends_with('\n')
        && place.end < document.view().len();
    if found.level == MatchLevel::Exact {
        joined.then_some(NoteCause::JoinedLines)
    } else {
        Some(NoteCause::Inexact(found.level.match_type()))
    }
}

fn notes(edited: &FileText<'_>, splices: &[Splice], starts: &[usize]) -> Vec<ChangeNote> {
    let noted = splices.iter().zip(starts).filter_map(|(splice, start)| {
        let excerpt = |cause| ChangeNote {
            cause,
            excerpt: excerpt(edited, *start..start + splice.content.len()),
        };
        splice.cause.map(excerpt)
    });
    noted.take(MAX_NOTES).collect()
}

/// Returns the lines of a byte range and those around it, as `read_file` prints them.
fn excerpt(edited: &FileText<'_>, bytes: Range<usize>) -> String {
    let first = edited.line_at_byte(bytes.start).saturating_sub(CONTEXT_LINES);
    let last = edited.line_at_byte(bytes.end.saturating_sub(1).max(bytes.start)) + CONTEXT_LINES;
    let mut excerpt = String::new();
    for index in (first..=last.min(edited.line_count().saturating_sub(1))).take(MAX_CONTEXT) {
        let _ = writeln!(excerpt, "{}\t{}", index + 1, shown(edited.line_text(index)));
    }
    excerpt
}
