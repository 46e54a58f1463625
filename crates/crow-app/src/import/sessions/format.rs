//! The interface that the readers of the programs' session files implement.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crow_core::ids::SessionId;

use super::conversation::ImportedConversation;

/// A session and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::import) struct SessionFile {
    pub(in crate::import) path: PathBuf,
    /// The id of the session, for one of several in a file.
    pub(in crate::import) session: Option<String>,
}

/// The session files of a program.
pub(in crate::import) trait SessionFormat: fmt::Debug + Send + Sync {
    /// Returns the files, sorted.
    ///
    /// # Errors
    /// Fails if they cannot be found although the program has been used.
    fn files(&self) -> Result<Vec<SessionFile>, String>;

    /// Returns the directory that the session of a file was held in, without reading all of the file; `None` if the file is that
    /// of no session of its own.
    ///
    /// # Errors
    /// Fails if it cannot be read, or does not say.
    fn cwd(&self, file: &SessionFile) -> Result<Option<PathBuf>, String>;

    /// Reads a file.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is written in a newer format. Parts that cannot be read are among the notes.
    fn read(&self, file: &SessionFile) -> Result<ImportedConversation, String>;
}

/// Returns files with one session each.
pub(super) fn single_files(paths: impl IntoIterator<Item = PathBuf>) -> Vec<SessionFile> {
    let mut files: Vec<_> =
        paths.into_iter().map(|path| SessionFile { path, session: None }).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Returns the name of a file without its ending.
pub(super) fn file_stem(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the id that a session gets here; `None` if that of the other program cannot be part of it.
pub(in crate::import) fn session_id(program: &str, id: &str) -> Option<SessionId> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let is_allowed = !id.is_empty() && id.len() <= LONGEST_ID && id.chars().all(is_plain);
    is_allowed.then(|| SessionId::new(format!("{program}-{id}")))
}

/// Maximum length of an id of another program, in bytes.
const LONGEST_ID: usize = 100;
