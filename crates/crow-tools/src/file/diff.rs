//! The difference between two contents of a file, as people and models read it.

use std::{path::Path, time::Duration};

use crow_core::tool::FileDiff;
use similar::{ChangeTag, TextDiff};

use super::Text;

/// How many lines of hunks are kept.
const MAX_LINES: usize = 200;
/// How many bytes of hunks are kept: a few lines may be very long.
const MAX_BYTES: usize = 32 * 1024;
/// After this time a diff no longer has to be the smallest one.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Compares two contents of a file. A binary one has no lines to show.
pub(crate) fn file_diff(path: &Path, old: &[u8], new: &[u8]) -> FileDiff {
    let mut difference = FileDiff {
        path: path.to_owned(),
        additions: 0,
        deletions: 0,
        hunks: String::new(),
        truncated: true,
    };
    let (Some(old), Some(new)) = (Text::decode(old), Text::decode(new)) else { return difference };
    let diff = TextDiff::configure()
        .timeout(TIMEOUT)
        .diff_lines(old.content.as_ref(), new.content.as_ref());
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => difference.additions += 1,
            ChangeTag::Delete => difference.deletions += 1,
            ChangeTag::Equal => {}
        }
    }
    difference.truncated = false;
    let mut lines = 0;
    for hunk in diff.unified_diff().iter_hunks() {
        for line in hunk.to_string().split_inclusive('\n') {
            if lines == MAX_LINES || difference.hunks.len() + line.len() > MAX_BYTES {
                difference.truncated = true;
                return difference;
            }
            lines += 1;
            difference.hunks.push_str(line);
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> FileDiff {
        file_diff(Path::new("/p/a"), old.as_bytes(), new.as_bytes())
    }

    #[test]
    fn a_change_is_counted_and_shown_with_its_surroundings() {
        let difference = diff("a\nb\nc\n", "a\nB\nc\nd\n");
        assert_eq!((difference.additions, difference.deletions), (2, 1));
        assert_eq!(difference.hunks, "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n");
        assert!(!difference.truncated);
    }

    #[test]
    fn a_long_diff_is_cut_at_200_lines_and_counted_whole() {
        let new = "x\n".repeat(1000);
        let difference = diff("", &new);
        assert_eq!((difference.additions, difference.hunks.lines().count()), (1000, 200));
        assert!(difference.truncated);
    }

    #[test]
    fn a_diff_of_one_huge_line_stays_small() {
        let difference = diff("a", &"x".repeat(1_000_000));
        assert!(difference.truncated && difference.hunks.len() < MAX_BYTES);
    }

    #[test]
    fn a_binary_content_has_no_hunks() {
        let difference = diff("a\0", "b");
        assert!(difference.truncated && difference.hunks.is_empty());
    }
}
