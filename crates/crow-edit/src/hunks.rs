//! Applies the hunks of a patch to the bytes of a file: all matched against the original, all or none.
//!
//! A hunk quotes whole lines. Every place that they fit, up to the tolerated differences, is collected first
//! ([`HunkPlace`]). The hints of the hunk then only choose among these places: the lines after `@@`, the end of the
//! file, and the order of the hunks. What they leave must be one place.
//!
//! Invariant: no hint makes a place fit that the quoted lines do not fit, and several places that no hint tells apart
//! are an error.

use std::{collections::BTreeMap, ops::Range};

use super::{
    apply::{
        EditedFile, Splice, TextEdit, assemble_edited, create, refuse_line_numbers,
        refuse_placeholder, replace,
    },
    error::{EditError, MatchingLines},
    file_text::FileText,
    indent_map::file_unit,
    lines::{Tolerance, has_word, lines},
    locate::{LocatedEdit, MatchLevel, is_shifted, is_whole, line_range, locate},
    merge::MatchFit,
    missing_text::report_missing_text,
    search::find_line_windows,
};

/// One hunk of a patch to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchHunk {
    /// Lines above the hunk that tell its place, such as the heads of a class and of a function in it; the outermost
    /// first.
    pub context: Vec<String>,
    /// The unchanged, removed and added lines in order.
    pub lines: Vec<HunkLine>,
    /// True if the hunk says that it ends with the file.
    pub ends_file: bool,
}

/// One line of a hunk, without its mark and without a line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkLine {
    pub mark: HunkMark,
    pub text: String,
}

/// The meaning of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HunkMark {
    /// Unchanged, marked by a space.
    Kept,
    /// Unchanged, but the mark was forgotten.
    Unmarked,
    Removed,
    Added,
}

/// The meaning of the space before an unchanged line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpaceReading {
    /// It is the mark.
    Mark,
    /// It belongs to the line: the model forgot the marks of unchanged lines.
    Indentation,
}

/// A place where the old lines of a hunk fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HunkPlace {
    /// The first line, counted from 0.
    first: usize,
    level: MatchLevel,
}

/// A line of the file that may be the one after `@@`, and the block that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContextBlock {
    /// The line, counted from 0.
    head: usize,
    /// The first line that is not in the block by its indentation, counted from 0.
    end: usize,
    /// True if a deeper line follows.
    is_block: bool,
}

/// The lines of the file that the innermost line after `@@` may be.
#[derive(Debug, Default)]
struct HunkContext {
    /// All of them.
    all: Vec<ContextBlock>,
    /// Those in a block of a line that the line before may be.
    nested: Vec<ContextBlock>,
}

/// The most places, and lines like the one after `@@`, that are told apart.
const MAX_PLACES: usize = 500;

/// Applies all hunks to a file, or none.
///
/// # Errors
///
/// [`EditError`] says which hunk does not fit and shows the closest place.
pub fn apply_hunks(original: &[u8], hunks: &[PatchHunk]) -> Result<EditedFile, EditError> {
    let document = FileText::decode(original)?;
    let count = hunks.len();
    // Hunks that change nothing are skipped, as long as another one changes something.
    let numbered: Vec<(usize, &PatchHunk)> =
        (1..).zip(hunks).filter(|(_, hunk)| hunk.is_change()).collect();
    if numbered.is_empty() {
        return Err(if hunks.is_empty() { EditError::NoEdits } else { EditError::NoChange });
    }
    if let [(_, hunk)] = numbered.as_slice()
        && document.is_empty()
        && hunk.is_addition()
    {
        let new = document.to_view(&hunk.text(SpaceReading::Mark, HunkMark::is_new));
        return create(original, &document, &new);
    }
    let mut splices = Vec::new();
    // The line after the changes of the last hunk, counted from 0.
    let mut done = 0;
    for (number, hunk) in numbered {
        let (splice, end) = HunkMatcher { document: &document, hunk, done }
            .splice(number)
            .map_err(|error| error.in_hunk(number, count))?;
        splices.push(splice);
        done = end;
    }
    assemble_edited(original, &document, splices)
}

impl HunkMark {
    fn is_old(self) -> bool {
        self != Self::Added
    }

    fn is_new(self) -> bool {
        self != Self::Removed
    }
}

impl HunkLine {
    fn is_change(&self) -> bool {
        matches!(self.mark, HunkMark::Removed | HunkMark::Added)
    }
}

