//! Puts new text in the place of matched text as a three-way merge: base is the old text, one side the
//! file, the other the new text.
//!
//! Invariant: a line that old and new text share keeps the bytes of the file, and a line that the edit
//! changes equals the old text up to tolerated differences. A loose match can thus never overwrite text
//! that the model has not seen.

use std::ops::Range;

use super::{
    align::{Alignment, Step, align, align_plain},
    error::{EditError, Reason},
    indent::{IndentMap, Unit},
    lines::{Edge, Row, Tolerance, rows},
    text::{Document, LineEnd},
    tokens::merge_bodies,
};

/// How closely the old text fits the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Character by character.
    Exact,
    /// Line by line, up to tolerated differences; with the step of indentation that the file has.
    Loose(Option<Unit>),
}

/// A part of the replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// A range of the view, to be copied byte for byte.
    Kept(Range<usize>),
    Text(String),
    End(LineEnd),
}

/// What replaces `place` (a range of the view) when `old`, which was found there, gives way to `new`.
pub(crate) fn merge(
    document: &Document<'_>,
    place: &Range<usize>,
    fit: Fit,
    old: &str,
    new: &str,
) -> Result<Vec<Chunk>, EditError> {
    if fit == Fit::Exact
        && !document.is_lossy()
        && let Some(end) = document.uniform_line_end()
    {
        return Ok(plain(new, end));
    }
    let loose_end = !document.slice(place).ends_with('\n') && old.ends_with('\n');
    let trimmed = |text| if loose_end { without_final_newline(text) } else { text };
    let merge = Merge::new(document, place, fit, trimmed(old), trimmed(new));
    merge.run()
}

fn without_final_newline(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

fn plain(text: &str, end: LineEnd) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for row in rows(text, Edge::Inside, Edge::Inside) {
        push_row(&mut chunks, &row, end);
    }
    chunks
}

fn push_row(chunks: &mut Vec<Chunk>, row: &Row<'_>, end: LineEnd) {
    chunks.push(Chunk::Text([row.indent, row.body, row.tail].concat()));
    if row.terminated {
        chunks.push(Chunk::End(end));
    }
}

/// One matched line of the file.
struct Matched<'a> {
    range: Range<usize>,
    text: &'a str,
    row: Row<'a>,
}

/// What becomes of the new lines.
#[derive(Default)]
struct Merged {
    chunks: Vec<Chunk>,
    /// One for each new line.
    indents: Vec<Placed>,
}

struct Placed {
    indent: String,
    is_changed: bool,
}

struct Merge<'a> {
    document: &'a Document<'a>,
    fit: Fit,
    /// The line of the file (from 0) where the match begins.
    first_line: usize,
    old: Vec<Row<'a>>,
    file: Vec<Matched<'a>>,
    new: Vec<Row<'a>>,
    indents: IndentMap,
}

impl<'a> Merge<'a> {
    fn new(
        document: &'a Document<'a>,
        place: &Range<usize>,
        fit: Fit,
        old: &'a str,
        new: &'a str,
    ) -> Self {
        let first_line = document.line_at(place.start);
        let start = if document.line_range(first_line).start == place.start {
            Edge::Line
        } else {
            Edge::Inside
        };
        let last_line = document.line_range(document.line_at(place.end));
        let end = if last_line.end == place.end { Edge::Line } else { Edge::Inside };
        let (old, new) = (rows(old, start, end), rows(new, start, end));
        let file = matched(document, place, start, end);
        let pairs = || old.iter().zip(&file).map(|(row, line)| (row, &line.row));
        let bare =
            pairs().next().filter(|(row, line)| row.indent.is_empty() && !line.indent.is_empty());
        let proven = pairs().skip(usize::from(bare.is_some())).filter(|(row, _)| !row.is_blank());
        let indents = IndentMap::learn(
            bare.map(|(_, line)| line.indent),
            proven.map(|(row, line)| (row.indent, line.indent)),
            old.iter().chain(&new).filter(|row| !row.is_blank()).map(|row| row.indent),
            if let Fit::Loose(unit) = fit { unit } else { None },
        );
        Self { document, fit, first_line, old, file, new, indents }
    }

    fn run(&self) -> Result<Vec<Chunk>, EditError> {
        let aligned = self.align()?;
        let mut merged = Merged::default();
        for step in aligned.steps(self.old.len(), self.new.len()) {
            match step {
                Step::Keep { old, new } => self.keep(&mut merged, old, new),
                Step::Change { old, new } => self.change(&mut merged, &old, &new)?,
            }
        }
        if self.fit != Fit::Exact && !self.indents.is_identity() {
            self.refuse_unopened(&merged)?;
        }
        Ok(merged.chunks)
    }

    /// Refuses a new line that opens a block with the next line beside it: the model left out the indentation.
    fn refuse_unopened(&self, merged: &Merged) -> Result<(), EditError> {
        let filled = || merged.indents.iter().zip(&self.new).filter(|(_, row)| !row.is_blank());
        let unopened = filled().zip(filled().skip(1)).any(|((placed, row), (next, next_row))| {
            placed.is_changed && row.opens(next_row) && next.indent.len() <= placed.indent.len()
        });
        if unopened { Err(self.needs_exact(0, Reason::Indentation)) } else { Ok(()) }
    }

