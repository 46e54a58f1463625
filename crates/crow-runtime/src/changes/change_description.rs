//! Converts snapshot changes into descriptions for results, logs and users.

use std::{
    os::unix::ffi::OsStrExt as _,
    time::{Duration, Instant},
};

use crow_core::tool::{ChangeCounts, FileChange, FileContents, FileDiff, NotRestorable, Patch};

use crate::{ContentRef, NotCoveredReason, PathChange, SnapshotEntry, SnapshotStore};

/// Maximum number of files compared line by line.
const COMPARED_FILES: usize = 50;
/// Largest file compared line by line, in bytes.
const COMPARED_BYTES: u64 = 1024 * 1024;
/// Maximum size of the hunks of all files together, in bytes.
const HUNKS: usize = 64 * 1024;
/// Time limit for comparing files.
const TIME: Duration = Duration::from_millis(200);
/// Maximum number of paths listed.
const NAMED: usize = 1000;
/// Maximum number of non-restorable paths listed.
const NAMED_LOST: usize = 20;

/// The changes as they appear in the result of a call.
#[derive(Debug, Default)]
pub(crate) struct ChangeDescription {
    pub(crate) files: Vec<std::path::PathBuf>,
    pub(crate) patch: Patch,
    pub(crate) counts: ChangeCounts,
    pub(crate) not_restorable: Vec<NotRestorable>,
}

/// The remaining budget for comparisons.
#[derive(Debug, Clone, Copy)]
struct DiffBounds {
    files: usize,
    hunks: usize,
    until: Instant,
}

/// Describes changes within the limits above. Folders are not listed, only their contents.
pub(crate) fn describe(store: &SnapshotStore, changes: &[PathChange]) -> ChangeDescription {
    let mut described = ChangeDescription::default();
    let mut budget =
        DiffBounds { files: COMPARED_FILES, hunks: HUNKS, until: Instant::now() + TIME };
    for change in changes {
        if let Some(reason) = loss_reason(change)
            && described.not_restorable.len() < NAMED_LOST
        {
            let path = as_text(&change.path);
            described.not_restorable.push(NotRestorable { path, reason });
        }
        let Some(kind) = kind(change) else { continue };
        let counts = &mut described.counts;
        *match kind {
            FileChange::Created => &mut counts.created,
            FileChange::Modified => &mut counts.modified,
            FileChange::Deleted => &mut counts.deleted,
        } += 1;
        if described.files.len() < NAMED {
            described.files.push(as_text(&change.path));
        }
        if budget.files > 0 && budget.hunks > 0 && Instant::now() < budget.until {
            budget.files -= 1;
            for diff in file_diffs(store, change, FileDiff::of_text) {
                budget.hunks = budget.hunks.saturating_sub(diff.hunks.len());
                counts.additions += diff.additions;
                counts.deletions += diff.deletions;
                described.patch.files.push(FileDiff { path: as_text(&diff.path), ..diff });
            }
        }
    }
    described
}

/// Describes changes without limits.
pub(crate) fn describe_all(store: &SnapshotStore, changes: &[PathChange]) -> Patch {
    let whole = |change| file_diffs(store, change, FileDiff::of_whole_text);
    let mut files = Vec::new();
    for change in changes {
        for mut diff in whole(change) {
            if diff.truncated && diff.hunks.is_empty() {
                diff.contents = contents(store, change, diff.change);
            }
            files.push(diff);
        }
    }
    Patch { files }
}

/// Returns the content of a path before and after a change, if both are known. A file that became a link is described
/// as a deletion and a creation.
fn contents(store: &SnapshotStore, change: &PathChange, kind: FileChange) -> Option<FileContents> {
    let read = |entry: &SnapshotEntry| match entry {
        SnapshotEntry::File { content: ContentRef::Stored(_), .. } => store.read(entry).ok(),
        SnapshotEntry::Link { target } => Some(target.as_bytes().to_vec()),
        SnapshotEntry::Absent | SnapshotEntry::Folder { .. } => Some(Vec::new()),
        SnapshotEntry::File { content: ContentRef::NotStored { .. }, .. }
        | SnapshotEntry::Unscanned { .. } => None,
    };
    let before = if kind == FileChange::Created { Vec::new() } else { read(&change.before)? };
    let after = if kind == FileChange::Deleted { Vec::new() } else { read(&change.after)? };
    Some(FileContents { before, after })
}

/// Converts a path to valid UTF-8 for logs, which are text. Snapshots keep the exact name.
fn as_text(path: &std::path::Path) -> std::path::PathBuf {
    path.to_string_lossy().into_owned().into()
}

/// Returns the reason why a change cannot be undone, if it cannot.
fn loss_reason(change: &PathChange) -> Option<String> {
    match (&change.before, &change.after) {
        // A repository is never removed by an undo, so nothing is lost.
        (SnapshotEntry::Absent, SnapshotEntry::Unscanned { why: NotCoveredReason::Repository }) => {
            None
        }
        (
            SnapshotEntry::File { content: ContentRef::NotStored { why, .. }, .. }
            | SnapshotEntry::Unscanned { why },
            _,
        )
        | (_, SnapshotEntry::Unscanned { why }) => Some(why.to_string()),
        _ => None,
    }
}

