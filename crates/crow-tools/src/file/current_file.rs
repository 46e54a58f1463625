//! The current state of a file that a tool is about to change.

use std::path::Path;

use crow_core::{
    file_views::{ContentHash, FileViews},
    tool::Preview,
};
use crow_fs::{Directory, EntryName};

use super::{
    LoadError,
    load::{load_opened, open_entry},
};
use crate::paths::AllowedPath;

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
    nearest: Directory,
    /// The missing directories between that one and the file, the outermost first.
    missing: Vec<EntryName>,
    name: EntryName,
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

    /// Returns the nearest directory above it that existed when it was loaded.
    pub(super) fn nearest(&self) -> &Directory {
        &self.nearest
    }

    /// Returns the directories below the nearest one that were missing, the outermost first.
    pub(super) fn missing(&self) -> &[EntryName] {
        &self.missing
    }

    /// Returns its name in its directory.
    pub(super) fn name(&self) -> &EntryName {
        &self.name
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
