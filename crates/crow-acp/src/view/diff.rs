//! Differences as clients draw them: the whole text before and after.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation};
use crow_core::{
    ids::SnapshotId,
    tool::{FileChange, FileDiff, Patch},
};
use serde_json::Value;

use super::{
    contents::{DiffContent, FileReader, LARGEST},
    location::at_line,
    proposal::proposed,
    text::title,
    who::only,
};

/// How many files are shown of one change.
const MOST_FILES: usize = 20;
/// How many bytes of text are shown of one change, before and after together.
const MOST_BYTES: usize = 1024 * 1024;
/// Stands between hunks where the text between them is not known.
const GAP: &str = "⋯\n";

/// A change, by what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownChange<'a> {
    pub(super) patch: Option<&'a Patch>,
    pub(super) files: &'a [PathBuf],
    /// How many paths changed in all.
    pub(super) paths: u64,
    pub(super) before: Option<&'a SnapshotId>,
    pub(super) after: Option<&'a SnapshotId>,
}

/// A change as it is shown.
#[derive(Debug, Default)]
pub(super) struct DiffDisplay {
    pub(super) content: Vec<ToolCallContent>,
    pub(super) locations: Vec<ToolCallLocation>,
    bytes: usize,
    files: u64,
}

/// Shows what was changed, with the texts of the snapshots or, where those say nothing, what the hunks say.
pub(super) fn of_change(
    contents: &dyn FileReader,
    cwd: &Path,
    known: KnownChange<'_>,
) -> DiffDisplay {
    let mut shown = DiffDisplay::default();
    for (path, diff) in files(known.patch, known.files, cwd).into_iter().take(MOST_FILES) {
        let text = |snapshot: Option<&SnapshotId>| {
            snapshot.map_or(DiffContent::Unknown, |snapshot| contents.in_snapshot(snapshot, &path))
        };
        shown.push(&path, &(text(known.before), text(known.after)), diff);
    }
    let left_out = known.paths.saturating_sub(shown.files);
    if left_out > 0 {
        let files = if left_out == 1 { "file" } else { "files" };
        shown.content.push(format!("… and {left_out} more {files} changed").into());
    }
    shown
}

/// Shows what a call would change: the hunks, applied to what is on the disk. Where they leave something out, the
/// arguments of the call say it.
pub(super) fn of_preview(
    contents: &dyn FileReader,
    cwd: &Path,
    patch: &Patch,
    (tool, arguments): (&str, &Value),
) -> DiffDisplay {
    let mut shown = DiffDisplay::default();
    for (path, diff) in files(Some(patch), &[], cwd).into_iter().take(MOST_FILES) {
        let before = contents.now(&path);
        let old = match &before {
            DiffContent::Known(old) => Some(old.as_str()),
            DiffContent::Absent => Some(""),
            DiffContent::TooLarge | DiffContent::Binary | DiffContent::Unknown => None,
        };
        let after = diff.zip(old).and_then(|(diff, old)| {
            if !diff.truncated {
                return apply(old, &diff.hunks);
            }
            let new = proposed(tool, arguments, old).filter(|new| new.len() <= LARGEST)?;
            let seen = FileDiff::of_text(&diff.path, old, &new);
            (seen.hunks == diff.hunks && seen.additions == diff.additions).then_some(new)
        });
        let after = after.map_or(DiffContent::Unknown, DiffContent::Known);
        shown.push(&path, &(before, after), diff);
    }
    shown
}

type Of<'a> = (PathBuf, Option<&'a FileDiff>);

fn files<'a>(patch: Option<&'a Patch>, files: &'a [PathBuf], cwd: &Path) -> Vec<Of<'a>> {
    let in_patch = patch.map(|patch| patch.files.as_slice()).unwrap_or_default();
    let mut all: Vec<Of<'a>> =
        in_patch.iter().map(|diff| (cwd.join(&diff.path), Some(diff))).collect();
    for file in files {
        let file = cwd.join(file);
        if !all.iter().any(|(other, _)| *other == file) {
            all.push((file, None));
        }
    }
    all
}

