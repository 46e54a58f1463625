//! What `diff` shows of a session: what changed between two points, all of it or below some paths.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use crow_core::tool::Patch;
use crow_runtime::{RestorePoint, UndoError, UndoJournal};

use super::words::{DiffRequest, Span};
use crate::quoted_path::unquoted;

/// Why there is no difference to show.
#[derive(Debug)]
pub(crate) enum DiffRefusal {
    /// The words are no point and no range of a session.
    Words(String),
    Undo(UndoError),
}

impl From<UndoError> for DiffRefusal {
    fn from(error: UndoError) -> Self {
        Self::Undo(error)
    }
}

impl DiffRefusal {
    /// Whether the words, which name no point, may name a path.
    fn may_be_path(&self) -> bool {
        matches!(self, Self::Words(_) | Self::Undo(UndoError::UnknownCall { .. }))
    }
}

/// Returns what changed. Paths begin in `cwd`. A word that names no call is taken for a path if something changed there.
pub(crate) fn diff_of(
    journal: &UndoJournal,
    request: &DiffRequest,
    cwd: &Path,
) -> Result<Patch, DiffRefusal> {
    let below = |paths: &[OsString], mut patch: Patch| {
        let paths: Vec<_> = paths.iter().map(|path| absolute(path, journal.roots(), cwd)).collect();
        patch.files.retain(|file| paths.iter().any(|path| file.path.starts_with(path)));
        patch
    };
    let DiffRequest { what, paths } = request;
    let spanned = what.as_deref().map_or(Ok(Span::WHOLE), span).and_then(|span| {
        let patch = journal.diff(&span.from, &span.to)?;
        span.check(journal.calls()).map_err(DiffRefusal::Words)?;
        Ok(patch)
    });
    match (spanned, what) {
        (Ok(patch), _) if paths.is_empty() => Ok(patch),
        (Ok(patch), _) => Ok(below(paths, patch)),
        (Err(refusal), Some(what)) if paths.is_empty() && refusal.may_be_path() => {
            let whole = journal.diff(&RestorePoint::Start, &RestorePoint::End)?;
            let patch = below(std::slice::from_ref(what), whole);
            if patch.files.is_empty() { Err(refusal) } else { Ok(patch) }
        }
        (Err(refusal), _) => Err(refusal),
    }
}

fn span(what: &OsStr) -> Result<Span, DiffRefusal> {
    let text = what.to_str().unwrap_or_default();
    text.parse().map_err(DiffRefusal::Words)
}

/// Makes a path absolute without asking the disk: what it names may be gone. Where the current directory is in none of the
/// folders of the session, the path begins in the first one.
pub(crate) fn absolute(path: &OsStr, roots: &[PathBuf], cwd: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    let is_in_one = roots.iter().any(|root| cwd.starts_with(root));
    let begin = roots.first().filter(|_| !is_in_one).map_or(cwd, PathBuf::as_path);
    for part in begin.join(unquoted(path)).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    whole
}