/// Returns the kind of change of a file or link, `None` for folders.
fn kind(change: &PathChange) -> Option<FileChange> {
    let is_file = |entry: &SnapshotEntry| {
        matches!(entry, SnapshotEntry::File { .. } | SnapshotEntry::Link { .. })
    };
    let is_left_out = |entry: &SnapshotEntry| matches!(entry, SnapshotEntry::Unscanned { .. });
    match (&change.before, &change.after) {
        (SnapshotEntry::Absent, SnapshotEntry::Unscanned { why: NotCoveredReason::Repository }) => {
            None
        }
        (before, after) if is_file(before) && is_file(after) => Some(FileChange::Modified),
        (before, _) if is_file(before) || is_left_out(before) => Some(FileChange::Deleted),
        (_, after) if is_file(after) || is_left_out(after) => Some(FileChange::Created),
        _ => None,
    }
}

/// Compares two texts, limited or completely.
type DiffFunction = fn(&std::path::Path, &str, &str) -> FileDiff;

/// Describes a change. Like git, describes a file that became a link as a deletion and a creation, and the reverse.
fn file_diffs(store: &SnapshotStore, change: &PathChange, compare: DiffFunction) -> Vec<FileDiff> {
    let parts = match (&change.before, &change.after) {
        (before @ SnapshotEntry::File { .. }, after @ SnapshotEntry::Link { .. })
        | (before @ SnapshotEntry::Link { .. }, after @ SnapshotEntry::File { .. }) => {
            let path = || change.path.clone();
            vec![
                PathChange { path: path(), before: before.clone(), after: SnapshotEntry::Absent },
                PathChange { path: path(), before: SnapshotEntry::Absent, after: after.clone() },
            ]
        }
        _ => vec![change.clone()],
    };
    let described = |part| Some(file_diff(store, part, kind(part)?, compare));
    parts.iter().filter_map(described).collect()
}

fn file_diff(
    store: &SnapshotStore,
    change: &PathChange,
    kind: FileChange,
    compare: DiffFunction,
) -> FileDiff {
    let mut diff = FileDiff::without_lines(&change.path);
    if has_same_content(change) {
        diff.truncated = false;
    } else if let (Some(old), Some(new)) = (text(store, &change.before), text(store, &change.after))
    {
        diff = compare(&change.path, &old, &new);
    }
    diff.change = kind;
    diff.note = note(change, diff.truncated && diff.hunks.is_empty());
    diff
}

/// Returns true if only the mode of a file changed, so that its lines need no comparison.
fn has_same_content(change: &PathChange) -> bool {
    matches!(
        (&change.before, &change.after),
        (
            SnapshotEntry::File { content: ContentRef::Stored(old), .. },
            SnapshotEntry::File { content: ContentRef::Stored(new), .. },
        ) if old == new
    )
}

/// Returns the text of an entry: file content, or the target of a link. Absent entries and folders count as empty;
/// `None` for binary, large and unstored files.
fn text(store: &SnapshotStore, entry: &SnapshotEntry) -> Option<String> {
    match entry {
        SnapshotEntry::File { size, content: ContentRef::Stored(_), .. }
            if *size <= COMPARED_BYTES =>
        {
            let bytes = store.read(entry).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            (!text.contains('\0')).then_some(text)
        }
        SnapshotEntry::Link { target } => target.to_str().map(str::to_owned),
        SnapshotEntry::Absent | SnapshotEntry::Folder { .. } => Some(String::new()),
        SnapshotEntry::File { .. } | SnapshotEntry::Unscanned { .. } => None,
    }
}

/// Returns a note on what the lines do not show: sizes, links, modes, and why it cannot be undone.
fn note(change: &PathChange, no_lines: bool) -> String {
    let mut notes = Vec::new();
    if no_lines {
        let sizes = [size(&change.before), size(&change.after)];
        let is_large = sizes.into_iter().flatten().any(|size| size > COMPARED_BYTES);
        let kind = if is_large { "large" } else { "binary" };
        notes.push(match (size(&change.before), size(&change.after)) {
            (Some(old), Some(new)) => format!("{kind}, {old} -> {new} bytes"),
            (Some(old), None) => format!("{kind}, {old} bytes"),
            (None, Some(new)) => format!("{kind}, {new} bytes"),
            (None, None) => String::new(),
        });
    }
    if let SnapshotEntry::Link { target } = &change.before {
        notes.push(format!("was a link to {}", target.display()));
    }
    if let SnapshotEntry::Link { target } = &change.after {
        notes.push(format!("link to {}", target.display()));
    }
    if let (SnapshotEntry::File { mode: old, .. }, SnapshotEntry::File { mode: new, .. }) =
        (&change.before, &change.after)
        && old != new
    {
        notes.push(format!("mode {old:o} -> {new:o}"));
    }
    // Created and deleted executables: a patch must not lose their mode.
    if let (SnapshotEntry::File { mode, .. }, SnapshotEntry::Absent | SnapshotEntry::Folder { .. })
    | (SnapshotEntry::Absent | SnapshotEntry::Folder { .. }, SnapshotEntry::File { mode, .. }) =
        (&change.before, &change.after)
        && mode & 0o100 != 0
    {
        notes.push(format!("mode {mode:o}"));
    }
    notes.extend(loss_reason(change));
    notes.retain(|note| !note.is_empty());
    notes.join(", ")
}

fn size(entry: &SnapshotEntry) -> Option<u64> {
    match entry {
        SnapshotEntry::File { size, .. } => Some(*size),
        SnapshotEntry::Absent
        | SnapshotEntry::Link { .. }
        | SnapshotEntry::Folder { .. }
        | SnapshotEntry::Unscanned { .. } => None,
    }
}