impl DiffDisplay {
    fn push(&mut self, path: &Path, texts: &(DiffContent, DiffContent), diff: Option<&FileDiff>) {
        self.files += 1;
        let line = diff.and_then(|diff| first_line(&diff.hunks));
        let is_gone = texts.1 == DiffContent::Absent
            || diff.is_some_and(|diff| diff.change == FileChange::Deleted);
        if !is_gone {
            self.locations.push(at_line(path.to_path_buf(), line));
        }
        let shown = match whole(path, texts) {
            WholeFileChange::Differs(diff) => Some(diff),
            WholeFileChange::Same => None,
            WholeFileChange::Unknown => diff.and_then(|diff| of_hunks(path, diff)),
        };
        let bytes = shown.as_ref().map_or(0, size);
        match shown {
            Some(diff) if self.bytes + bytes <= MOST_BYTES => {
                self.bytes += bytes;
                self.content.push(ToolCallContent::Diff(diff));
            }
            Some(_) | None => self.content.push(note(path, texts, diff).into()),
        }
    }
}

/// What two whole texts say.
enum WholeFileChange {
    Differs(Diff),
    Same,
    /// At least one of them is not known.
    Unknown,
}

fn whole(path: &Path, texts: &(DiffContent, DiffContent)) -> WholeFileChange {
    match texts {
        (DiffContent::Absent, DiffContent::Known(new)) => {
            WholeFileChange::Differs(Diff::new(path, new.clone()))
        }
        (DiffContent::Known(old), DiffContent::Absent) => {
            let meta = only("crow", only("deleted", true));
            WholeFileChange::Differs(Diff::new(path, "").old_text(old.clone()).meta(meta))
        }
        (DiffContent::Known(old), DiffContent::Known(new)) if old == new => WholeFileChange::Same,
        (DiffContent::Known(old), DiffContent::Known(new)) => {
            WholeFileChange::Differs(Diff::new(path, new.clone()).old_text(old.clone()))
        }
        (DiffContent::Absent, DiffContent::Absent) => WholeFileChange::Same,
        (DiffContent::TooLarge | DiffContent::Binary | DiffContent::Unknown, _)
        | (_, DiffContent::TooLarge | DiffContent::Binary | DiffContent::Unknown) => {
            WholeFileChange::Unknown
        }
    }
}

fn size(diff: &Diff) -> usize {
    diff.new_text.len() + diff.old_text.as_ref().map_or(0, String::len)
}

fn note(path: &Path, texts: &(DiffContent, DiffContent), diff: Option<&FileDiff>) -> String {
    let path = path.display();
    let why = diff.map(|diff| title(&diff.note)).filter(|note| !note.is_empty());
    let why = why.unwrap_or_else(|| match texts {
        (DiffContent::TooLarge, _) | (_, DiffContent::TooLarge) => {
            "too large to be shown".to_owned()
        }
        (DiffContent::Binary, _) | (_, DiffContent::Binary) => "not a text".to_owned(),
        (DiffContent::Absent, _) => "new".to_owned(),
        (_, DiffContent::Absent) => "deleted".to_owned(),
        (
            DiffContent::Known(_) | DiffContent::Unknown,
            DiffContent::Known(_) | DiffContent::Unknown,
        ) => "changed".to_owned(),
    });
    format!("{path}: {why}")
}

/// A hunk: where it begins before the change, counted from 1, how many lines it has there, and its lines.
struct Hunk<'a> {
    old: (usize, usize),
    new: usize,
    lines: Vec<(char, &'a str)>,
}

