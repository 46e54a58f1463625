//! The changes that `diff` shows: those between two points of a session, all of them or those below some paths.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use crow_core::tool::Patch;
use crow_runtime::{RestorePoint, UndoError, UndoJournal};

use super::arguments::{DiffRequest, Span};
use crate::quoted_path::unquoted;

/// The changes cannot be determined.
#[derive(Debug)]
pub(crate) enum DiffRefusal {
    /// The argument is not a point or a range of a session.
    Words(String),
    Undo(UndoError),
}

impl From<UndoError> for DiffRefusal {
    fn from(error: UndoError) -> Self {
        Self::Undo(error)
    }
}

impl DiffRefusal {
    /// Returns true if the argument names no known point, and so may name a path.
    fn may_be_path(&self) -> bool {
        matches!(self, Self::Words(_) | Self::Undo(UndoError::UnknownCall { .. }))
    }
}

/// Returns the requested changes. Paths are relative to `cwd`. An argument that names no call is taken as a path if
/// something changed there.
pub(crate) fn diff_of(
    journal: &UndoJournal,
    request: &DiffRequest,
    cwd: &Path,
) -> Result<Patch, DiffRefusal> {
    let retain_below = |paths: &[OsString], mut patch: Patch| {
        let paths: Vec<_> = paths.iter().map(|path| absolute(path, journal.roots(), cwd)).collect();
        patch.files.retain(|file| paths.iter().any(|path| file.path.starts_with(path)));
        patch
    };
    let DiffRequest { selector: what, paths } = request;
    let span_patch = what.as_deref().map_or(Ok(Span::WHOLE), span).and_then(|span| {
        let patch = journal.diff(&span.from, &span.to)?;
        span.check(journal.calls()).map_err(DiffRefusal::Words)?;
        Ok(patch)
    });
    match (span_patch, what) {
        (Ok(patch), _) if paths.is_empty() => Ok(patch),
        (Ok(patch), _) => Ok(retain_below(paths, patch)),
        (Err(refusal), Some(what)) if paths.is_empty() && refusal.may_be_path() => {
            let patch_of_session = journal.diff(&RestorePoint::Start, &RestorePoint::End)?;
            let patch = retain_below(std::slice::from_ref(what), patch_of_session);
            if patch.files.is_empty() { Err(refusal) } else { Ok(patch) }
        }
        (Err(refusal), _) => Err(refusal),
    }
}

fn span(argument: &OsStr) -> Result<Span, DiffRefusal> {
    argument.to_string_lossy().parse().map_err(DiffRefusal::Words)
}

/// Makes a path absolute and resolves `.` and `..` without reading the disk, since the file may be gone. If the current
/// directory is in none of the session's folders, the path is relative to the first of them.
pub(crate) fn absolute(path: &OsStr, roots: &[PathBuf], cwd: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    let is_inside = roots.iter().any(|root| cwd.starts_with(root));
    let base = roots.first().filter(|_| !is_inside).map_or(cwd, PathBuf::as_path);
    for part in base.join(unquoted(path)).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => result.push(part),
        }
    }
    result
}
