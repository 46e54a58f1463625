//! Replaces matched text by a three-way merge: base is the old text, one side the file, the other the new text.
//!
//! The model quotes the file inexactly, so its new text repeats its misquotations: writing the new text as it is
//! would change lines that the model does not want to change. Therefore old and new text are aligned line by line. A
//! line that both share is kept: the bytes of the file are copied. A line that only the new text has is written, and
//! each of its three parts is converted to the file's spelling separately:
//!
//! - the indentation by [`IndentMap`], which learned from the matched lines how the file writes the model's
//!   indentation;
//! - the body by the old line with the same body, anywhere in the match, otherwise by a merge of tokens
//!   ([`merge_bodies`]), so that quotes, dashes and blanks of the file stay;
//! - the trailing blanks from the replaced line.
//!
//! Invariant: a line that old and new text share keeps the bytes of the file, and a line that the edit changes equals
//! the old text up to tolerated differences. A loose match can thus never overwrite text that the model has not seen.
//! Where one of the three parts has no single answer, the edit is refused.

use std::ops::Range;

use super::{
    align::{Alignment, AlignmentStep, align, align_plain},
    error::{EditError, InexactMatchProblem},
    file_text::{FileText, LineEnding},
    indent_map::{IndentMap, IndentUnit},
    lines::{LineParts, TextEdge, Tolerance, rows},
    token_merge::merge_bodies,
};

/// The closeness of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchFit {
    /// Character by character.
    Exact,
    /// Line by line, up to tolerated differences; with the file's indentation step, if known.
    Loose(Option<IndentUnit>),
}

/// A part of the replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplacementPart {
    /// A range of the view, to be copied byte for byte.
    Kept(Range<usize>),
    Text(String),
    End(LineEnding),
}

/// Returns the parts that replace `place`, a range of the view in which `old` was found, by `new`.
pub(crate) fn merge(
    document: &FileText<'_>,
    place: &Range<usize>,
    fit: MatchFit,
    old: &str,
    new: &str,
) -> Result<Vec<ReplacementPart>, EditError> {
    if fit == MatchFit::Exact
        && !document.is_lossy()
        && let Some(end) = document.uniform_line_end()
    {
        // Nothing was tolerated and all line ends are equal: the new text is written as it is.
        return Ok(plain(new, end));
    }
    // The match ends with the file, which has no final newline: neither text has one then.
    let loose_end = !document.slice(place).ends_with('\n') && old.ends_with('\n');
    let trimmed = |text| if loose_end { without_final_newline(text) } else { text };
    let merge = LineMerge::new(document, place, fit, trimmed(old), trimmed(new));
    merge.run()
}

fn without_final_newline(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

fn plain(text: &str, end: LineEnding) -> Vec<ReplacementPart> {
    let mut chunks = Vec::new();
    for row in rows(text, TextEdge::Inside, TextEdge::Inside) {
        push_row(&mut chunks, &row, end);
    }
    chunks
}

fn push_row(chunks: &mut Vec<ReplacementPart>, row: &LineParts<'_>, end: LineEnding) {
    chunks.push(ReplacementPart::Text([row.indent, row.body, row.tail].concat()));
    if row.terminated {
        chunks.push(ReplacementPart::End(end));
    }
}

/// One matched line of the file.
struct MatchedLine<'a> {
    range: Range<usize>,
    text: &'a str,
    row: LineParts<'a>,
}

/// The result of the merge so far.
#[derive(Default)]
struct MergedLines {
    chunks: Vec<ReplacementPart>,
    /// One for each new line.
    indents: Vec<NewLineIndent>,
}

struct NewLineIndent {
    indent: String,
    is_changed: bool,
}

struct LineMerge<'a> {
    document: &'a FileText<'a>,
    fit: MatchFit,
    /// The line of the file (from 0) where the match begins.
    first_line: usize,
    old: Vec<LineParts<'a>>,
    file: Vec<MatchedLine<'a>>,
    new: Vec<LineParts<'a>>,
    indents: IndentMap,
}

