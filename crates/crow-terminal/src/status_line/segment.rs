//! Segments of a template: the parts between two separators.

use crow_text::neutralise;

use super::{facts::StatusFacts, parser::TemplatePart};
use crate::styled_text::{StyledLine, TextRole};

/// The parts between two separators, which are shown together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TemplateSegment {
    /// The separator before it.
    pub(super) separator: String,
    parts: Vec<TemplatePart>,
}

impl TemplateSegment {
    /// Returns the segment with its values; `None` if a field is empty.
    pub(super) fn render(&self, facts: &StatusFacts) -> Option<StyledLine> {
        let mut line = StyledLine::default();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => line.push(text, TextRole::Dim),
                TemplatePart::Field { field, role } => {
                    let value = field.value(facts)?;
                    line.push(&value.text, value.alert.unwrap_or(*role));
                }
            }
        }
        Some(line)
    }

    /// Returns the rank of its most important field. Segments of text alone come last.
    pub(super) fn rank(&self) -> usize {
        let ranks = self.parts.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Field { field, .. } => Some(field.rank()),
        });
        ranks.min().unwrap_or(usize::MAX)
    }
}

/// Splits the parts of a template at its separators. Blanks at both ends of the template are dropped.
pub(super) fn segments(parts: Vec<TemplatePart>) -> Vec<TemplateSegment> {
    let mut segments = Vec::new();
    let mut segment = TemplateSegment::default();
    let last = parts.len().saturating_sub(1);
    for (index, part) in parts.into_iter().enumerate() {
        let TemplatePart::Text(text) = part else {
            segment.parts.push(part);
            continue;
        };
        let is_between_fields = index > 0 && index < last;
        if is_between_fields && text.trim().is_empty() {
            let next = TemplateSegment { separator: harmless(&text), ..TemplateSegment::default() };
            segments.push(std::mem::replace(&mut segment, next));
            continue;
        }
        let text = if index == 0 { text.trim_start() } else { &text };
        let text = if index == last { text.trim_end() } else { text };
        for (kind, piece) in pieces(text) {
            match kind {
                PieceKind::Text => segment.parts.push(TemplatePart::Text(harmless(&piece))),
                PieceKind::Separator => {
                    let next = TemplateSegment {
                        separator: harmless(&piece),
                        ..TemplateSegment::default()
                    };
                    segments.push(std::mem::replace(&mut segment, next));
                }
            }
        }
    }
    segments.push(segment);
    segments.retain(|segment| !segment.parts.is_empty());
    segments
}

/// Returns a text without line breaks, tabs and control characters.
fn harmless(text: &str) -> String {
    let line: String =
        text.chars().map(|char| if char.is_whitespace() { ' ' } else { char }).collect();
    neutralise(&line)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Text,
    Separator,
}

/// Returns the separators of a text and what is between them.
fn pieces(text: &str) -> Vec<(PieceKind, String)> {
    let words = words(text);
    let is_blank = |index: Option<usize>| {
        index.and_then(|index| words.get(index)).is_some_and(|word| word.trim().is_empty())
    };
    let is_mark = |index: Option<usize>| {
        let Some(index) = index else { return false };
        let Some(word) = words.get(index) else { return false };
        word.chars().all(is_separator)
            || (word.chars().all(|char| "/-–—".contains(char))
                && is_blank(index.checked_sub(1))
                && is_blank(Some(index + 1)))
    };
    let mut pieces: Vec<(PieceKind, String)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let around = [index.checked_sub(1), Some(index + 1)];
        let is_separator =
            is_mark(Some(index)) || (is_blank(Some(index)) && around.into_iter().any(is_mark));
        let kind = if is_separator { PieceKind::Separator } else { PieceKind::Text };
        match pieces.last_mut() {
            Some((last, piece)) if *last == kind => piece.push_str(word),
            Some(_) | None => pieces.push((kind, (*word).to_owned())),
        }
    }
    pieces
}

/// Returns true for a character that separates wherever it is.
fn is_separator(character: char) -> bool {
    matches!(character, '·' | '•' | '|' | '│')
}

/// Splits a text into blanks, separators and words.
fn words(text: &str) -> Vec<&str> {
    let kind = |character: char| (character.is_whitespace(), is_separator(character));
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, character) in text.char_indices() {
        if before.is_some_and(|before| before != kind(character)) {
            words.push(&text[start..at]);
            start = at;
        }
        before = Some(kind(character));
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}