    /// Pairs the lines that old and new text share, judged by the model's own writing.
    fn align(&self) -> Result<Alignment, EditError> {
        let texts = |rows: &[Row<'_>]| {
            rows.iter().map(|row| [row.indent, row.body, row.tail].concat()).collect::<Vec<_>>()
        };
        let (old, new) = (texts(&self.old), texts(&self.new));
        if self.fit == Fit::Exact {
            return Ok(align_plain(&old, &new));
        }
        let aligned = align(&old, &new).ok_or(EditError::TooLarge { lines: old.len() })?;
        match aligned.contested.iter().find(|index| self.is_foreign(**index)) {
            Some(index) => Err(self.needs_exact(*index, Reason::Contested)),
            None => Ok(aligned),
        }
    }

    /// Whether the file's line is not what the old line would become by indentation alone.
    fn is_foreign(&self, index: usize) -> bool {
        let (Some(old), Some(line)) = (self.old.get(index), self.file.get(index)) else {
            return true;
        };
        if old.is_blank() {
            return !line.row.is_blank();
        }
        old.body != line.row.body
            || self.indents.to_file(old.indent).as_deref() != Some(line.row.indent)
    }

    /// Whether the file's line differs from the old one by more than is tolerated.
    fn is_beyond(&self, index: usize) -> bool {
        let (Some(old), Some(line)) = (self.old.get(index), self.file.get(index)) else {
            return true;
        };
        old.terminated != line.row.terminated
            || !Tolerance::InnerBlanks.accepts(old.body, line.row.body)
    }

    fn keep(&self, merged: &mut Merged, old: usize, new: usize) {
        let Some(line) = self.file.get(old) else { return };
        merged.indents.push(Placed { indent: line.row.indent.to_owned(), is_changed: false });
        let chunks = &mut merged.chunks;
        chunks.push(Chunk::Kept(line.range.clone()));
        if self.new.get(new).is_some_and(|row| row.terminated) {
            chunks.push(Chunk::End(self.document.line_end(self.first_line + old)));
        }
    }

