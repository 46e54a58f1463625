//! Summary of the file changes of a call.

use std::{fmt::Write as _, path::Path};

use crow_core::tool::{NotRestorable, ToolResult};

use super::{ConsoleStyle, one_line, paint::Paint, words, wrap::wrap};

/// Name of the shell tool. It can change any number of files, so its changes are summarised instead of shown as a diff.
pub(crate) const SHELL: &str = "bash";
/// Maximum number of files that are named.
const NAMED: usize = 3;

/// Returns true if the change is summarised: it comes from the shell, or the diff lacks some of the changed files.
pub(super) fn is_summarised(tool: &str, result: &ToolResult) -> bool {
    let Some(counts) = &result.metadata.changes else { return false };
    let in_diff = result.metadata.diff.as_ref().map_or(0, |patch| patch.files.len() as u64);
    counts.paths() > 0 && (tool == SHELL || counts.paths() > in_diff)
}

/// Renders the summary of the changes, and below it the limits of an undo: changes that cannot be restored or may be
/// foreign.
pub(super) fn change_summary(style: &ConsoleStyle, tool: &str, result: &ToolResult) -> String {
    let mut lines = String::new();
    if is_summarised(tool, result) {
        lines.push_str(&wrap(style, Paint::Dim, "  ", &summary(result)));
    }
    let irreversible = &result.metadata.not_restorable;
    if !irreversible.is_empty() {
        lines.push_str(&wrap(style, Paint::Yellow, "  ", &cannot_be_undone(irreversible)));
    }
    if result.metadata.shared {
        let text = "others may have made some of these changes; an undo leaves those alone";
        lines.push_str(&wrap(style, Paint::Dim, "  ", text));
    }
    lines
}

fn summary(result: &ToolResult) -> String {
    let counts = result.metadata.changes.unwrap_or_default();
    let mut text = format!("{} changed", words::count(counts.paths(), "file"));
    // Writing to a string cannot fail.
    if counts.additions + counts.deletions > 0 {
        let _ = write!(text, ", +{} -{}", counts.additions, counts.deletions);
    }
    for (count, kind) in [(counts.created, "new"), (counts.deleted, "deleted")] {
        if count > 0 {
            let _ = write!(text, ", {count} {kind}");
        }
    }
    let files = &result.metadata.files_modified;
    if !files.is_empty() && files.len() <= NAMED && files.len() as u64 == counts.paths() {
        let names: Vec<_> = files.iter().map(|file| name(file)).collect();
        let _ = write!(text, ": {}", names.join(", "));
    }
    text
}

fn cannot_be_undone(irreversible: &[NotRestorable]) -> String {
    let mut names: Vec<_> = irreversible
        .iter()
        .take(NAMED)
        .map(|change| format!("{} ({})", name(&change.path), one_line(&change.reason)))
        .collect();
    if irreversible.len() > NAMED {
        names.push(format!("{} more", irreversible.len() - NAMED));
    }
    format!("{} cannot be undone: {}", irreversible.len(), names.join(", "))
}

/// Returns the last component of a path; the title of the call shows the directory.
fn name(path: &Path) -> String {
    let last = path.file_name().unwrap_or(path.as_os_str());
    one_line(&last.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use crow_core::tool::{ChangeCounts, FileDiff, Patch};

    use super::*;

    fn result(files: &[&str], counts: ChangeCounts) -> ToolResult {
        let mut result = ToolResult::success("");
        result.metadata.files_modified = files.iter().map(Into::into).collect();
        result.metadata.changes = Some(counts);
        let files = files.iter().map(|file| FileDiff::of_text(Path::new(file), "a\n", "b\n"));
        result.metadata.diff = Some(Patch { files: files.collect() });
        result
    }

    fn counts(created: u64, modified: u64, deleted: u64) -> ChangeCounts {
        ChangeCounts { created, deleted, modified, additions: 5, deletions: 2 }
    }

    fn shown(tool: &str, result: &ToolResult) -> String {
        change_summary(&ConsoleStyle::plain(80), tool, result)
    }

    #[test]
    fn the_summary_of_a_command_names_up_to_three_files() {
        let table = [
            (vec!["/p/a.md"], counts(0, 1, 0), "  1 file changed, +5 -2: a.md\n"),
            (
                vec!["/p/a.md", "/p/\u{1b}b.md", "/p/c"],
                counts(1, 1, 1),
                "  3 files changed, +5 -2, 1 new, 1 deleted: a.md, ␛b.md, c\n",
            ),
            (
                vec!["/p/a", "/p/b", "/p/c", "/p/d"],
                counts(0, 0, 4),
                "  4 files changed, +5 -2, 4 deleted\n",
            ),
        ];
        for (files, counts, expected) in table {
            assert_eq!(shown("bash", &result(&files, counts)), expected);
        }
        assert_eq!(shown("bash", &ToolResult::success("nothing changed")), "");
    }

    #[test]
    fn an_edit_is_summarised_only_if_its_diff_is_incomplete() {
        assert_eq!(shown("edit_file", &result(&["/p/a.md"], counts(0, 1, 0))), "");
        let summary = shown("my_tool", &result(&["/p/a.md"], counts(0, 9, 0)));
        assert_eq!(summary, "  9 files changed, +5 -2\n");
    }

    #[test]
    fn irreversible_changes_are_named_with_the_reason() {
        let lost = |path: &str| NotRestorable { path: path.into(), reason: "too large".into() };
        let mut result = result(&["/p/a"], counts(0, 1, 0));
        result.metadata.not_restorable = vec![lost("/p/big.bin")];
        assert!(shown("bash", &result).contains("1 cannot be undone: big.bin (too large)"));
        result.metadata.not_restorable = ["/a", "/b", "/c", "/d", "/e"].map(lost).to_vec();
        assert!(shown("bash", &result).contains("c (too large), 2 more"));
        result.metadata.shared = true;
        assert!(shown("bash", &result).ends_with("an undo leaves those alone\n"));
    }
}
