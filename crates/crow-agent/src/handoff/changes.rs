//! Changes of files in the form in which a coagent reads them.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use crow_core::tool::{FileChange, FileDiff, Patch};

use super::{bundle::truncate_middle, digest::TurnCall};

/// Most bytes of one file's diff.
const FILE: usize = 3000;
/// Most bytes of all diffs.
const ALL: usize = 12_000;
/// Most files that are listed.
const FILES: usize = 60;

/// Writes a patch, file by file.
pub(super) fn of_patch(patch: &Patch) -> String {
    write(patch.files.iter())
}

/// Writes the changes that calls made. A file that several calls changed has a diff for each of them.
pub(super) fn of_calls(calls: &[TurnCall]) -> String {
    let mut files: BTreeMap<&Path, Vec<&FileDiff>> = BTreeMap::new();
    let diffs = calls.iter().filter_map(|call| call.diff.as_ref());
    for diff in diffs.flat_map(|patch| &patch.files) {
        files.entry(&diff.path).or_default().push(diff);
    }
    write(files.into_values().flatten())
}

fn write<'a>(diffs: impl Iterator<Item = &'a FileDiff>) -> String {
    let mut text = String::new();
    let mut unnamed = 0_usize;
    for (index, diff) in diffs.enumerate() {
        if index >= FILES {
            unnamed += 1;
            continue;
        }
        let mark = match diff.change {
            FileChange::Created => "A",
            FileChange::Modified => "M",
            FileChange::Deleted => "D",
        };
        // Writing to a string cannot fail.
        let _ =
            write!(text, "{mark} {} +{} -{}", diff.path.display(), diff.additions, diff.deletions);
        if !diff.note.is_empty() {
            let _ = write!(text, " ({})", diff.note);
        }
        text.push('\n');
        let space = ALL.saturating_sub(text.len()).min(FILE);
        if space > 0 && !diff.hunks.is_empty() {
            text.push_str(truncate_middle(diff.hunks.trim_end(), space).trim_end());
            text.push('\n');
        }
        if diff.truncated {
            text.push_str("[more of this change is not shown]\n");
        }
    }
    if unnamed > 0 {
        let _ = writeln!(text, "[{unnamed} more changes are not shown]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named_and_no_difference_takes_all_the_space() {
        let big = FileDiff::of_text(Path::new("big.rs"), "", &"let x = 1;\n".repeat(5000));
        let small = FileDiff::of_text(Path::new("small.rs"), "a\n", "b\n");
        let gone = FileDiff {
            change: FileChange::Deleted,
            ..FileDiff::of_text(Path::new("gone.rs"), "x\n", "")
        };
        let text = of_patch(&Patch { files: vec![big, small, gone] });
        for part in ["M big.rs +5000 -0", "M small.rs +1 -1", "-a\n+b", "D gone.rs +0 -1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.len() < 4000, "{}", text.len());
    }

    #[test]
    fn files_beyond_the_bound_are_counted() {
        let files = (0..100).map(|i| FileDiff::of_text(Path::new(&format!("f{i}")), "a\n", "b\n"));
        let text = of_patch(&Patch { files: files.collect() });
        assert!(text.ends_with("[40 more changes are not shown]\n"), "{text}");
    }
}
