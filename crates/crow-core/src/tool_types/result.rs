//! Results of calls, and the diffs of files in them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{ChangeTag, DiffOp, DiffTag, group_diff_ops, udiff::UnifiedHunkHeader};

use crate::{ids::SnapshotId, message::Image};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what was asked.
    Success,
    /// It did not.
    Error,
    /// It was stopped before its end. It may have had effects.
    Cancelled,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// How it ended.
    pub status: ToolStatus,
    /// The text for the model.
    pub output: String,
    /// Why it failed, in one line for people. The model reads `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Pictures for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Metadata of the call beside its output.
    #[serde(default)]
    pub metadata: ToolMetadata,
}

impl ToolResult {
    /// Makes a successful result.
    pub fn success(output: impl Into<String>) -> Self {
        Self::with_status(ToolStatus::Success, output.into(), None)
    }

    /// Makes a failed result. The model reads `message`; its first line is the error for people, joined with the next
    /// one if it ends with a colon and so is not meaningful alone.
    pub fn failure(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let error = match lines.next() {
            Some(next) if first.ends_with(':') => format!("{first} {}", next.trim_start()),
            Some(_) | None => first.to_owned(),
        };
        Self::with_status(ToolStatus::Error, message, Some(error))
    }

    /// Makes the result of a cancelled call.
    pub fn cancelled() -> Self {
        let note =
            "The call was cancelled before it finished. What it did until then was not undone.";
        Self::with_status(ToolStatus::Cancelled, note.to_owned(), None)
    }

    fn with_status(status: ToolStatus, output: String, error: Option<String>) -> Self {
        Self { status, output, error, images: Vec::new(), metadata: ToolMetadata::default() }
    }

    /// Returns true unless the call succeeded.
    pub fn is_error(&self) -> bool {
        self.status != ToolStatus::Success
    }
}

impl From<String> for ToolResult {
    fn from(output: String) -> Self {
        Self::success(output)
    }
}

/// Metadata of a call beside its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolMetadata {
    /// Files that the call created, changed or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<PathBuf>,
    /// The state of the files before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_before: Option<SnapshotId>,
    /// The state of the files after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_after: Option<SnapshotId>,
    /// The change, within bounds: not every file and not every line may be in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Patch>,
    /// How much changed, beyond the bounds of `files_modified` and `diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
    /// What changed and cannot be undone, within bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restorable: Vec<NotRestorable>,
    /// Others may have made some of the changes: another process worked in the same folder meanwhile, or the call was cut
    /// off. An undo takes them for conflicts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The end of the call was not observed: changes until the session was resumed may be its own or those of others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// How long the call took.
    #[serde(default)]
    pub duration_ms: u64,
    /// Metadata of this tool only.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

/// How much a call changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeCounts {
    /// Files, links and folders that are new.
    pub created: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Those that were changed.
    pub modified: u64,
    /// Lines that were added, as far as they were compared.
    pub additions: u64,
    /// Lines that were deleted, as far as they were compared.
    pub deletions: u64,
}

impl ChangeCounts {
    /// Returns the number of paths that changed.
    pub fn paths(&self) -> u64 {
        self.created + self.deleted + self.modified
    }
}

/// A path whose change cannot be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRestorable {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Maximum number of lines of hunks.
const MAX_LINES: usize = 200;
/// Maximum number of bytes of hunks: a few lines may be very long.
const MAX_BYTES: usize = 32 * 1024;
/// Number of lines of context around a change.
const CONTEXT: usize = 3;
/// Time after which a diff need no longer be the smallest one.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A change of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Patch {
    /// One entry for each file.
    pub files: Vec<FileDiff>,
}

impl Patch {
    /// Returns the number of added lines.
    pub fn additions(&self) -> u64 {
        self.files.iter().map(|file| file.additions).sum()
    }

    /// Returns the number of deleted lines.
    pub fn deletions(&self) -> u64 {
        self.files.iter().map(|file| file.deletions).sum()
    }
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// The file.
    pub path: PathBuf,
    /// How it changed.
    #[serde(default, skip_serializing_if = "FileChange::is_modified")]
    pub change: FileChange,
    /// Added lines.
    pub additions: u64,
    /// Deleted lines.
    pub deletions: u64,
    /// The hunks in unified form, without file header.
    pub hunks: String,
    /// Whether `hunks` leaves out some of the change.
    #[serde(default)]
    pub truncated: bool,
    /// What the hunks cannot say: `binary, 3 -> 5 bytes`, `mode 644 -> 755`, `link to a`. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// What the file held before and holds now, where hunks cannot say it. Only in patches that are to be applied, never in
    /// events.
    #[serde(skip)]
    pub contents: Option<FileContents>,
}