impl<'a> LineMerge<'a> {
    fn new(
        document: &'a FileText<'a>,
        place: &Range<usize>,
        fit: MatchFit,
        old: &'a str,
        new: &'a str,
    ) -> Self {
        // 1) Split the three texts into lines. A match that begins or ends within a line has no indentation or
        // trailing blanks there: the text before and after it stays in the file.
        let first_line = document.line_at(place.start);
        let start = if document.line_range(first_line).start == place.start {
            TextEdge::Line
        } else {
            TextEdge::Inside
        };
        let last_line = document.line_range(document.line_at(place.end));
        let end = if last_line.end == place.end { TextEdge::Line } else { TextEdge::Inside };
        let (old, new) = (rows(old, start, end), rows(new, start, end));
        let file = matched_lines(document, place, start, end, old.len());
        assert_eq!(old.len(), file.len(), "invariant: a match has as many lines as the old text");
        // 2) Learn the indentation from the pairs of matched lines. The first line is no evidence if it begins after
        // its indentation, and blank lines never are.
        let pairs = || old.iter().zip(&file).map(|(row, line)| (row, &line.row));
        let bare =
            pairs().next().filter(|(row, line)| row.indent.is_empty() && !line.indent.is_empty());
        let proven = pairs().skip(usize::from(bare.is_some())).filter(|(row, _)| !row.is_blank());
        let indents = IndentMap::learn(
            bare.map(|(_, line)| line.indent),
            proven.map(|(row, line)| (row.indent, line.indent)),
            old.iter().chain(&new).filter(|row| !row.is_blank()).map(|row| row.indent),
            if let MatchFit::Loose(unit) = fit { unit } else { None },
        );
        Self { document, fit, first_line, old, file, new, indents }
    }

    fn run(&self) -> Result<Vec<ReplacementPart>, EditError> {
        // 1) Pair the lines that old and new text share. 2) Copy those, and write the others.
        let aligned = self.align()?;
        let mut merged = MergedLines::default();
        for step in aligned.steps(self.old.len(), self.new.len()) {
            match step {
                AlignmentStep::Keep { old, new } => self.keep(&mut merged, old, new),
                AlignmentStep::Change { old, new } => self.change(&mut merged, &old, &new)?,
            }
        }
        // 3) Check the result as a whole: a mapped indentation may be wrong although each line had an answer.
        if self.fit != MatchFit::Exact && !self.indents.is_identity() {
            self.refuse_unopened(&merged)?;
        }
        Ok(merged.chunks)
    }

    /// Refuses a new line that opens a block whose next line is not deeper: the model dropped the indentation.
    fn refuse_unopened(&self, merged: &MergedLines) -> Result<(), EditError> {
        let filled = || merged.indents.iter().zip(&self.new).filter(|(_, row)| !row.is_blank());
        let unopened = filled().zip(filled().skip(1)).any(|((placed, row), (next, next_row))| {
            placed.is_changed && row.opens(next_row) && next.indent.len() <= placed.indent.len()
        });
        if unopened { Err(self.needs_exact(0, InexactMatchProblem::Indentation)) } else { Ok(()) }
    }

    /// Pairs the lines that old and new text share, compared as the model wrote them.
    fn align(&self) -> Result<Alignment, EditError> {
        let texts = |rows: &[LineParts<'_>]| {
            rows.iter().map(|row| [row.indent, row.body, row.tail].concat()).collect::<Vec<_>>()
        };
        let (old, new) = (texts(&self.old), texts(&self.new));
        if self.fit == MatchFit::Exact {
            // Equal lines have equal bytes, so it does not matter which of them is paired.
            return Ok(align_plain(&old, &new));
        }
        let aligned = align(&old, &new).ok_or(EditError::TooLarge { lines: old.len() })?;
        // A line that could be paired differently must have the same text in the file as in the old text: otherwise
        // the choice of the pair would decide which spelling of the file survives.
        match aligned.contested.iter().find(|index| self.differs_in_file(**index)) {
            Some(index) => Err(self.needs_exact(*index, InexactMatchProblem::Contested)),
            None => Ok(aligned),
        }
    }

