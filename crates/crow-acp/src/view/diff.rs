//! Diffs in the form of the protocol: whole texts before and after a change.
//!
//! The texts come from the snapshots of a change that was made, or from the disk and the hunks of a preview. Where a
//! text is not available, the diff consists of the hunks and is marked as partial. Within the limits below, every file
//! that changed gets a diff or a note with the reason why there is none. A preview leaves out lines of a long change,
//! so the text after a call is then computed from the call's arguments.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation};
use crow_core::{
    ids::SnapshotId,
    tool::{FileChange, FileDiff, Patch},
};
use serde_json::Value;

use super::{
    content::title,
    contents::{DiffContent, FileReader, LARGEST},
    event::single_key,
    tool_display::at_line,
};

/// Limit of shown files per change.
const MOST_FILES: usize = 20;
/// Limit of shown text per change in bytes, before and after together.
const MOST_BYTES: usize = 1024 * 1024;
/// Separator between hunks where the text between them is not known.
const GAP: &str = "⋯\n";

/// Available data about a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownChange<'a> {
    pub(super) patch: Option<&'a Patch>,
    pub(super) files: &'a [PathBuf],
    /// Number of all changed paths.
    pub(super) paths: u64,
    pub(super) before: Option<&'a SnapshotId>,
    pub(super) after: Option<&'a SnapshotId>,
}

/// Content and locations that show a change.
#[derive(Debug, Default)]
pub(super) struct DiffDisplay {
    pub(super) content: Vec<ToolCallContent>,
    pub(super) locations: Vec<ToolCallLocation>,
    bytes: usize,
    files: u64,
}

/// Shows a change with the texts of its snapshots or, where these are not available, with its hunks.
pub(super) fn display_of_change(
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

/// Shows the change that a call would make: its hunks, applied to the text on the disk. Where hunks are cut, the new
/// text is computed from the arguments of the call.
pub(super) fn display_of_preview(
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
            // The computed text must give the hunks of the preview.
            let computed = FileDiff::of_text(&diff.path, old, &new);
            (computed.hunks == diff.hunks && computed.additions == diff.additions).then_some(new)
        });
        let after = after.map_or(DiffContent::Unknown, DiffContent::Known);
        shown.push(&path, &(before, after), diff);
    }
    shown
}

type ChangedFile<'a> = (PathBuf, Option<&'a FileDiff>);