/// The content of a file, or the target of a link, before and after a change. Empty if it did not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileContents {
    /// The content before.
    pub before: Vec<u8>,
    /// The content after.
    pub after: Vec<u8>,
}

/// How a file changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is new.
    Created,
    /// It was changed.
    #[default]
    Modified,
    /// It was deleted.
    Deleted,
}

impl FileChange {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_modified(&self) -> bool {
        *self == Self::Modified
    }
}

impl FileDiff {
    /// Makes the diff of a file whose lines are not compared.
    pub fn without_lines(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            change: FileChange::Modified,
            additions: 0,
            deletions: 0,
            hunks: String::new(),
            truncated: true,
            note: String::new(),
            contents: None,
        }
    }

    /// Compares two texts line by line. At most 200 lines and 32 KiB of hunks are kept; all lines are counted.
    pub fn of_text(path: &Path, old: &str, new: &str) -> Self {
        Self::compare(path, (old, new), MAX_LINES, MAX_BYTES)
    }

    /// Compares two texts line by line and returns all hunks, so that the change can be applied.
    pub fn of_whole_text(path: &Path, old: &str, new: &str) -> Self {
        Self::compare(path, (old, new), usize::MAX, usize::MAX)
    }

    fn compare(
        path: &Path,
        (old, new): (&str, &str),
        most_lines: usize,
        most_bytes: usize,
    ) -> Self {
        let mut difference = Self { truncated: false, ..Self::without_lines(path) };
        let (old, new) = (lines(old), lines(new));
        let operations = crow_text::diff_within(TIMEOUT, &old, &new);
        let changed = || operations.iter().filter(|operation| operation.tag() != DiffTag::Equal);
        let count = |lines: usize| u64::try_from(lines).unwrap_or(u64::MAX);
        difference.additions = count(changed().map(|operation| operation.new_range().len()).sum());
        difference.deletions = count(changed().map(|operation| operation.old_range().len()).sum());
        let mut line_count = 0;
        for hunk in group_diff_ops(operations, CONTEXT) {
            for line in hunk_text(&hunk, &old, &new).split_inclusive('\n') {
                if line_count == most_lines || difference.hunks.len() + line.len() > most_bytes {
                    difference.truncated = true;
                    return difference;
                }
                line_count += 1;
                difference.hunks.push_str(line);
            }
        }
        difference
    }
}

/// Splits at line feeds only: for git and patch a lone carriage return ends no line.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn hunk_text(hunk: &[DiffOp], old: &[&str], new: &[&str]) -> String {
    let mut text = format!("{}\n", UnifiedHunkHeader::new(hunk));
    for change in hunk.iter().flat_map(|operation| operation.iter_changes(old, new)) {
        text.push(match change.tag() {
            ChangeTag::Insert => '+',
            ChangeTag::Delete => '-',
            ChangeTag::Equal => ' ',
        });
        text.push_str(change.value());
        if !change.value().ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> FileDiff {
        FileDiff::of_text(Path::new("/p/a"), old, new)
    }

    #[test]
    fn a_change_is_counted_and_shown_with_its_surroundings() {
        let difference = diff("a\nb\nc\n", "a\nB\nc\nd\n");
        assert_eq!((difference.additions, difference.deletions), (2, 1));
        assert_eq!(difference.hunks, "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
        assert!(!difference.truncated);
    }

    #[test]
    fn only_a_line_feed_ends_a_line() {
        let difference = diff("a\rb\r\nc", "a\rb\nc");
        assert_eq!(
            difference.hunks,
            "@@ -1,2 +1,2 @@\n-a\rb\r\n+a\rb\n c\n\\ No newline at end of file\n"
        );
        let open = "\\ No newline at end of file\n";
        assert_eq!(diff("a\r", "b").hunks, format!("@@ -1 +1 @@\n-a\r\n{open}+b\n{open}"));
    }

    #[test]
    fn a_long_diff_is_cut_at_200_lines_and_counted_fully() {
        let new = "x\n".repeat(1000);
        let difference = diff("", &new);
        assert_eq!((difference.additions, difference.hunks.lines().count()), (1000, 200));
        assert!(difference.truncated);
    }

    #[test]
    fn a_whole_diff_is_not_cut() {
        let new = "x\n".repeat(1000);
        let difference = FileDiff::of_whole_text(Path::new("/p/a"), "", &new);
        assert_eq!(difference.hunks.lines().count(), 1001);
        assert!(!difference.truncated);
    }

    #[test]
    fn a_diff_of_one_huge_line_stays_small() {
        let difference = diff("a", &"x".repeat(1_000_000));
        assert!(difference.truncated && difference.hunks.len() < MAX_BYTES);
    }
}
