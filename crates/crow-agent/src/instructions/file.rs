//! Reading the file with the instructions of a folder.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crow_core::{
    event::InstructionAuthor,
    file_views::ContentHash,
    permission::{SandboxPaths, is_secret_file_in},
    workspace::Workspace,
};
use crow_fs::{EntryKind, EntryMetadata};

/// Names of the files with a folder's instructions; the first one that has text counts.
pub(super) const NAMES: [&str; 3] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md"];
/// Most bytes that are read of a file; more than are ever shown.
const MOST_READ: u64 = 128 * 1024;

/// The instructions of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstructionText {
    /// The file, by the name under which it was found.
    pub(super) path: PathBuf,
    /// The file with all links followed.
    pub(super) real: PathBuf,
    pub(super) author: InstructionAuthor,
    /// Its text, as far as it was read.
    pub(super) text: String,
    /// True if it was read to its end.
    pub(super) is_complete: bool,
    /// Its size in bytes.
    pub(super) bytes: u64,
    pub(super) hash: ContentHash,
}

/// A flaw of a file that is named like one with instructions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstructionFlaw {
    /// The file.
    pub path: PathBuf,
    /// The flaw.
    pub kind: InstructionFlawKind,
}

/// The kinds of [`InstructionFlaw`]. All but `NotUtf8` keep the file from being used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InstructionFlawKind {
    /// It has no text.
    Empty,
    /// It is a directory, a pipe, a device.
    NotAFile,
    /// It is a link to something outside of the repository, or to nothing.
    LinkOutside,
    /// It is a link to a file that may contain keys, or that commands cannot see.
    LinkToSecret,
    /// It is not text.
    NotText,
    /// It is text with bytes that are not UTF-8; these are shown as `U+FFFD`.
    NotUtf8,
    /// It cannot be read; the message of the file system.
    Unreadable(String),
}

impl InstructionFlaw {
    /// Returns true if the user should know of the flaw: an empty file is no mistake.
    pub fn is_worth_a_warning(&self) -> bool {
        self.kind != InstructionFlawKind::Empty
    }
}

impl fmt::Display for InstructionFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.kind {
            InstructionFlawKind::Empty => f.write_str("it is empty"),
            InstructionFlawKind::NotAFile => f.write_str("not used, because it is no regular file"),
            InstructionFlawKind::LinkOutside => {
                f.write_str("not used, because it is a link that leads out of the repository")
            }
            InstructionFlawKind::LinkToSecret => {
                f.write_str("not used, because it is a link to a file that may contain keys")
            }
            InstructionFlawKind::NotText => f.write_str("not used, because it is not text"),
            InstructionFlawKind::NotUtf8 => {
                f.write_str("it is not UTF-8; the bytes that are not are shown as \u{fffd}")
            }
            InstructionFlawKind::Unreadable(error) => {
                write!(f, "not used, because it cannot be read: {error}")
            }
        }
    }
}

/// The files that may be read as instructions.
#[derive(Debug, Clone, Copy)]
pub(super) enum InstructionScope<'a> {
    /// Files of the user's own configuration, wherever their links lead.
    User,
    /// Files beneath the root of a repository, resolved, that are not kept from commands.
    Repository { root: &'a Path, workspace: &'a Workspace, places: &'a SandboxPaths },
}

impl InstructionScope<'_> {
    fn author(self) -> InstructionAuthor {
        match self {
            Self::User => InstructionAuthor::User,
            Self::Repository { .. } => InstructionAuthor::Repository,
        }
    }

    /// Checks the target of a link.
    fn check_target(self, real: &Path) -> Result<(), InstructionFlawKind> {
        let Self::Repository { root, workspace, places } = self else { return Ok(()) };
        if !real.starts_with(root) {
            return Err(InstructionFlawKind::LinkOutside);
        }
        if is_secret_file_in(real, workspace) || places.hides(real, workspace) {
            return Err(InstructionFlawKind::LinkToSecret);
        }
        Ok(())
    }
}

/// Reads the instructions of a folder, which must be resolved, and adds the flaws of its files. Blocks; never waits for
/// another process.
pub(super) fn read_folder(
    folder: &Path,
    scope: InstructionScope<'_>,
    flaws: &mut Vec<InstructionFlaw>,
) -> Option<InstructionText> {
    NAMES.iter().find_map(|name| {
        let path = folder.join(name);
        let flaw = |kind| InstructionFlaw { path: path.clone(), kind };
        match read_text(&path, scope) {
            Ok(Some((text, is_lossy))) => {
                flaws.extend(is_lossy.then(|| flaw(InstructionFlawKind::NotUtf8)));
                Some(text)
            }
            Ok(None) => None,
            Err(kind) => {
                flaws.push(flaw(kind));
                None
            }
        }
    })
}

/// Reads a file. Returns `None` if there is none, and with the text whether some bytes of it could not be decoded.
fn read_text(
    path: &Path,
    scope: InstructionScope<'_>,
) -> Result<Option<(InstructionText, bool)>, InstructionFlawKind> {
    let unreadable = |error: io::Error| InstructionFlawKind::Unreadable(error.to_string());
    // 1) Resolve the path: a link is followed if its target may be read.
    let metadata = match crow_fs::metadata_through_links(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let real = match metadata.kind {
        EntryKind::File => path.to_path_buf(),
        EntryKind::Directory | EntryKind::Special => return Err(InstructionFlawKind::NotAFile),
        EntryKind::Symlink => {
            let real = match crow_fs::canonicalize(path) {
                Ok(real) => real,
                Err(error) if is_absence(&error) => return Err(InstructionFlawKind::LinkOutside),
                Err(error) => return Err(unreadable(error)),
            };
            scope.check_target(&real)?;
            real
        }
    };
    // 2) Open and read it by the resolved path, on which no link can appear meanwhile.
    let file = crow_fs::open_file(&real).map_err(unreadable)?;
    let metadata = EntryMetadata::of_file(&file).map_err(unreadable)?;
    if metadata.kind != EntryKind::File {
        return Err(InstructionFlawKind::NotAFile);
    }
    let mut content = Vec::new();
    file.take(MOST_READ).read_to_end(&mut content).map_err(unreadable)?;
    // 3) Decode it.
    if content.contains(&0) {
        return Err(InstructionFlawKind::NotText);
    }
    let hash = ContentHash::of_content(&content);
    let bytes = metadata.size.max(content.len() as u64);
    let is_complete = content.len() as u64 == bytes;
    let (text, is_lossy) = decode(content, is_complete);
    if text.trim().is_empty() {
        return Err(InstructionFlawKind::Empty);
    }
    let (path, author) = (path.to_path_buf(), scope.author());
    Ok(Some((InstructionText { path, real, author, text, is_complete, bytes, hash }, is_lossy)))
}

/// Returns true if an error means that nothing has this name.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Decodes the content of a file. Returns true with it if some bytes were not UTF-8. If it is not complete, the part of a
/// character at its end is dropped.
fn decode(mut content: Vec<u8>, is_complete: bool) -> (String, bool) {
    if !is_complete
        && let Err(error) = std::str::from_utf8(&content)
        && error.error_len().is_none()
    {
        content.truncate(error.valid_up_to());
    }
    let text = String::from_utf8_lossy(&content);
    let is_lossy = matches!(text, Cow::Owned(_));
    (text.trim_start_matches('\u{feff}').to_owned(), is_lossy)
}