fn files<'a>(patch: Option<&'a Patch>, files: &'a [PathBuf], cwd: &Path) -> Vec<ChangedFile<'a>> {
    let in_patch = patch.map(|patch| patch.files.as_slice()).unwrap_or_default();
    let mut all: Vec<ChangedFile<'a>> =
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
        let shown = match compare(path, texts) {
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

/// Result of comparing two whole texts.
enum WholeFileChange {
    Differs(Diff),
    Same,
    /// At least one of them is not available.
    Unknown,
}

fn compare(path: &Path, texts: &(DiffContent, DiffContent)) -> WholeFileChange {
    match texts {
        (DiffContent::Absent, DiffContent::Known(new)) => {
            WholeFileChange::Differs(Diff::new(path, new.clone()))
        }
        (DiffContent::Known(old), DiffContent::Absent) => {
            let meta = single_key("crow", single_key("deleted", true));
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

/// A hunk: first line (from 1) and number of lines before the change, first line after it, and its lines with marks.
struct Hunk<'a> {
    old: (usize, usize),
    new: usize,
    lines: Vec<(char, &'a str)>,
}

/// Parses hunks in unified format; `None` if they are malformed.
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
        // `\ No newline at end of file` refers to the line before it.
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

/// Applies hunks to a text; `None` if they do not match it.
fn apply(old: &str, hunks: &str) -> Option<String> {
    let mut lines = old.split_inclusive('\n');
    let mut at = 0;
    let mut new = String::with_capacity(old.len() + hunks.len());
    for hunk in parse(hunks)? {
        let (start, count) = hunk.old;
        // A hunk without old lines begins after its first line.
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

/// Builds a diff from hunks alone, which is partial unless they have the whole text.
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
    let meta = (!is_whole).then(|| single_key("crow", single_key("partial", true)));
    Some(Diff::new(path, new).old_text((!is_new).then_some(old)).meta(meta))
}

/// Returns the number of the first line that changed, from 1.
fn first_line(hunks: &str) -> Option<u32> {
    let first = parse(hunks)?.into_iter().next()?;
    let same = first.lines.iter().take_while(|(mark, _)| *mark == ' ').count();
    u32::try_from(first.new.max(1) + same).ok()
}

const OLD: [&str; 6] = ["old_string", "old_str", "oldStr", "old_text", "oldText", "oldString"];
const NEW: [&str; 6] = ["new_string", "new_str", "newStr", "new_text", "newText", "newString"];
const CONTENT: [&str; 5] = ["content", "contents", "text", "file_text", "code"];
const ALL: [&str; 3] = ["replace_all", "replaceAll", "allow_multiple"];

/// Returns the new text of a file that has the text `old`; `None` if the arguments do not determine it. Only exact
/// matches count, while the tools also find similar ones: the caller compares the result with the preview.
fn proposed(tool: &str, arguments: &Value, old: &str) -> Option<String> {
    match tool {
        "write_file" => argument(arguments, &CONTENT).map(str::to_owned),
        "edit_file" => match arguments.get("edits").and_then(Value::as_array) {
            Some(edits) if !edits.is_empty() => {
                edits.iter().try_fold(old.to_owned(), |text, edit| replaced(edit, &text))
            }
            Some(_) | None => replaced(arguments, old),
        },
        _ => None,
    }
}

fn replaced(edit: &Value, old: &str) -> Option<String> {
    let (from, to) = (argument(edit, &OLD)?, argument(edit, &NEW)?);
    let is_all = ALL.iter().any(|name| edit.get(name).and_then(Value::as_bool) == Some(true));
    let count = if from.is_empty() { 0 } else { old.matches(from).take(2).count() };
    (count == 1 || (count > 1 && is_all)).then(|| old.replace(from, to))
}

fn argument<'a>(arguments: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arguments.get(name)?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applying_the_hunks_of_two_texts_to_the_first_gives_the_second() {
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
    fn hunks_that_do_not_match_the_text_are_not_applied() {
        let diff = FileDiff::of_text(Path::new("/p/a"), "a\nb\n", "a\nc\n");
        assert_eq!(apply("a\nx\n", &diff.hunks), None);
        assert_eq!(apply("", &diff.hunks), None);
        assert_eq!(apply("a", "@@ what"), None);
    }

    #[test]
    fn the_first_changed_line_is_found() {
        let diff = FileDiff::of_text(Path::new("/p/a"), "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nX\n6\n");
        assert_eq!(first_line(&diff.hunks), Some(5));
        let diff = FileDiff::of_text(Path::new("/p/a"), "", "X\n");
        assert_eq!(first_line(&diff.hunks), Some(1));
    }

    #[test]
    fn the_arguments_of_a_call_determine_the_new_text() {
        let edits = json!({"edits": [
            {"old_string": "a", "new_string": "x"},
            {"old_string": "b", "new_string": "y"},
        ]});
        let table = [
            ("write_file", json!({"content": "new"}), Some("new")),
            ("edit_file", json!({"old_string": "b", "new_string": "c"}), Some("a c a")),
            ("edit_file", json!({"old_string": "a", "new_string": "c"}), None),
            (
                "edit_file",
                json!({"old_string": "a", "new_string": "c", "replace_all": true}),
                Some("c b c"),
            ),
            ("edit_file", json!({"old_string": "", "new_string": "c"}), None),
            ("edit_file", json!({"old_string": "z", "new_string": "c"}), None),
            ("edit_file", edits, None),
            ("bash", json!({"content": "new"}), None),
        ];
        for (tool, arguments, expected) in table {
            let new = proposed(tool, &arguments, "a b a");
            assert_eq!(new.as_deref(), expected, "{tool} {arguments}");
        }
    }
}
