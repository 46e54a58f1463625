//! Notices to the model about undos.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{ChangedCall, PathOutcome, RestoredPath, UndoAction};

/// Maximum number of calls and paths in a notice.
const NAMED: usize = 30;

/// Returns the notice of an undo for the model, or `None` if no path was restored.
pub(super) fn notice(
    action: UndoAction,
    calls: &[&ChangedCall],
    paths: &[RestoredPath],
    root: &Path,
) -> Option<String> {
    let restored: Vec<String> = paths.iter().filter_map(|path| restored_name(path, root)).collect();
    if restored.is_empty() {
        return None;
    }
    let mut text = match action {
        UndoAction::Undo => "The user undid some of your changes.".to_owned(),
        UndoAction::Redo => "The user reverted an undo: your changes are back.".to_owned(),
        UndoAction::Restore => "The user put files back into an earlier state.".to_owned(),
    };
    if !calls.is_empty() {
        let titles: Vec<String> =
            calls.iter().map(|call| format!("{} ({})", call.title, call.tool)).collect();
        let _ = write!(text, " Calls: {}.", list(&titles, "; "));
    }
    let _ = write!(text, "\nNo longer as you left them: {}.", list(&restored, ", "));
    let unrestored: Vec<String> = paths
        .iter()
        .filter(|path| !path.is_done())
        .map(|path| relative(&path.path, root))
        .collect();
    if !unrestored.is_empty() {
        let _ = write!(text, "\nLeft as they are: {}.", list(&unrestored, ", "));
    }
    text.push_str("\nRead them again before you change them, and do not repeat what was undone unless asked to.");
    Some(text)
}

/// Returns the notice about changes that remain although the conversation was rewound to before them, or `None` if
/// there are none.
pub(super) fn remaining_changes_notice<'a>(
    remaining: impl Iterator<Item = &'a PathBuf>,
    root: &Path,
) -> Option<String> {
    let remaining: Vec<String> = remaining.map(|path| relative(path, root)).collect();
    (!remaining.is_empty()).then(|| {
        format!(
            "The user took back a part of the conversation. Changes made in it stay in: {}. Read them before you change them.",
            list(&remaining, ", ")
        )
    })
}

fn restored_name(path: &RestoredPath, root: &Path) -> Option<String> {
    use crow_core::tool::FileChange;
    let PathOutcome::Restored { how, .. } = &path.outcome else { return None };
    let word = match how {
        FileChange::Created => " (there again)",
        FileChange::Modified => "",
        FileChange::Deleted => " (removed)",
    };
    Some(relative(&path.path, root) + word)
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn list(words: &[String], between: &str) -> String {
    let named = words.iter().take(NAMED).cloned().collect::<Vec<_>>().join(between);
    match words.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{named}{between}and {more} more"),
        _ => named,
    }
}
