//! Diffs of files, for people and models.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff, udiff::UnifiedDiffHunk};

/// Maximum number of lines of hunks.
const MAX_LINES: usize = 200;
/// Maximum number of bytes of hunks: a few lines may be very long.
const MAX_BYTES: usize = 32 * 1024;
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
        let diff = TextDiff::configure().timeout(TIMEOUT).diff_slices(&lines(old), &lines(new));
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => difference.additions += 1,
                ChangeTag::Delete => difference.deletions += 1,
                ChangeTag::Equal => {}
            }
        }
        let mut lines = 0;
        for hunk in diff.unified_diff().iter_hunks() {
            for line in hunk_text(&hunk).split_inclusive('\n') {
                if lines == most_lines || difference.hunks.len() + line.len() > most_bytes {
                    difference.truncated = true;
                    return difference;
                }
                lines += 1;
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

fn hunk_text(hunk: &UnifiedDiffHunk<'_, '_, '_, str>) -> String {
    let mut text = format!("{}\n", hunk.header());
    for change in hunk.iter_changes() {
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