    /// Returns true if the file's line differs from the old line by more than the mapped indentation.
    fn differs_in_file(&self, index: usize) -> bool {
        let (old, line) = (&self.old[index], &self.file[index]);
        if old.is_blank() {
            return !line.row.is_blank();
        }
        old.body != line.row.body
            || self.indents.to_file(old.indent).as_deref() != Some(line.row.indent)
    }

    /// Returns true if the file's line differs from the old one by more than the tolerance.
    fn exceeds_tolerance(&self, index: usize) -> bool {
        let (old, line) = (&self.old[index], &self.file[index]);
        old.terminated != line.row.terminated
            || !Tolerance::InnerBlanks.accepts(old.body, line.row.body)
    }

    /// Copies a line of the file that old and new text share.
    fn keep(&self, merged: &mut MergedLines, old: usize, new: usize) {
        let line = &self.file[old];
        merged
            .indents
            .push(NewLineIndent { indent: line.row.indent.to_owned(), is_changed: false });
        let chunks = &mut merged.chunks;
        // The line end is not part of the copy: only the new text determines whether there is one.
        chunks.push(ReplacementPart::Kept(line.range.clone()));
        if self.new[new].terminated {
            chunks.push(ReplacementPart::End(self.document.line_end(self.first_line + old)));
        }
    }

