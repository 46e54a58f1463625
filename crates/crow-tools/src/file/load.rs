//! Opening and loading of regular files, also of one that a tool is about to change. Other kinds are never opened, because
//! a pipe or device could block for ever.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use crow_core::{
    file_views::{ContentHash, FileViews},
    tool::Preview,
};
use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName};

use crate::paths::AllowedPath;

/// Size up to which files are loaded entirely, in bytes.
pub(crate) const MAX_WHOLE: u64 = 16 * 1024 * 1024;

/// A reason for which a file was not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("does not exist")]
    Missing,
    #[error("is a folder")]
    Folder,
    #[error("is {0}, not a regular file")]
    Special(&'static str),
    #[error("is larger than {} MiB", MAX_WHOLE >> 20)]
    TooLarge,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A regular file that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) metadata: EntryMetadata,
}

/// Opens the file that a call may read. Fails if it is not the file that was there when the call was planned.
pub(crate) fn open(path: &AllowedPath) -> Result<OpenFile, LoadError> {
    let open = open_any(path)?;
    path.check(open.metadata.identity)?;
    Ok(open)
}

/// Opens the file at a path, even if it was replaced since the call was planned: for [`load_opened`].
pub(crate) fn open_any(path: &AllowedPath) -> Result<OpenFile, LoadError> {
    if path.file_name().is_none() {
        return Err(LoadError::Folder);
    }
    let opened = Directory::open_parent(path)
        .map_err(missing)
        .and_then(|(directory, name)| open_entry(&directory, &name));
    if matches!(opened, Err(LoadError::Missing)) {
        path.check_missing()?;
    }
    opened
}

/// Opens a regular file in a directory.
pub(crate) fn open_entry(directory: &Directory, name: &EntryName) -> Result<OpenFile, LoadError> {
    // The first check keeps devices from being opened at all; the second one detects a replacement in between.
    check(&directory.metadata(name).map_err(missing)?)?;
    let file = directory.open_file(name).map_err(missing)?;
    let metadata = EntryMetadata::of_file(&file)?;
    check(&metadata)?;
    Ok(OpenFile { file, metadata })
}

/// Loads what [`open_any`] opened. A file that was replaced since the call was planned is accepted only with content
/// that the session knows: an earlier call of the same reply may have replaced it.
pub(crate) fn load_opened(
    path: &AllowedPath,
    open: OpenFile,
    views: &FileViews,
) -> Result<Vec<u8>, LoadError> {
    let identity = open.metadata.identity;
    let bytes = read_whole(open)?;
    let is_known =
        || views.get(path).is_some_and(|view| view.hash == ContentHash::of_content(&bytes));
    if path.is_planned(identity) || is_known() {
        Ok(bytes)
    } else {
        Err(AllowedPath::moved_error().into())
    }
}

/// Reads an open file entirely.
pub(crate) fn read_whole(open: OpenFile) -> Result<Vec<u8>, LoadError> {
    let OpenFile { file, metadata } = open;
    if metadata.size > MAX_WHOLE {
        return Err(LoadError::TooLarge);
    }
    // The size is only a hint: files of /proc report 0, and a file may grow.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.size).unwrap_or_default());
    file.take(MAX_WHOLE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_WHOLE { Err(LoadError::TooLarge) } else { Ok(bytes) }
}

fn missing(error: io::Error) -> LoadError {
    if error.kind() == io::ErrorKind::NotFound { LoadError::Missing } else { LoadError::Io(error) }
}

fn check(metadata: &EntryMetadata) -> Result<(), LoadError> {
    match metadata.kind {
        EntryKind::File => Ok(()),
        EntryKind::Directory => Err(LoadError::Folder),
        EntryKind::Symlink => Err(LoadError::Io(AllowedPath::moved_error())),
        EntryKind::Special => Err(LoadError::Special(metadata.describe_kind())),
    }
}

/// State of the session's knowledge of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewFreshness {
    /// The agent was shown this content or wrote it.
    Current,
    /// The agent was shown or wrote another content, which something else has changed since.
    Stale,
    /// The agent was never shown the file and never wrote it.
    Never,
}

/// The content of a file, or its absence. The directory stays open from then on, so that a change is saved in this
/// one and no other.
#[derive(Debug)]
pub(crate) struct CurrentFile {
    path: AllowedPath,
    /// The nearest directory above the file that exists.
    pub(super) nearest: Directory,
    /// The missing directories between that one and the file, the outermost first.
    pub(super) missing: Vec<EntryName>,
    /// The name of the file in its directory.
    pub(super) name: EntryName,
    content: Option<(Vec<u8>, ContentHash)>,
}

impl CurrentFile {
    /// Loads the file that a call may change. A missing file is no error.
    pub(crate) fn load(path: &AllowedPath, views: &FileViews) -> Result<Self, LoadError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(LoadError::Folder);
        };
        let (nearest, missing) = Directory::open_nearest(parent)?;
        let name = EntryName::new(name)?;
        let opened =
            if missing.is_empty() { open_entry(&nearest, &name) } else { Err(LoadError::Missing) };
        let content = match opened {
            Ok(open) => {
                let bytes = load_opened(path, open, views)?;
                let hash = ContentHash::of_content(&bytes);
                Some((bytes, hash))
            }
            Err(LoadError::Missing) => {
                path.check_missing()?;
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.clone(), nearest, missing, name, content })
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file exists.
    pub(crate) fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// Returns the bytes; empty if there is no file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.content.as_ref().map(|(bytes, _)| bytes.as_slice()).unwrap_or_default()
    }

    /// Returns the hash of the content, if there is a file.
    pub(crate) fn hash(&self) -> Option<&ContentHash> {
        self.content.as_ref().map(|(_, hash)| hash)
    }

    /// Returns what the session knows of this content.
    pub(crate) fn freshness(&self, views: &FileViews) -> ViewFreshness {
        match (views.get(&self.path), self.hash()) {
            (None, _) => ViewFreshness::Never,
            (Some(view), Some(hash)) if view.hash == *hash => ViewFreshness::Current,
            (Some(_), _) => ViewFreshness::Stale,
        }
    }

    /// Returns true if this is the content for which the user was shown a preview, or if there was no preview.
    pub(crate) fn was_previewed(&self, preview: Option<&Preview>) -> bool {
        preview.is_none_or(|preview| {
            preview
                .basis
                .iter()
                .filter(|(path, _)| **path == *self.path)
                .all(|(_, hash)| hash.as_ref() == self.hash())
        })
    }
}