/// Reads hunks in unified form. Nothing comes back if they are not well-formed.
fn parse(hunks: &str) -> Option<Vec<Hunk<'_>>> {
    let mut all: Vec<Hunk<'_>> = Vec::new();
    for line in hunks.split_inclusive('\n') {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (old, rest) = header.split_once(" +")?;
            let (new, _) = rest.split_once(" @@")?;
            all.push(Hunk { old: range(old)?, new: range(new)?.0, lines: Vec::new() });
            continue;
        }
        let hunk = all.last_mut()?;
        if line.starts_with('\\') {
            let (_, last) = hunk.lines.last_mut()?;
            *last = last.strip_suffix('\n')?;
            continue;
        }
        let mark = line.chars().next().filter(|mark| matches!(mark, ' ' | '+' | '-'))?;
        hunk.lines.push((mark, line.get(1..)?));
    }
    Some(all)
}

fn range(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// Returns the text after the change, if the hunks fit.
fn apply(old: &str, hunks: &str) -> Option<String> {
    let mut lines = old.split_inclusive('\n');
    let mut at = 0;
    let mut new = String::with_capacity(old.len() + hunks.len());
    for hunk in parse(hunks)? {
        let (start, count) = hunk.old;
        let begin = if count == 0 { start } else { start.checked_sub(1)? };
        while at < begin {
            new.push_str(lines.next()?);
            at += 1;
        }
        for (mark, line) in hunk.lines {
            if mark != '+' {
                if lines.next()? != line {
                    return None;
                }
                at += 1;
            }
            if mark != '-' {
                new.push_str(line);
            }
        }
    }
    new.extend(lines);
    Some(new)
}

/// Returns what hunks say of both texts.
fn of_hunks(path: &Path, diff: &FileDiff) -> Option<Diff> {
    let hunks = parse(&diff.hunks).filter(|hunks| !hunks.is_empty())?;
    let is_new = diff.change == FileChange::Created || hunks.iter().all(|hunk| hunk.old == (0, 0));
    let (mut old, mut new) = (String::new(), String::new());
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            old.push_str(GAP);
            new.push_str(GAP);
        }
        for (mark, line) in &hunk.lines {
            if *mark != '+' {
                old.push_str(line);
            }
            if *mark != '-' {
                new.push_str(line);
            }
        }
    }
    let is_whole = !diff.truncated && (is_new || diff.change == FileChange::Deleted);
    let meta = (!is_whole).then(|| only("crow", only("partial", true)));
    Some(Diff::new(path, new).old_text((!is_new).then_some(old)).meta(meta))
}

/// Returns the first line, counted from 1, that is not what it was.
fn first_line(hunks: &str) -> Option<u32> {
    let first = parse(hunks)?.into_iter().next()?;
    let same = first.lines.iter().take_while(|(mark, _)| *mark == ' ').count();
    u32::try_from(first.new.max(1) + same).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_of_any_two_texts_make_the_second_out_of_the_first() {
        let texts =
            ["", "a", "a\n", "a\nb\nc\n", "x\ny\nz\nc\nd\ne\nf\ng\nh\ni\nj", "a\r\nb\n\n\n"];
        for old in texts {
            for new in texts {
                let diff = FileDiff::of_whole_text(Path::new("/p/a"), old, new);
                assert_eq!(apply(old, &diff.hunks).as_deref(), Some(new), "{}", diff.hunks);
            }
        }
    }

    #[test]
    fn hunks_that_do_not_fit_make_nothing() {
        let diff = FileDiff::of_text(Path::new("/p/a"), "a\nb\n", "a\nc\n");
        assert_eq!(apply("a\nx\n", &diff.hunks), None);
        assert_eq!(apply("", &diff.hunks), None);
        assert_eq!(apply("a", "@@ what"), None);
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let diff = FileDiff::of_text(Path::new("/p/a"), "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nX\n6\n");
        assert_eq!(first_line(&diff.hunks), Some(5));
        let diff = FileDiff::of_text(Path::new("/p/a"), "", "X\n");
        assert_eq!(first_line(&diff.hunks), Some(1));
    }
}