    /// Writes new lines in place of old ones; either range may be empty.
    fn change(
        &self,
        merged: &mut MergedLines,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<(), EditError> {
        // 1) Removed lines must be what the model has seen, and the change must be more than a misquotation.
        if self.fit != MatchFit::Exact {
            self.refuse_conflict(old)?;
            self.refuse_tolerated_only(old, new)?;
            self.refuse_lone_insertion(old)?;
        }
        // 2) Each new line gets body, indentation and trailing blanks in the file's spelling.
        let bodies = self.bodies(old, new)?;
        for (index, body) in new.clone().zip(bodies) {
            let row = &self.new[index];
            // The old line at the same offset of the change, or its last one: gives the line end and trailing blanks.
            let beside = (old.start + index - new.start).min(old.end.saturating_sub(1));
            let indent = self.indent(row, index, old, new)?;
            let tail = self.tail(row, beside, old, new);
            let row = LineParts { indent: &indent, body: &body, tail, terminated: row.terminated };
            push_row(&mut merged.chunks, &row, self.document.line_end(self.first_line + beside));
            merged.indents.push(NewLineIndent { indent, is_changed: true });
        }
        Ok(())
    }

    /// Refuses to remove a line that the model has not seen in this form.
    fn refuse_conflict(&self, old: &Range<usize>) -> Result<(), EditError> {
        match old.clone().find(|index| self.exceeds_tolerance(*index)) {
            Some(index) => Err(EditError::Conflict {
                line: self.first_line + index + 1,
                expected: self
                    .old
                    .get(index)
                    .map_or_else(String::new, |row| [row.indent, row.body, row.tail].concat()),
                actual: self.file_text(index),
            }),
            None => Ok(()),
        }
    }

    /// Refuses a change of only tolerated differences: they cannot be the subject of the edit and ignored at once.
    fn refuse_tolerated_only(
        &self,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<(), EditError> {
        let (olds, news) = (&self.old[old.clone()], &self.new[new.clone()]);
        // Old and new lines are equal up to tolerated differences ...
        let same = olds.len() == news.len()
            && olds
                .iter()
                .zip(news)
                .all(|(one, other)| Tolerance::InnerBlanks.accepts(one.body, other.body));
        // ... and the file spells one of the old lines differently: then the wanted spelling is unknown.
        let differs = |index: &usize| {
            let (old, line) = (&self.old[*index], &self.file[*index]);
            (old.indent, old.body) != (line.row.indent, line.row.body)
        };
        match old.clone().find(differs) {
            Some(index) if same => Err(self.needs_exact(index, InexactMatchProblem::OnlyTolerated)),
            _ => Ok(()),
        }
    }

    /// Refuses to insert lines between two lines that both differ from what the model believes.
    fn refuse_lone_insertion(&self, old: &Range<usize>) -> Result<(), EditError> {
        // One neighbour that matches is enough as an anchor.
        let seen = |index: usize| index < self.old.len() && !self.exceeds_tolerance(index);
        let anchored = old.start.checked_sub(1).is_some_and(seen) || seen(old.start);
        if old.is_empty() && !anchored {
            Err(self.needs_exact(old.start, InexactMatchProblem::Neighbours))
        } else {
            Ok(())
        }
    }

    /// Returns the bodies of the new lines, in the file's spelling wherever the old text had the same.
    fn bodies(&self, old: &Range<usize>, new: &Range<usize>) -> Result<Vec<String>, EditError> {
        let news = &self.new[new.clone()];
        if self.old.iter().zip(&self.file).all(|(row, line)| row.body == line.row.body) {
            // The model quotes every body exactly, so its new bodies need no conversion.
            return Ok(news.iter().map(|row| row.body.to_owned()).collect());
        }
        // 1) A new line that repeats an old one, anywhere in the match, takes its spelling from the file.
        let mut used = Vec::new();
        let mut bodies = Vec::with_capacity(news.len());
        for row in news {
            let moved = self.repeated_line(row, &used)?;
            used.extend(moved);
            bodies.push(moved.map(|index| self.file[index].row.body.to_owned()));
        }
        // 2) The other new lines are merged token by token with the remaining old lines of the change.
        let rest: Vec<usize> = old.clone().filter(|index| !used.contains(index)).collect();
        let mut merged = self.merge_rest(&rest, news, &bodies)?.into_iter();
        let mut next = || merged.next().expect("invariant: each line left open is merged");
        Ok(bodies.into_iter().map(|body| body.unwrap_or_else(&mut next)).collect())
    }

    /// Returns the old line that a new one repeats: an unused one, otherwise the first.
    fn repeated_line(
        &self,
        row: &LineParts<'_>,
        used: &[usize],
    ) -> Result<Option<usize>, EditError> {
        if row.is_blank() {
            return Ok(None);
        }
        let same: Vec<usize> =
            (0..self.old.len()).filter(|index| self.old[*index].body == row.body).collect();
        if let Some(index) = same.iter().find(|index| self.exceeds_tolerance(**index)) {
            return Err(self.needs_exact(*index, InexactMatchProblem::Repeated));
        }
        // Several such lines count as one if the file spells them equally.
        let mut writings = same.iter().map(|index| self.file[*index].row.body);
        let first = writings.next();
        match (first, same.first()) {
            (Some(first), Some(index)) if writings.any(|other| other != first) => {
                Err(self.needs_exact(*index, InexactMatchProblem::Contested))
            }
            _ => Ok(same.iter().find(|index| !used.contains(index)).or(same.first()).copied()),
        }
    }

    /// Merges the changed lines that repeat no old line, token by token.
    fn merge_rest(
        &self,
        old: &[usize],
        news: &[LineParts<'_>],
        bodies: &[Option<String>],
    ) -> Result<Vec<String>, EditError> {
        let olds: Vec<&str> = old.iter().map(|index| self.old[*index].body).collect();
        let files: Vec<&str> = old.iter().map(|index| self.file[*index].row.body).collect();
        let open = news.iter().zip(bodies).filter(|(_, body)| body.is_none());
        let open: Vec<&str> = open.map(|(row, _)| row.body).collect();
        // The file's spelling equals the old text, so nothing of it can get lost.
        if olds == files {
            return Ok(open.into_iter().map(str::to_owned).collect());
        }
        // Without old lines both lists were empty, and so equal.
        merge_bodies(&olds, &files, &open).map_err(|reason| self.needs_exact(old[0], reason))
    }

    /// Returns the indentation in the file for a new line.
    fn indent(
        &self,
        row: &LineParts<'_>,
        index: usize,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<String, EditError> {
        if row.is_blank() {
            return Ok(String::new());
        }
        // After a first line quoted without its indentation, unindented lines may mean anything.
        let follows_first = index > 0 && old.start <= 1 && self.indents.is_flattened(row.indent);
        // One line for one line: an edited line keeps its indentation.
        let replaced = (old.len() == 1 && new.len() == 1)
            .then(|| self.replaced_indent(row, old.start))
            .flatten();
        let mapped = || if follows_first { None } else { self.file_indent(row, index) };
        let indent = replaced.map(str::to_owned).or_else(mapped);
        indent.ok_or_else(|| self.needs_exact(old.start, InexactMatchProblem::Indentation))
    }

    /// Returns the indentation in the file for a line of old or new text.
    fn file_indent(&self, row: &LineParts<'_>, index: usize) -> Option<String> {
        if index == 0 {
            self.indents.first_to_file(row.indent)
        } else {
            self.indents.to_file(row.indent)
        }
    }

    /// Returns the file's indentation of the one replaced line, if both begin alike.
    fn replaced_indent(&self, row: &LineParts<'_>, index: usize) -> Option<&'a str> {
        let old = &self.old[index];
        let first =
            |body: &'a str| body.split(|char: char| !char.is_alphanumeric() && char != '_').next();
        // The same first word (`let`, `return`, a name) indicates the same statement.
        let word = first(old.body).filter(|word| !word.is_empty())?;
        let alike = row.indent == old.indent
            && row.body.strip_prefix(word).is_some_and(|rest| {
                !rest.starts_with(|char: char| char.is_alphanumeric() || char == '_')
            });
        alike.then(|| self.file[index].row.indent)
    }

    /// Returns the trailing blanks: the file's where lines are replaced one by one and the edit leaves them
    /// unchanged.
    fn tail<'b>(
        &'b self,
        row: &LineParts<'b>,
        beside: usize,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> &'b str {
        if row.is_blank() {
            return if self.indents.is_identity() { row.tail } else { "" };
        }
        match (self.old.get(beside), self.file.get(beside)) {
            (Some(before), Some(line)) if old.len() == new.len() && before.tail == row.tail => {
                line.row.tail
            }
            _ => row.tail,
        }
    }

    /// Returns a matched line of the file, for errors.
    fn file_text(&self, index: usize) -> String {
        self.file.get(index).map_or_else(String::new, |line| line.text.to_owned())
    }

    fn needs_exact(&self, index: usize, reason: InexactMatchProblem) -> EditError {
        let index = index.min(self.file.len().saturating_sub(1));
        EditError::NeedsExact {
            line: self.first_line + index + 1,
            actual: self.file_text(index),
            reason,
        }
    }
}

/// Splits the matched range of the view into its lines; `count` are matched.
fn matched_lines<'a>(
    document: &'a FileText<'a>,
    place: &Range<usize>,
    start: TextEdge,
    end: TextEdge,
    count: usize,
) -> Vec<MatchedLine<'a>> {
    let text = document.slice(place);
    let mut at = place.start;
    let pieces = text.split_inclusive('\n').zip(rows(text, start, end));
    let mut lines: Vec<MatchedLine<'a>> = pieces
        .map(|(piece, row)| {
            let text = without_final_newline(piece);
            let range = at..at + text.len();
            at += piece.len();
            MatchedLine { range, text, row }
        })
        .collect();
    // An old text may end with blanks for an empty line of the file: that line has no characters in the match.
    if lines.len() + 1 == count && (text.is_empty() || text.ends_with('\n')) {
        let row = LineParts { indent: "", body: "", tail: "", terminated: false };
        lines.push(MatchedLine { range: place.end..place.end, text: "", row });
    }
    lines
}