    fn change(
        &self,
        merged: &mut Merged,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<(), EditError> {
        if self.fit != Fit::Exact {
            self.refuse_conflict(old)?;
            self.refuse_tolerated_only(old, new)?;
            self.refuse_lone_insertion(old)?;
        }
        let bodies = self.bodies(old, new)?;
        for (index, body) in new.clone().zip(bodies) {
            let Some(row) = self.new.get(index) else { continue };
            let beside = (old.start + index - new.start).min(old.end.saturating_sub(1));
            let indent = self.indent(row, index, old, new)?;
            let tail = self.tail(row, beside, old, new);
            let row = Row { indent: &indent, body: &body, tail, terminated: row.terminated };
            push_row(&mut merged.chunks, &row, self.document.line_end(self.first_line + beside));
            merged.indents.push(Placed { indent, is_changed: true });
        }
        Ok(())
    }

    /// Refuses to remove a line that the model has not seen as it is.
    fn refuse_conflict(&self, old: &Range<usize>) -> Result<(), EditError> {
        match old.clone().find(|index| self.is_beyond(*index)) {
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

    /// What is tolerated cannot at the same time be what the edit is about.
    fn refuse_tolerated_only(
        &self,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<(), EditError> {
        let olds = self.old.get(old.clone()).unwrap_or_default();
        let news = self.new.get(new.clone()).unwrap_or_default();
        let same = olds.len() == news.len()
            && olds
                .iter()
                .zip(news)
                .all(|(one, other)| Tolerance::InnerBlanks.accepts(one.body, other.body));
        let differs = |index: &usize| match (self.old.get(*index), self.file.get(*index)) {
            (Some(old), Some(line)) => (old.indent, old.body) != (line.row.indent, line.row.body),
            _ => true,
        };
        match old.clone().find(differs) {
            Some(index) if same => Err(self.needs_exact(index, Reason::OnlyTolerated)),
            _ => Ok(()),
        }
    }

    /// Refuses to put lines between two lines that are both not as the model believes.
    fn refuse_lone_insertion(&self, old: &Range<usize>) -> Result<(), EditError> {
        let seen = |index: usize| index < self.old.len() && !self.is_beyond(index);
        let anchored = old.start.checked_sub(1).is_some_and(seen) || seen(old.start);
        if old.is_empty() && !anchored {
            Err(self.needs_exact(old.start, Reason::Neighbours))
        } else {
            Ok(())
        }
    }

    /// The new lines without indentation, with the file's writing wherever the old text had the same.
    fn bodies(&self, old: &Range<usize>, new: &Range<usize>) -> Result<Vec<String>, EditError> {
        let news = self.new.get(new.clone()).unwrap_or_default();
        if self.old.iter().zip(&self.file).all(|(row, line)| row.body == line.row.body) {
            return Ok(news.iter().map(|row| row.body.to_owned()).collect());
        }
        let mut used = Vec::new();
        let mut bodies = Vec::with_capacity(news.len());
        for row in news {
            let moved = self.moved(row, &used)?;
            used.extend(moved);
            bodies.push(
                moved.and_then(|index| self.file.get(index)).map(|line| line.row.body.to_owned()),
            );
        }
        let rest: Vec<usize> = old.clone().filter(|index| !used.contains(index)).collect();
        let mut merged = self.merge_rest(&rest, news, &bodies)?.into_iter();
        Ok(bodies
            .into_iter()
            .map(|body| body.or_else(|| merged.next()).unwrap_or_default())
            .collect())
    }

    /// The old line that a new one repeats.
    fn moved(&self, row: &Row<'_>, used: &[usize]) -> Result<Option<usize>, EditError> {
        if row.is_blank() {
            return Ok(None);
        }
        let same: Vec<usize> = (0..self.old.len())
            .filter(|index| self.old.get(*index).is_some_and(|old| old.body == row.body))
            .collect();
        if let Some(index) = same.iter().find(|index| self.is_beyond(**index)) {
            return Err(self.needs_exact(*index, Reason::Repeated));
        }
        let mut writings =
            same.iter().filter_map(|index| self.file.get(*index)).map(|line| line.row.body);
        let first = writings.next();
        match (first, same.first()) {
            (Some(first), Some(index)) if writings.any(|other| other != first) => {
                Err(self.needs_exact(*index, Reason::Contested))
            }
            _ => Ok(same.iter().find(|index| !used.contains(index)).or(same.first()).copied()),
        }
    }

    /// Merges the changed lines that repeat no old line.
    fn merge_rest(
        &self,
        old: &[usize],
        news: &[Row<'_>],
        bodies: &[Option<String>],
    ) -> Result<Vec<String>, EditError> {
        let olds: Vec<&str> =
            old.iter().filter_map(|index| self.old.get(*index)).map(|row| row.body).collect();
        let files: Vec<&str> = old
            .iter()
            .filter_map(|index| self.file.get(*index))
            .map(|line| line.row.body)
            .collect();
        let open = news.iter().zip(bodies).filter(|(_, body)| body.is_none());
        let open: Vec<&str> = open.map(|(row, _)| row.body).collect();
        if olds == files {
            return Ok(open.into_iter().map(str::to_owned).collect());
        }
        let line = old.first().copied().unwrap_or_default();
        merge_bodies(&olds, &files, &open).map_err(|reason| self.needs_exact(line, reason))
    }

    fn indent(
        &self,
        row: &Row<'_>,
        index: usize,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Result<String, EditError> {
        if row.is_blank() {
            return Ok(String::new());
        }
        let follows_first = index > 0 && old.start <= 1 && self.indents.is_flattened(row.indent);
        let replaced = (old.len() == 1 && new.len() == 1)
            .then(|| self.replaced_indent(row, old.start))
            .flatten();
        let mapped = || if follows_first { None } else { self.file_indent(row, index) };
        let indent = replaced.map(str::to_owned).or_else(mapped);
        indent.ok_or_else(|| self.needs_exact(old.start, Reason::Indentation))
    }

    /// The indentation in the file for a line of old or new text.
    fn file_indent(&self, row: &Row<'_>, index: usize) -> Option<String> {
        if index == 0 {
            self.indents.first_to_file(row.indent)
        } else {
            self.indents.to_file(row.indent)
        }
    }

    /// The indentation of the one line that this one replaces, if both begin alike.
    fn replaced_indent(&self, row: &Row<'_>, index: usize) -> Option<&'a str> {
        let old = self.old.get(index)?;
        let first =
            |body: &'a str| body.split(|char: char| !char.is_alphanumeric() && char != '_').next();
        let word = first(old.body).filter(|word| !word.is_empty())?;
        let alike = row.indent == old.indent
            && row.body.strip_prefix(word).is_some_and(|rest| {
                !rest.starts_with(|char: char| char.is_alphanumeric() || char == '_')
            });
        if alike { self.file.get(index).map(|line| line.row.indent) } else { None }
    }

    /// Trailing blanks: those of the file where lines are replaced one by one and the edit does not touch them.
    fn tail<'b>(
        &'b self,
        row: &Row<'b>,
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

    fn file_text(&self, index: usize) -> String {
        self.file.get(index).map_or_else(String::new, |line| line.text.to_owned())
    }

    fn needs_exact(&self, index: usize, reason: Reason) -> EditError {
        let index = index.min(self.file.len().saturating_sub(1));
        EditError::NeedsExact {
            line: self.first_line + index + 1,
            actual: self.file_text(index),
            reason,
        }
    }
}

fn matched<'a>(
    document: &'a Document<'a>,
    place: &Range<usize>,
    start: Edge,
    end: Edge,
) -> Vec<Matched<'a>> {
    let text = document.slice(place);
    let mut at = place.start;
    let pieces = text.split_inclusive('\n').zip(rows(text, start, end));
    pieces
        .map(|(piece, row)| {
            let text = without_final_newline(piece);
            let range = at..at + text.len();
            at += piece.len();
            Matched { range, text, row }
        })
        .collect()
}