impl PatchHunk {
    /// Returns the lines that pass, each with a line end.
    fn text(&self, reading: SpaceReading, passes: fn(HunkMark) -> bool) -> String {
        let mut text = String::new();
        for line in self.lines.iter().filter(|line| passes(line.mark)) {
            let is_indented = line.mark == HunkMark::Kept && !line.text.trim().is_empty();
            if reading == SpaceReading::Indentation && is_indented {
                text.push(' ');
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    fn is_change(&self) -> bool {
        let text = |passes| self.text(SpaceReading::Mark, passes);
        text(HunkMark::is_old) != text(HunkMark::is_new)
    }

    /// Returns true if all lines are new.
    fn is_addition(&self) -> bool {
        self.lines.iter().all(|line| line.mark == HunkMark::Added)
    }

    /// Returns the number of unchanged lines before the first change, and after the last one.
    fn margins(&self) -> (usize, usize) {
        if self.is_addition() {
            // It was located by the last line of the file.
            return (1, 0);
        }
        let before = self.lines.iter().take_while(|line| !line.is_change()).count();
        let after = self.lines.iter().rev().take_while(|line| !line.is_change()).count();
        (before, after)
    }
}

/// Finds the place of one hunk.
struct HunkMatcher<'a> {
    document: &'a FileText<'a>,
    hunk: &'a PatchHunk,
    /// The line after the changes of the hunk before, counted from 0.
    done: usize,
}

impl HunkMatcher<'_> {
    /// Returns the replacement, and the line after its changes, counted from 0.
    fn splice(&self, number: usize) -> Result<(Splice, usize), EditError> {
        let edit = self.edit(SpaceReading::Mark)?;
        refuse_placeholder(self.document, &edit)?;
        let found = self.locate(&edit)?;
        refuse_line_numbers(self.document, &edit, &found)?;
        let place = found.ranges.first().expect("invariant: a located hunk has one place");
        let mut splice = replace(self.document, &found, place, number)?;
        let (before, after) = self.hunk.margins();
        let first = self.document.line_at(place.start);
        let count = lines(&found.old).len();
        let end = first + count.saturating_sub(after);
        self.trim(&mut splice, first + before, end);
        Ok((splice, end))
    }

    /// Returns the hunk as an edit with the line ends of the view.
    fn edit(&self, reading: SpaceReading) -> Result<TextEdit, EditError> {
        let text = |passes| self.document.to_view(&self.hunk.text(reading, passes));
        let (old, new) = (text(HunkMark::is_old), text(HunkMark::is_new));
        if old == new {
            return Err(EditError::NoChange);
        }
        if !old.is_empty() {
            return Ok(TextEdit { old, new, replace_all: false });
        }
        // Only new lines: they follow the last line, if the hunk says so.
        let last = self.document.line_count().checked_sub(1).filter(|_| self.hunk.ends_file);
        let last = last.map(|last| format!("{}\n", self.document.line_text(last)));
        let old = last.ok_or(EditError::OnlyNewLines)?;
        let new = format!("{old}{new}");
        Ok(TextEdit { old, new, replace_all: false })
    }

    fn locate(&self, edit: &TextEdit) -> Result<LocatedEdit, EditError> {
        let context = self.context()?;
        if self.hunk.is_addition() {
            let first = self.document.line_count().saturating_sub(1);
            return Ok(self.located(edit.clone(), HunkPlace { first, level: MatchLevel::Exact }));
        }
        let places = self.places(&edit.old);
        // The marks of the unchanged lines may have been forgotten: then these lines fit exactly with their spaces.
        if places.iter().all(|place| place.level != MatchLevel::Exact) {
            let literal = self.edit(SpaceReading::Indentation)?;
            let mut exact = self.places(&literal.old);
            exact.retain(|place| place.level == MatchLevel::Exact);
            // A place that only the first reading fits is a rival.
            let is_rivalled =
                places.iter().any(|place| exact.iter().all(|exact| exact.first != place.first));
            if literal != *edit && !exact.is_empty() && !is_rivalled {
                let place = self.choose(&exact, &context, &literal.old)?;
                return Ok(self.located(literal, place));
            }
        }
        if places.is_empty() {
            return self.locate_as_edit(edit, &context);
        }
        let place = self.choose(&places, &context, &edit.old)?;
        Ok(self.located(edit.clone(), place))
    }

    /// Returns every place where the old lines fit, with the strictest level on which they do, in order.
    fn places(&self, old: &str) -> Vec<HunkPlace> {
        let wanted = lines(old);
        let tolerances: &[Tolerance] = if has_word(old) {
            &[
                Tolerance::TrailingBlanks,
                Tolerance::Punctuation,
                Tolerance::Indentation,
                Tolerance::InnerBlanks,
            ]
        } else {
            // Blank lines and brackets are everywhere: their indentation counts.
            &[Tolerance::TrailingBlanks, Tolerance::Punctuation]
        };
        let mut levels: BTreeMap<usize, MatchLevel> = BTreeMap::new();
        for tolerance in tolerances {
            for first in find_line_windows(self.document, &wanted, *tolerance) {
                levels.entry(first).or_insert_with(|| self.level(*tolerance, first, &wanted, old));
            }
        }
        levels.into_iter().map(|(first, level)| HunkPlace { first, level }).collect()
    }

    fn level(&self, tolerance: Tolerance, first: usize, wanted: &[&str], old: &str) -> MatchLevel {
        match tolerance {
            Tolerance::TrailingBlanks if self.is_equal(first, wanted) => MatchLevel::Exact,
            Tolerance::TrailingBlanks => MatchLevel::TrailingBlanks,
            Tolerance::Punctuation => MatchLevel::Punctuation,
            Tolerance::Indentation => {
                let range = line_range(self.document, first, wanted.len(), old);
                let is_shift = is_shifted(self.document.slice(&range), old);
                if is_shift { MatchLevel::IndentShift } else { MatchLevel::Trimmed }
            }
            Tolerance::InnerBlanks => MatchLevel::InnerBlanks,
        }
    }

    fn is_equal(&self, first: usize, wanted: &[&str]) -> bool {
        (first..).zip(wanted).all(|(index, line)| self.document.line_text(index) == *line)
    }

    /// Chooses the one place that is meant. There is at least one.
    fn choose(
        &self,
        places: &[HunkPlace],
        context: &HunkContext,
        old: &str,
    ) -> Result<HunkPlace, EditError> {
        let count = lines(old).len();
        // 1) A single place must not contradict the lines after @@.
        if let [place] = places {
            self.refuse_outside(context, place.first, count)?;
            return Ok(*place);
        }
        let mut rest: Vec<HunkPlace> = places.iter().take(MAX_PLACES).copied().collect();
        // 2) Of several, those that belong to the lines after @@ remain.
        if !self.hunk.context.is_empty() {
            rest.retain(|place| self.is_in(&context.nested, place.first, count));
        }
        // 3) Exact places go before others, which are rivals only among themselves.
        if rest.iter().any(|place| place.level == MatchLevel::Exact) {
            rest.retain(|place| place.level == MatchLevel::Exact);
        }
        // 4) Then the end of the file and the order of the hunks tell them apart.
        if rest.len() > 1 && self.hunk.ends_file {
            rest.retain(|place| place.first + count == self.document.line_count());
        }
        if rest.len() > 1 {
            rest.retain(|place| place.first >= self.done);
        }
        match rest.as_slice() {
            [place] if places.len() <= MAX_PLACES => Ok(*place),
            _ => {
                let lines = places.iter().map(|place| place.first + 1).collect();
                Err(EditError::AmbiguousHunk { places: MatchingLines { lines, more: false } })
            }
        }
    }

    /// Locates the hunk like an edit: the model may have copied line numbers, escaped too much or misquoted inner lines.
    fn locate_as_edit(
        &self,
        edit: &TextEdit,
        context: &HunkContext,
    ) -> Result<LocatedEdit, EditError> {
        let found = match locate(self.document, edit) {
            Ok(found) => found,
            Err(EditError::Ambiguous { places, .. }) => {
                return Err(EditError::AmbiguousHunk { places });
            }
            Err(error) => return Err(error),
        };
        match found.ranges.first() {
            Some(place) if is_whole(self.document, place) => {
                let first = self.document.line_at(place.start);
                self.refuse_outside(context, first, lines(&found.old).len())?;
                Ok(found)
            }
            // A part of a line is not what a hunk quotes.
            Some(_) | None => {
                Err(EditError::NotFound(Box::new(report_missing_text(self.document, edit))))
            }
        }
    }

    fn located(&self, edit: TextEdit, place: HunkPlace) -> LocatedEdit {
        let range = line_range(self.document, place.first, lines(&edit.old).len(), &edit.old);
        let is_exact = place.level == MatchLevel::Exact;
        // A last line without an end stays without one.
        let is_open = is_exact && !self.document.slice(&range).ends_with('\n');
        let trimmed = |text: String| match text.strip_suffix('\n') {
            Some(bare) if is_open => bare.to_owned(),
            Some(_) | None => text,
        };
        let fit =
            if is_exact { MatchFit::Exact } else { MatchFit::Loose(file_unit(self.document)) };
        LocatedEdit {
            level: place.level,
            fit,
            ranges: std::iter::once(range).collect(),
            old: trimmed(edit.old),
            new: trimmed(edit.new),
        }
    }

    /// Finds the lines after `@@`. Fails if one of them is not in the file.
    fn context(&self) -> Result<HunkContext, EditError> {
        let mut context = HunkContext::default();
        for (depth, line) in self.hunk.context.iter().enumerate() {
            let mut all = self.lines_like(line);
            if all.is_empty() {
                return Err(EditError::ContextMissing { line: line.clone() });
            }
            all.truncate(MAX_PLACES);
            let all: Vec<ContextBlock> = all.into_iter().map(|head| self.block(head)).collect();
            let is_nested =
                |block: &ContextBlock| depth == 0 || self.is_in(&context.nested, block.head, 1);
            let nested = all.iter().copied().filter(is_nested).collect();
            context = HunkContext { all, nested };
        }
        Ok(context)
    }

    /// Returns the block that a line opens, by the indentation of the lines below it.
    fn block(&self, head: usize) -> ContextBlock {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let own = indent(self.document.line_text(head));
        let mut is_block = false;
        for index in head + 1..self.document.line_count() {
            let line = self.document.line_text(index);
            if line.trim().is_empty() {
                continue;
            }
            if indent(line) > own {
                is_block = true;
            } else if !continues_head(line.trim()) {
                return ContextBlock { head, end: index, is_block };
            }
        }
        ContextBlock { head, end: self.document.line_count(), is_block }
    }

    /// Returns the lines of the file that equal a line after `@@`; if there is none, those that begin with it.
    fn lines_like(&self, wanted: &str) -> Vec<usize> {
        let wanted = Tolerance::InnerBlanks.key(wanted);
        let texts =
            || self.document.line_texts().map(|line| Tolerance::InnerBlanks.key(line)).enumerate();
        let equal: Vec<usize> =
            texts().filter(|(_, line)| *line == wanted).map(|(index, _)| index).collect();
        if !equal.is_empty() || wanted.is_empty() {
            return equal;
        }
        let begins = |line: &str| {
            line.strip_prefix(wanted.as_ref()).is_some_and(|rest| {
                let joins = |char: char| char.is_alphanumeric() || char == '_';
                !(rest.starts_with(joins) && wanted.ends_with(joins))
            })
        };
        texts().filter(|(_, line)| begins(line)).map(|(index, _)| index).collect()
    }

    /// Refuses a place that is neither in a block of a line after `@@` nor, where that line opens none, below it.
    fn refuse_outside(
        &self,
        context: &HunkContext,
        first: usize,
        count: usize,
    ) -> Result<(), EditError> {
        let Some(line) = self.hunk.context.last() else { return Ok(()) };
        let is_below = |block: &ContextBlock| !block.is_block && block.head < first + count;
        if self.is_in(&context.all, first, count) || context.all.iter().any(is_below) {
            Ok(())
        } else {
            Err(EditError::OutsideContext { place: first + 1, line: line.clone() })
        }
    }

    /// Returns true if lines of the file begin in one of the blocks, or contain its head.
    fn is_in(&self, blocks: &[ContextBlock], first: usize, count: usize) -> bool {
        blocks.iter().any(|block| {
            let holds_head = (first..first + count).contains(&block.head);
            let is_inside = (block.head + 1..block.end).contains(&first);
            let is_next = first == block.head + 1;
            // The line that closes the block belongs to it.
            let is_end = first == block.end && closes_block(self.document.line_text(first).trim());
            holds_head || is_inside || is_next || is_end
        })
    }

    /// Leaves out of a replacement the unchanged lines at its ends, so that hunks may share them. `start` and `end` are
    /// the lines of the file around the changes.
    fn trim(&self, splice: &mut Splice, start: usize, end: usize) {
        let document = self.document;
        let byte = |line: usize| {
            let offset = document.line_range(line).start;
            document.byte_range(&(offset..offset)).start
        };
        let trimmed = byte(start)..byte(end).max(byte(start));
        let Range { start: from, end: to } = splice.bytes.clone();
        if trimmed.start < from || to < trimmed.end {
            return;
        }
        let before = document.raw(&(from..trimmed.start));
        let after = document.raw(&(trimmed.end..to));
        let inner = splice
            .content
            .strip_prefix(before)
            .and_then(|content| content.strip_suffix(after))
            .map(<[u8]>::to_vec);
        if let Some(inner) = inner {
            (splice.bytes, splice.content) = (trimmed, inner);
        }
    }
}

/// Returns true if a line that is not indented deeper than a head may still be part of that head or of its block.
fn continues_head(line: &str) -> bool {
    let is_label = ["public:", "protected:", "private:"].contains(&line);
    let is_bound = line == "where" || line.starts_with("where ");
    is_label || is_bound || line.starts_with(['{', ')', ']', '#'])
}

fn closes_block(line: &str) -> bool {
    line.starts_with('}') || line == "end" || line == "fi" || line == "done"
}
