//! The entries of a diff: headings of files, notes, and lines with what replaces them.

use std::borrow::Cow;

use crow_console::{DiffLineKind, DiffPart, PatchLine, diff_parts, paired_lines};
use crow_core::tool::{FileChange, FileDiff, Patch};

use crate::{
    line_layout::{visible_text, visible_title},
    styled_text::TextRole,
};

/// Maximum length of a line that is shown, in bytes.
const LONGEST: usize = 8 * 1024;

/// A line of a file.
#[derive(Debug)]
pub(super) struct LineEntry {
    pub(super) file: usize,
    pub(super) line: PatchLine,
    /// The entry of the line that replaces this one, or that it replaces.
    pub(super) partner: Option<usize>,
    pub(super) has_line_feed: bool,
}

/// An entry of a diff.
#[derive(Debug)]
pub(super) enum DiffEntry {
    Blank,
    /// The heading of the file of this number.
    Heading(usize),
    /// Something that the lines do not show.
    Note {
        text: String,
        role: TextRole,
    },
    /// Unchanged lines are left out; `context` says what the next ones belong to.
    Gap {
        context: String,
    },
    Line(LineEntry),
}

/// A diff as a list of entries.
#[derive(Debug)]
pub(super) struct DiffEntries {
    files: Vec<FileDiff>,
    /// The paths of the files in their visible form.
    paths: Vec<String>,
    entries: Vec<DiffEntry>,
    /// The entries of the headings.
    headings: Vec<usize>,
    /// The number of digits of the greatest line number.
    digits: usize,
}

impl DiffEntries {
    pub(super) fn new(patch: Patch) -> Self {
        let visible = |file: &FileDiff| visible_title(&file.path.to_string_lossy());
        let mut diff = Self {
            paths: patch.files.iter().map(visible).collect(),
            files: patch.files,
            entries: Vec::new(),
            headings: Vec::new(),
            digits: 1,
        };
        for number in 0..diff.files.len() {
            diff.push_file(number);
        }
        let kind = |entry: &DiffEntry| match entry {
            DiffEntry::Line(line) => Some(line.line.kind),
            DiffEntry::Blank
            | DiffEntry::Heading(_)
            | DiffEntry::Note { .. }
            | DiffEntry::Gap { .. } => None,
        };
        let kinds: Vec<Option<DiffLineKind>> = diff.entries.iter().map(kind).collect();
        for (old, new) in paired_lines(&kinds) {
            for (entry, partner) in [(old, new), (new, old)] {
                if let DiffEntry::Line(line) = &mut diff.entries[entry] {
                    line.partner = Some(partner);
                }
            }
        }
        diff
    }

    pub(super) fn entries(&self) -> &[DiffEntry] {
        &self.entries
    }

    pub(super) fn headings(&self) -> &[usize] {
        &self.headings
    }

    pub(super) fn files(&self) -> &[FileDiff] {
        &self.files
    }

    pub(super) fn path(&self, file: usize) -> &str {
        &self.paths[file]
    }

    pub(super) fn digits(&self) -> usize {
        self.digits
    }

    /// Returns the line of an entry, if it is one.
    pub(super) fn line(&self, entry: usize) -> Option<&LineEntry> {
        match &self.entries[entry] {
            DiffEntry::Line(line) => Some(line),
            DiffEntry::Blank
            | DiffEntry::Heading(_)
            | DiffEntry::Note { .. }
            | DiffEntry::Gap { .. } => None,
        }
    }

    /// Returns the text of a line up to the maximum length, and the number of characters beyond it. The carriage return
    /// at its end is left out unless the change added or removed it.
    pub(super) fn text(&self, line: &LineEntry) -> (&str, usize) {
        let text = self.whole_text(line);
        let partner = line.partner.and_then(|partner| self.line(partner));
        let text = match text.strip_suffix('\r') {
            Some(rest) if line.line.kind == DiffLineKind::Context => rest,
            Some(rest) if partner.is_some_and(|other| self.whole_text(other).ends_with('\r')) => {
                rest
            }
            Some(_) | None => text,
        };
        let (shown, rest) = text.split_at(text.floor_char_boundary(LONGEST));
        (shown, rest.chars().count())
    }

    /// Returns the visible text of an entry without line numbers and signs, for the search.
    pub(super) fn visible_text(&self, entry: usize) -> Cow<'_, str> {
        match &self.entries[entry] {
            DiffEntry::Blank => Cow::Borrowed(""),
            DiffEntry::Heading(file) => Cow::Borrowed(&self.paths[*file]),
            DiffEntry::Note { text, .. } => Cow::Borrowed(text),
            DiffEntry::Gap { context } => Cow::Borrowed(context),
            DiffEntry::Line(line) => visible_text(self.text(line).0),
        }
    }

    fn whole_text(&self, line: &LineEntry) -> &str {
        &self.files[line.file].hunks[line.line.text.clone()]
    }

    fn push_file(&mut self, number: usize) {
        if number > 0 {
            self.entries.push(DiffEntry::Blank);
        }
        self.headings.push(self.entries.len());
        self.entries.push(DiffEntry::Heading(number));
        let file = &self.files[number];
        if let Some(text) = note(file) {
            self.entries.push(DiffEntry::Note { text, role: TextRole::Dim });
        }
        let mut changed = 0;
        for part in diff_parts(&file.hunks) {
            match part {
                DiffPart::Hunk { context } => {
                    let context = visible_title(&file.hunks[context]);
                    self.entries.push(DiffEntry::Gap { context });
                }
                DiffPart::NoLineFeed => {
                    if let Some(DiffEntry::Line(line)) = self.entries.last_mut() {
                        line.has_line_feed = false;
                    }
                }
                DiffPart::Line(line) => {
                    changed += u64::from(line.kind != DiffLineKind::Context);
                    // The first lines of a file need no row that says where they are.
                    if line.old <= 1
                        && line.new <= 1
                        && matches!(self.entries.last(), Some(DiffEntry::Gap { context }) if context.is_empty())
                    {
                        self.entries.pop();
                    }
                    let digits = line.old.max(line.new).checked_ilog10().unwrap_or(0) + 1;
                    self.digits = self.digits.max(digits as usize);
                    let entry =
                        LineEntry { file: number, line, partner: None, has_line_feed: true };
                    self.entries.push(DiffEntry::Line(entry));
                }
            }
        }
        if file.truncated && !file.hunks.is_empty() {
            let more = (file.additions + file.deletions).saturating_sub(changed);
            let text = match more {
                0 => "… a part of this change was not stored".to_owned(),
                1 => "… 1 more changed line was not stored".to_owned(),
                more => format!("… {more} more changed lines were not stored"),
            };
            self.entries.push(DiffEntry::Note { text, role: TextRole::Warning });
        }
    }
}

/// Returns a note about a change that the lines of the file do not show, if there is one.
fn note(file: &FileDiff) -> Option<String> {
    if !file.note.is_empty() {
        return Some(visible_title(&file.note));
    }
    let text = match (file.hunks.is_empty(), file.truncated, file.change) {
        (false, _, _) => return None,
        (true, true, _) => "binary or too large: lines are not compared",
        (true, false, FileChange::Created | FileChange::Deleted) => "empty file",
        (true, false, FileChange::Modified) => "no changed lines",
    };
    Some(text.to_owned())
}
